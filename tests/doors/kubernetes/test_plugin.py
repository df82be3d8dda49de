"""The agent's GPUs for a kubelet: over real sockets, with an agent program's book, and a kubelet that starts again."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from mesos_gpu.agent.decisions.device_book import Device
from mesos_gpu.agent.devices.host import DeviceHost
from mesos_gpu.agent.devices.records import DeviceRecords
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.doors.common.agent import AgentAddress, Book
from mesos_gpu.doors.kubernetes.plugin import GpuPlugin
from mesos_gpu.errors import ContainerError
from mesos_gpu.kubelet.messages import message
from mesos_gpu.kubelet.services import DEVICE_PLUGIN, POD_RESOURCES, Stub, channel, server
from mesos_gpu.mesos.ids import ContainerId
from tests.support.doors.bank import Bank
from tests.support.golden import Golden
from tests.support.master.live import until

pytestmark = pytest.mark.root

GPU = "nvidia.com/gpu"


class Kubelet:
    """A kubelet's sockets in a folder; which pods have which devices is the test's."""

    def __init__(self, folder: Path, records: Path) -> None:
        self.folder, self._records = folder, records
        self.pods: list[str] = []
        self.host: DeviceHost | None = None
        self._pod_server: Any = None

    async def start(self) -> DeviceHost:
        """Start, or start again: plugins have to register again."""
        if self.host is not None:
            await self.host.close()
        self.host = DeviceHost(self.folder, DeviceRecords(self._records))
        self.host.recover(())
        await self.host.start()
        return self.host

    async def tell_of_pods(self) -> None:
        (self.folder / "pods").mkdir()
        self._pod_server = server(POD_RESOURCES, {"List": self._list}, str(self.folder / "pods" / "kubelet.sock"))
        await self._pod_server.start()

    async def close(self) -> None:
        if self.host is not None:
            await self.host.close()
        if self._pod_server is not None:
            await self._pod_server.stop(0)

    async def _list(self, request: Any, context: Any) -> Any:
        given = message("v1.ContainerDevices")(resource_name=GPU, device_ids=self.pods)
        other = message("v1.ContainerDevices")(resource_name="example.com/other", device_ids=["x"])
        container = message("v1.ContainerResources")(name="c", devices=[given, other])
        pod = message("v1.PodResources")(name="p", namespace="default", containers=[container])
        return message("v1.ListPodResourcesResponse")(pod_resources=[pod])


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture
async def kubelet(folder: Path, tmp_path: Path) -> AsyncIterator[Kubelet]:
    made = Kubelet(folder, tmp_path / "records.json")
    yield made
    await made.close()


@asynccontextmanager
async def plugged(bank: Bank, folder: Path) -> AsyncIterator[GpuPlugin]:
    """Run the plugin; it ends as with kill -9, leaving in the book what it had lent."""
    book = Book(AgentAddress(bank.url))
    plugin = GpuPlugin(book, folder, resource=GPU, pods=folder / "pods" / "kubelet.sock", look_s=0.05, settle_s=0.3)
    running = asyncio.ensure_future(plugin.run(asyncio.Event()))
    try:
        yield plugin
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def config(name: str, count: int) -> ContainerConfig:
    units = {GPU: count}
    return ContainerConfig(ContainerId(name), Path("/s"), ("true",), {}, None, 100, 1 << 20, 0, device_units=units)


async def until_units(host: DeviceHost, wanted: int) -> None:
    await until(lambda: host.totals == ({GPU: wanted} if wanted else {}))


async def test_pods_and_mesos_and_docker_take_from_one_book(bank: Bank, kubelet: Kubelet, golden: Golden) -> None:
    host = await kubelet.start()
    async with plugged(bank, kubelet.folder):
        await until_units(host, 4)
        docker = await bank.lend(door="docker", holder="web", count=1, pid=1)
        await until_units(host, 3)
        plan = (await host.prepare(config("pod", 2))).device_plan
        assert plan is not None
        assert {node.path for node in plan.nodes} >= {"/dev/nvidiactl", "/dev/nvidia-uvm"}
        (lease,) = [each for each in await bank.leases() if each["door"] == "kubernetes"]
        assert plan.environment == {"NVIDIA_VISIBLE_DEVICES": ",".join(gpu["uuid"] for gpu in lease["gpus"])}
        await bank.until_advertised(1)
        # Whoever is asked for a GPU that another has says who has it, and gives none of the others.
        (taken,) = docker["gpus"]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(kubelet.folder, [free_gpu(host)], [taken["uuid"]])
        assert refused.value.details() == golden.hide(lease=docker["id"])
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await bank.until_advertised(1)
        host.book.list(GPU, [*host.book.resources[GPU].devices.values(), Device(taken["uuid"], True)])
        with pytest.raises(ContainerError) as failed:
            await host.prepare(config("late", 2))
        assert str(failed.value) == golden


def free_gpu(host: DeviceHost) -> str:
    return host.book.free(GPU)[0].id


async def ask(folder: Path, *containers: list[str]) -> Any:
    """Allocate as a kubelet does, at the plugin's own socket."""
    (path,) = [entry for entry in folder.iterdir() if entry.name.startswith("mesos-gpu-")]
    make = message("v1beta1.ContainerAllocateRequest")
    request = message("v1beta1.AllocateRequest")(container_requests=[make(devices_ids=ids) for ids in containers])
    async with channel(str(path)) as connection:
        return await Stub(DEVICE_PLUGIN, connection).call("Allocate", request, timeout=20)


async def test_what_no_pod_has_comes_back_and_what_one_has_is_lent_again(bank: Bank, kubelet: Kubelet) -> None:
    host = await kubelet.start()
    await kubelet.tell_of_pods()
    async with plugged(bank, kubelet.folder):
        await until_units(host, 4)
        await host.prepare(config("pod", 2))
        (lease,) = await bank.leases()
        kubelet.pods = [gpu["uuid"] for gpu in lease["gpus"]]
        await bank.until_advertised(2)
        # The kubelet starts again: it knows its pods, and the plugin registers with it.
        host = await kubelet.start()
        await until_units(host, 4)
        assert [each["id"] for each in await bank.leases()] == [lease["id"]]
    # The plugin ends, its lease is lost with it, and the next one has it again from what the pods have.
    Book(AgentAddress(bank.url)).give_back(lease["id"])
    await bank.until_advertised(4)
    async with plugged(bank, kubelet.folder):
        await bank.until_advertised(2)
        assert sorted(gpu["uuid"] for each in await bank.leases() for gpu in each["gpus"]) == sorted(kubelet.pods)
        kubelet.pods = []
        await bank.until_advertised(4)
        assert await bank.leases() == []


async def test_an_agent_that_is_silent_gives_no_gpu(
    bank: Bank, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mesos_gpu.doors.kubernetes.plugin.SILENCE_S", 0.2)
    host = await kubelet.start()
    async with plugged(bank, kubelet.folder) as plugin:
        await until_units(host, 4)
        book: Any = plugin._book
        there, book._parts = book._parts, book._parts._replace(netloc="127.0.0.1:1")
        await until_units(host, 0)
        assert len(host.book.resources[GPU].devices) == 4, "unhealthy, and not left out"
        book._parts = there
        await until_units(host, 4)
