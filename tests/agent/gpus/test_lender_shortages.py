"""Who holds a lent GPU has it still while the agent wants for descriptors, and cannot look; then it is taken back."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mesos_gpu.agent.decisions.lending import Standing
from mesos_gpu.agent.gpus import lender as lending
from mesos_gpu.agent.gpus.holders import Host
from mesos_gpu.agent.gpus.lease_records import LeaseRecord
from mesos_gpu.agent.gpus.lender import Lender
from mesos_gpu.agent.model.leases import Lease, LeaseRequest, Watch, WatchRequest
from mesos_gpu.errors import NotEnoughGpus
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.mesos.ids import ContainerId
from tests.fakes.leases import MemoryRecords
from tests.support.master.live import until
from tests.support.shortages import no_descriptors

DRIVER = SimulatedDriver(1)
CONTAINER = "a" * 64


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    folder = tmp_path / "cgroup"
    folder.mkdir()
    (folder / "cgroup.procs").write_text("7\n")
    return folder


@pytest.fixture
def lender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lender:
    monkeypatch.setattr(lending, "LOOK_S", 0.05)
    isolator = NvidiaGpuIsolator(DRIVER.gpus(), DRIVER, None, Checkpoints(tmp_path / "records"))
    choice = lambda gpus, count: frozenset(sorted(gpus)[:count])  # noqa: E731
    made = Lender(isolator, MemoryRecords(), tmp_path / "leases", Host(), choice=choice)
    made.start()
    return made


def lend(lender: Lender, watch: WatchRequest) -> Lease:
    (gpu,) = DRIVER.gpus()
    return lender.lend(LeaseRequest("docker", "h", "", 1, ()), watch, [Standing(gpu)])


async def test_a_process_is_not_taken_for_gone(lender: Lender, holder: subprocess.Popen[bytes]) -> None:
    lease = lend(lender, WatchRequest(holder.pid))
    with no_descriptors():
        lender.look(lease.id)
        await asyncio.sleep(0.2)
        assert lender.leases == [lease]
        holder.kill()
        holder.wait()
        await asyncio.sleep(0.2)
    await until(lambda: not lender.leases)
    await lender.close()


async def test_who_is_in_a_cgroup_is_not_taken_for_gone(lender: Lender, cgroup: Path) -> None:
    lease = lend(lender, WatchRequest(cgroup=str(cgroup)))
    with no_descriptors():
        lender.look(lease.id)
        await asyncio.sleep(0.2)
        assert lender.leases == [lease]
    (cgroup / "cgroup.procs").write_text("")
    await until(lambda: not lender.leases)
    await lender.close()


async def test_nor_is_an_engines_container(lender: Lender, holder: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The process that made the container has ended; that there is one, the file alone says, which cannot be read."""
    (tmp_path / "engine" / CONTAINER).mkdir(parents=True)
    lease = lend(lender, WatchRequest(holder.pid, folder=str(tmp_path / "engine")))
    assert lease.watch.engine is not None
    Path(lease.watch.engine.cidfile).write_text(CONTAINER)
    holder.kill()
    holder.wait()
    with no_descriptors():
        lender.look(lease.id)
        assert lender.leases == [lease]
    lender.look(lease.id)
    assert [one.container for one in lender.leases] == [CONTAINER]
    await lender.close()


def test_what_the_holder_of_a_lease_can_still_open_is_given_to_none_over_restarts(tmp_path: Path) -> None:
    """Nothing can be denied to a container that Mesos did not start."""
    driver, records = SimulatedDriver(2), MemoryRecords()
    choice = lambda gpus, count: frozenset(sorted(gpus)[:count])  # noqa: E731

    def restarted(gpus: Sequence[Gpu]) -> tuple[NvidiaGpuIsolator, Lender]:
        isolator = NvidiaGpuIsolator(gpus, driver, None, Checkpoints(tmp_path / "records"))
        made = Lender(isolator, records, tmp_path / "leases", Host(), choice=choice)
        isolator.recover(())
        return isolator, made

    def instance(name: str, *caps: int) -> Gpu:
        nodes = tuple(DeviceNode(f"/dev/nvidia-caps/nvidia-cap{cap}", 121, cap) for cap in caps)
        return Gpu(minor=0, index=0, uuid=name, name="MIG", mig=MigInstance("GPU-0", 0, 0, nodes))

    lent, other = instance("MIG-lent", 12, 13), instance("MIG-other", 14, 15)
    watch = Watch((), ("/some/cgroup",), None)
    records.save([LeaseRecord("l1", "docker", "h", "", [HeldGpu.of(lent)], 0.0, watch)])
    for turn in range(2):
        isolator, lender = restarted([other])
        (lease,) = lender.leases
        assert (lease.gpus, [was.uuid for was in lease.lost]) == ((), ["MIG-lent"])
        lender.watch_too(lease.id, WatchRequest(cgroup=f"/turn{turn}"))  # which has it written down again
        isolator.manage([other, instance("MIG-new", 12, 13)])
        assert isolator.blocked == {"MIG-new"}
        with pytest.raises(NotEnoughGpus):
            isolator.prepare(ContainerId("c"), 2)
        if turn == 0:
            isolator.close()
    isolator.take_back("l1")
    assert len(isolator.prepare(ContainerId("c"), 2).gpus) == 2
