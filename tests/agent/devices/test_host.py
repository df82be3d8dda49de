"""The host of device plugins over real sockets: who may register, storms, kills at every moment, what is on disk."""

from __future__ import annotations

import asyncio
import random
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from mesos_gpu.agent.devices.host import DeviceHost
from mesos_gpu.agent.devices.records import DeviceRecords
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.errors import ContainerError, MesosGpuError, NotEnoughGpus, NotFound, Unavailable
from mesos_gpu.kubelet.messages import message
from mesos_gpu.kubelet.services import DEVICE_PLUGIN, REGISTRATION, Stub, channel, server
from mesos_gpu.mesos.ids import ContainerId
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.master.live import until

X = "example.com/x"
Empty = message("v1beta1.Empty")


class Plugin:
    """A plugin in process; what it lists and answers is the test's."""

    def __init__(self, folder: Path, name: str = "x.sock", count: int = 4) -> None:
        self.folder, self.name = folder, name
        self.health = dict.fromkeys((f"d{n}" for n in range(count)), "Healthy")
        self.options: dict[str, bool] = {}
        self.preferred: list[str] | None = None
        self.answer: dict[str, Any] | None = {}
        self.allocated: list[list[str]] = []
        self.asked: list[Any] = []
        self.starts = 0
        self._changed = asyncio.Condition()
        self._server: Any = None

    async def start(self) -> None:
        # Another name each time: gRPC removes the socket of a server that has stopped somewhat later.
        self.starts += 1
        self.name = f"{self.starts}-{self.name.rpartition('-')[2]}"
        methods = {
            "GetDevicePluginOptions": self._options,
            "ListAndWatch": self._list,
            "GetPreferredAllocation": self._prefer,
            "Allocate": self._allocate,
            "PreStartContainer": self._before_start,
        }
        self._server = server(DEVICE_PLUGIN, methods, str(self.folder / self.name))
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def register(self, **changed: str) -> None:
        """Register, from a socket again where the host has removed it."""
        if not (self.folder / self.name).exists():
            await self.stop()
            await self.start()
        request = {"version": "v1beta1", "endpoint": self.name, "resource_name": X, **changed}
        async with channel(str(self.folder / "kubelet.sock")) as connection:
            await Stub(REGISTRATION, connection).call(
                "Register", message("v1beta1.RegisterRequest")(**request), timeout=20
            )

    async def tell(self, **health: str) -> None:
        """List its devices again."""
        async with self._changed:
            self.health |= health
            self._changed.notify_all()

    async def _options(self, request: Any, context: Any) -> Any:
        return message("v1beta1.DevicePluginOptions")(**self.options)

    async def _list(self, request: Any, context: Any) -> AsyncIterator[Any]:
        make = message("v1beta1.Device")
        while True:
            shown = [make(ID=name, health=health) for name, health in self.health.items()]
            yield message("v1beta1.ListAndWatchResponse")(devices=shown)
            async with self._changed:
                await self._changed.wait()

    async def _prefer(self, request: Any, context: Any) -> Any:
        self.asked.append(request.container_requests[0])
        if self.preferred is None:
            await context.abort(grpc.StatusCode.UNKNOWN, "no topology")
        answer = message("v1beta1.ContainerPreferredAllocationResponse")(deviceIDs=self.preferred)
        return message("v1beta1.PreferredAllocationResponse")(container_responses=[answer])

    async def _allocate(self, request: Any, context: Any) -> Any:
        self.allocated += [list(asked.devices_ids) for asked in request.container_requests]
        answers = [] if self.answer is None else [message("v1beta1.ContainerAllocateResponse")(**self.answer)]
        return message("v1beta1.AllocateResponse")(container_responses=answers)

    async def _before_start(self, request: Any, context: Any) -> Any:
        self.asked.append(list(request.devices_ids))
        return message("v1beta1.PreStartContainerResponse")()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


MakeHost = Callable[..., Any]


@pytest.fixture
async def make_host(folder: Path, tmp_path: Path) -> AsyncIterator[MakeHost]:
    made: list[DeviceHost] = []

    async def make(*live: ContainerId, grace_s: float = 300.0) -> DeviceHost:
        host = DeviceHost(folder, DeviceRecords(tmp_path / "devices.json"), grace_s=grace_s)
        host.recover(live)
        await host.start()
        made.append(host)
        return host

    yield make
    for host in made:
        await host.close()


@pytest.fixture
async def plugin(folder: Path) -> AsyncIterator[Plugin]:
    made = Plugin(folder)
    await made.start()
    yield made
    await made.stop()


def config(name: str, count: int = 1) -> ContainerConfig:
    units = {X: count} if count else {}
    return ContainerConfig(ContainerId(name), Path("/s"), ("true",), {}, None, 100, 1 << 20, 0, device_units=units)


async def test_the_folder_is_cleared_of_sockets_and_strangers_are_refused(
    folder: Path, make_host: MakeHost, plugin: Plugin, golden: Golden
) -> None:
    (folder / "kept").touch()
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(folder / "old.sock"))
    await plugin.stop()
    await make_host()
    assert sorted(entry.name for entry in folder.iterdir()) == ["kept", "kubelet.sock"]
    for changed, code in (
        ({"version": "v1alpha"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"resource_name": "gpus"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"endpoint": "../x.sock"}, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await plugin.register(**changed)
        assert refused.value.code() is code
        assert refused.value.details() == golden
    with pytest.raises(grpc.aio.AioRpcError, match=r"example\.com/x") as refused:
        await plugin.register(endpoint="nobody.sock")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_plugin_s_devices_come_go_and_are_given(make_host: MakeHost, plugin: Plugin, golden: Golden) -> None:
    host: DeviceHost = await make_host(grace_s=0.0)
    changes: list[dict[str, int]] = []
    host.on_change = lambda: changes.append(dict(host.totals))
    assert await host.prepare(config("none", 0)) == config("none", 0)
    with pytest.raises(NotFound) as unknown:
        await host.prepare(config("a"))
    assert str(unknown.value) == golden
    plugin.options = {"get_preferred_allocation_available": True, "pre_start_required": True}
    plugin.preferred = ["d3", "d1"]
    plugin.answer = {
        "envs": {"A": "b"},
        "mounts": [message("v1beta1.Mount")(container_path="/mnt", host_path="/tmp", read_only=True)],
        "devices": [message("v1beta1.DeviceSpec")(container_path="/dev/x", host_path="/dev/null", permissions="rw")],
    }
    await plugin.register()
    await until(lambda: host.totals == {X: 4})
    plan = (await host.prepare(config("a", 2))).device_plan
    assert plan is not None
    assert (plan.environment, [str(rule) for rule in plan.rules]) == ({"A": "b"}, ["c 1:3 rw"])
    assert [(m.source, m.destination, m.read_only) for m in plan.mounts] == [("/tmp", "/mnt", True)]
    assert plugin.allocated == [["d1", "d3"]]
    assert plugin.asked[1] == ["d1", "d3"]
    assert (await host.prepare(config("a", 2))).device_plan == plan, "once given, the same again"
    assert len(plugin.allocated) == 1

    plugin.preferred = None  # it cannot say
    await host.prepare(config("b"))
    assert plugin.allocated[-1] == ["d0"]
    with pytest.raises(NotEnoughGpus, match="Requested: 2, Available: 1"):
        await host.prepare(config("c", 2))
    plugin.answer = None
    with pytest.raises(ContainerError) as refused:
        await host.prepare(config("c"))
    assert str(refused.value) == golden
    host.release(ContainerId("c"))
    await plugin.tell(d2="Unhealthy")
    await until(lambda: host.totals == {X: 3})
    host.release(ContainerId("a"))
    await plugin.stop()
    await until(lambda: host.totals == {X: 1})
    assert changes[-1] == {X: 1}
    await until(lambda: X not in host.book.resources)
    host.release(ContainerId("b"))
    host.release(ContainerId("b"))
    assert host.totals == {}


async def test_answers_that_no_container_can_have_are_refused(
    make_host: MakeHost, plugin: Plugin, golden: Golden
) -> None:
    host: DeviceHost = await make_host()
    await plugin.register()
    await until(lambda: bool(host.totals))
    spec = message("v1beta1.DeviceSpec")
    for n, answer in enumerate(
        (
            {"devices": [spec(container_path="/dev/x", host_path="/dev/not-there")]},
            {"devices": [spec(container_path="/dev/x", host_path="/etc/passwd")]},
            {"devices": [spec(container_path="/etc/x", host_path="/dev/null")]},
            {"cdi_devices": [message("v1beta1.CDIDevice")(name="a.com/b=c")]},
        )
    ):
        plugin.answer = answer
        with pytest.raises(ContainerError) as refused:
            await host.prepare(config(f"c{n}"))
        assert str(refused.value) == golden
        host.release(ContainerId(f"c{n}"))


async def test_of_a_storm_of_registrations_the_last_one_counts(
    folder: Path, make_host: MakeHost, plugin: Plugin
) -> None:
    host: DeviceHost = await make_host()
    await plugin.register()
    await until(lambda: host.totals == {X: 4})
    await host.prepare(config("a", 3))
    others = [Plugin(folder, f"x{n}.sock", count=4) for n in range(20)]
    for other in others:
        await other.start()
    await asyncio.gather(*(other.register() for other in others for _ in range(5)))
    last = Plugin(folder, "last.sock", count=6)
    await last.start()
    await last.register()
    await until(lambda: host.totals == {X: 6})
    for other in others:
        await other.stop()
    await plugin.stop()
    await host.prepare(config("b", 3))
    assert last.allocated == [["d3", "d4", "d5"]]
    assert host.totals == {X: 6}
    await last.stop()


async def test_kills_at_any_moment_give_no_device_to_two_and_lose_none(
    make_host: MakeHost, plugin: Plugin, tmp_path: Path
) -> None:
    """Agent, plugin or container end at any moment, as kill -9 ends them; what runs continues with what it has."""
    dice, runs = random.Random(13), dict[ContainerId, list[str]]()
    host: DeviceHost = await make_host()
    await plugin.register()
    kills = started = 0
    while kills < examples(500):
        match dice.randrange(6):
            case 0:  # the agent; a container whose launch it did not finish is not there for the next one
                work = asyncio.ensure_future(host.prepare(config(f"c{started}-lost", dice.randrange(1, 4))))
                for _ in range(dice.randrange(8)):
                    await asyncio.sleep(0)
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                await host.close()
                host = await make_host(*runs)
                await plugin.register()
                kills += 1
            case 1:
                await plugin.stop()
                await until(lambda h=host: not h.book.free(X))  # type: ignore[misc]
                await plugin.start()
                await plugin.register()
                kills += 1
            case 2 if runs:
                ended = dice.choice(sorted(runs))
                del runs[ended]
                host.release(ended)
                kills += 1
            case _:
                started += 1
                name = ContainerId(f"c{started}")
                try:
                    await host.prepare(config(name, dice.randrange(1, 4)))
                    runs[name] = plugin.allocated[-1]
                except MesosGpuError:
                    host.release(name)
        held = {name: sorted(ids[X]) for name, ids in host.book.held.items()}
        assert held == {name: sorted(ids) for name, ids in runs.items()}
        everything = [device for ids in held.values() for device in ids]
        assert len(everything) == len(set(everything)), "one device in two hands"
    for name in runs:
        host.release(name)
    await until(lambda: len(host.book.free(X)) == 4)
    assert DeviceRecords(tmp_path / "devices.json").load() == {}


async def test_a_record_that_cannot_be_read_or_written_keeps_devices_from_being_given(
    make_host: MakeHost, plugin: Plugin, tmp_path: Path, golden: Golden
) -> None:
    host: DeviceHost = await make_host()
    await plugin.register()
    await until(lambda: bool(host.totals))
    (tmp_path / "devices.json").unlink()
    (tmp_path / "devices.json").mkdir()
    with pytest.raises(Unavailable) as refused:
        await host.prepare(config("a", 4))
    assert "devices.json" in str(refused.value)
    assert len(host.book.free(X)) == 4
    with pytest.raises(Unavailable) as refused:
        await make_host()
    assert str(refused.value) == golden
