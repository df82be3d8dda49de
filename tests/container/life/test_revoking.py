"""Device numbers of GPUs that do not exist any more are denied to a running container and to those nested in it."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace as with_values
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.container.host.runtime import RUNTIMES
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.ledger import container as holder_of
from mesos_gpu.mesos.ids import ContainerId
from tests.support.container.box import MEM_BYTES, Box
from tests.support.container.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

C, NESTED = ContainerId("c"), ContainerId("c.n")
CAPS_MAJOR = 121
PROBE = """\
import errno, json, os, pathlib, stat, sys, time
devices = [os.makedev(*map(int, text.split(":"))) for text in sys.argv[1:]]
for number, device in enumerate(devices):
    os.mknod(f"node{number}", stat.S_IFCHR | 0o600, device)
while True:
    found = []
    for number in range(len(devices)):
        try:
            os.close(os.open(f"node{number}", os.O_RDONLY))
        except OSError as error:
            found.append(errno.errorcode[error.errno])
    pathlib.Path("new").write_text(json.dumps(found))
    os.rename("new", "found")
    time.sleep(0.02)
"""


def instance(slot: int, name: str) -> Gpu:
    caps = (2 * slot + 21, 2 * slot + 22)
    nodes = tuple(DeviceNode(f"/dev/nvidia-caps/nvidia-cap{cap}", CAPS_MAJOR, cap) for cap in caps)
    return Gpu(minor=0, index=0, uuid=f"MIG-{name}", name="MIG", mig=MigInstance("GPU-0", slot, 0, nodes))


def isolator(folder: Path, *gpus: Gpu) -> NvidiaGpuIsolator:
    return NvidiaGpuIsolator(gpus, NullDriver(), None, Checkpoints(folder / "gpus"))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("restarted", [True, False])
async def test_numbers_of_an_instance_that_is_gone_are_denied_and_then_given(
    box: Box, tmp_path: Path, runtime: str, restarted: bool
) -> None:
    first, second, new = instance(0, "first"), instance(1, "second"), instance(0, "new")
    isolation = isolator(tmp_path, first, second)
    containerizer = await box.open(isolator=isolation, runtimes=(runtime,))
    (tmp_path / "probe.py").write_text(PROBE)
    numbers = [f"{node.major}:{node.minor}" for gpu in (first, second) for node in (gpu.mig.nodes if gpu.mig else ())]
    argv = (sys.executable, "-S", str(tmp_path / "probe.py"), "195:0", *numbers)
    config = box.config("c", *argv, gpus=2, mem_bytes=4 * MEM_BYTES)
    await containerizer.launch(config)
    inner = replace(
        box.config("c.n", *argv, mem_bytes=0), cpus_milli=0, sandbox=config.sandbox / "n", shares_cgroup=True
    )
    inner.sandbox.mkdir()
    await containerizer.launch(inner)
    for one in (config, inner):
        until(lambda one=one: says(one.sandbox) == ["ENXIO"] * 5)
    if restarted:
        await containerizer.close()
        isolation.close()
        isolation = isolator(tmp_path, second)
        containerizer = await box.open([C, NESTED], isolator=isolation, runtimes=(runtime,))
        isolation.manage([second, new])
    else:
        isolation.manage([second, new])
        assert isolation.blocked == {"MIG-new"}
        await containerizer.revoke_stale()
    for one in (config, inner):
        until(lambda one=one: says(one.sandbox) == ["ENXIO", "EPERM", "EPERM", "ENXIO", "ENXIO"])
    holding = isolation.ledger.holdings[holder_of(C)]
    assert (isolation.held[C], isolation.blocked, {was.uuid for was in holding.lost}) == (
        {second},
        frozenset(),
        {"MIG-first"},
    )
    await containerizer.launch(box.config("b", *argv, gpus=1, mem_bytes=4 * MEM_BYTES))
    assert isolation.held[ContainerId("b")] == {new}
    shutil.copytree(tmp_path / "gpus", tmp_path / "later" / "gpus")
    with isolator(tmp_path / "later", second, with_values(new, uuid="MIG-newest")) as again:
        again.recover([C, ContainerId("b")])
        held = again.held[ContainerId("b")]
    assert held == {with_values(new, uuid="MIG-newest")}, "what was denied is claimed by none"
    await containerizer.destroy(C)
    await containerizer.destroy(ContainerId("b"))
    assert isolation.ledger.holdings == {}


def says(sandbox: Path) -> list[str]:
    try:
        return list(json.loads((sandbox / "found").read_text()))
    except FileNotFoundError:
        return []
