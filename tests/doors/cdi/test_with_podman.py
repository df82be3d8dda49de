"""`podman run --device nvidia.com/gpu=0`: that GPU and no other, with a lease."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doors.bank import Bank
from tests.support.doors.podman import Podman
from tests.support.golden import Golden

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("engine")]


@pytest.fixture
def podman() -> Iterator[Podman]:
    made = Podman()
    try:
        made.make_image()
        yield made
    finally:
        made.stop()


async def describe(bank: Bank, podman: Podman) -> None:
    """Start the agent again, with a CDI file where podman looks."""
    await bank.agent.signal(signal.SIGKILL)
    await bank.agent.start(f"--cdi_spec_dir={podman.cdi}")
    assert (podman.cdi / "mesos-gpu.json").exists()


async def test_a_gpu_by_its_name_is_that_one_and_lent(bank: Bank, podman: Podman) -> None:
    await describe(bank, podman)
    await asyncio.to_thread(podman.start, "one", "--cap-add=MKNOD", "--device=nvidia.com/gpu=2")
    await bank.until_advertised(3)
    (lease,) = await bank.leases()
    assert (lease["door"], [gpu["index"] for gpu in lease["gpus"]]) == ("cdi", [2])
    said = podman("exec", "one", "sh", "-c", "ls /dev | grep -E '^nvidia[0-9]'; nvidia-smi -L").stdout
    assert said.split()[0] == "nvidia2"
    assert said.count("UUID") == 1
    assert lease["gpus"][0]["uuid"] in said
    script = "for n in 1 2; do busybox mknod /tmp/n$n c 195 $n; dd if=/tmp/n$n count=0 2>&1; done"
    first, second = (
        line for line in podman("exec", "one", "sh", "-c", script, check=False).stdout.splitlines() if "dd:" in line
    )
    assert "Operation not permitted" in first
    assert "Operation not permitted" not in second
    # Another cannot have it, by whichever name, and is not started.
    for name in ("2", lease["gpus"][0]["uuid"], "all"):
        refused = await asyncio.to_thread(podman.start, "other", f"--device=nvidia.com/gpu={name}", check=False)
        assert refused.returncode != 0
        podman("rm", "-f", "other", check=False)
    assert len(await bank.leases()) == 1
    # A killed agent forgets nothing; a killed container gives back.
    await bank.agent.signal(signal.SIGKILL)
    await bank.agent.start(f"--cdi_spec_dir={podman.cdi}")
    assert bank.advertised() == 3
    os.kill(int(podman("inspect", "-f", "{{.State.Pid}}", "one").stdout), signal.SIGKILL)
    await bank.until_advertised(4)


async def test_two_names_are_two_gpus_and_all_are_all(bank: Bank, podman: Podman) -> None:
    await describe(bank, podman)
    await asyncio.to_thread(podman.start, "two", "--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=3")
    await bank.until_advertised(2)
    assert podman("exec", "two", "sh", "-c", "ls /dev | grep -E '^nvidia[0-9]'").stdout.split() == [
        "nvidia0",
        "nvidia3",
    ]
    podman("rm", "-f", "-t", "0", "two")
    await bank.until_advertised(4)
    await asyncio.to_thread(podman.start, "all", "--device=nvidia.com/gpu=all")
    await bank.until_advertised(0)


async def test_the_commands_write_list_and_check_files(bank: Bank, tmp_path: Path, golden: Golden) -> None:
    def cdi(*words: str, status: int = 0) -> str:
        environ = {**os.environ, "MESOS_GPU_AGENT": bank.url}
        command = [sys.executable, "-m", "marathon_cli", "cdi", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    folder = tmp_path / "specs"
    folder.mkdir()
    await asyncio.to_thread(cdi, "generate", "--output", str(folder / "gpus.json"))
    spec = json.loads((folder / "gpus.json").read_text())
    assert json.loads(await asyncio.to_thread(cdi, "generate")) == spec
    assert [path.name for path in folder.iterdir()] == ["gpus.json"]
    listed = await asyncio.to_thread(cdi, "list", "--spec-dir", str(folder))
    assert listed.count("nvidia.com/gpu=") == 9
    good = await asyncio.to_thread(cdi, "check", "--spec-dir", str(folder))
    assert good == golden
    spec["devices"] = [device for device in spec["devices"] if device["name"] == "0"]
    gone = {**spec["devices"][0], "name": "GPU-gone"}
    (folder / "gpus.json").write_text(json.dumps({**spec, "devices": [*spec["devices"], gone], "cdiVersion": "0.6.0"}))
    (folder / "other.yaml").write_text("cdiVersion: 0.5.0\nkind: vendor.com/fpga\ndevices: []\n")
    bad = await asyncio.to_thread(cdi, "check", "--spec-dir", str(folder), status=1)
    assert bad == golden
    assert await asyncio.to_thread(cdi, "generate", "--output", "gpus.txt", status=1) == golden
