"""The kubelet that device plugins meet: they register with it, list what they have, and are asked for it.

Source: kubernetes/kubernetes pkg/kubelet/cm/devicemanager (plugin/v1beta1/server.go, manager.go).
docs/do/kubernetes.md tells how it is used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from msgspec.structs import replace

from mesos_gpu.agent.decisions.device_book import GRACE_S, Device, DeviceBook, own_choice, preferred
from mesos_gpu.agent.devices.answers import plan_of
from mesos_gpu.agent.devices.cdi import CdiFiles
from mesos_gpu.agent.devices.plugin import Plugin
from mesos_gpu.agent.devices.records import DeviceRecords, Held
from mesos_gpu.agent.model.device_units import is_units
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.errors import MesosGpuError, NotFound
from mesos_gpu.kubelet.messages import message
from mesos_gpu.kubelet.services import REGISTRATION, VERSION, server
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)

SOCKET = "kubelet.sock"
_STOP_S = 0.2


class DeviceHost:
    """Hosts plugins in `folder`. Lives in one event loop; `on_change` is called when `totals` may have changed."""

    def __init__(
        self, folder: Path, records: DeviceRecords, *, grace_s: float = GRACE_S, cdi: CdiFiles | None = None
    ) -> None:
        self._folder, self._records, self._cdi = folder, records, cdi or CdiFiles()
        self._book = DeviceBook(grace_s)
        self._plugins: dict[str, Plugin] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._answers: dict[ContainerId, dict[str, Held]] = {}
        self._server: Any = None
        self._expiry: asyncio.TimerHandle | None = None
        self.on_change: Callable[[], None] = lambda: None

    # --- life -------------------------------------------------------------------------------------------------------

    def recover(self, live: Collection[ContainerId]) -> None:
        """Take up what containers held before a restart; what others than `live` ones held is free.

        Raises Unavailable when that cannot be read or written.
        """
        kept = {container: held for container, held in self._records.load().items() if container in set(live)}
        for container, held in kept.items():
            for resource, one in held.items():
                self._book.take(container, resource, one.ids)
        self._answers = kept
        self._records.save(kept)

    async def start(self) -> None:
        """Open the socket; plugins see it again, and register. Raises OSError, RuntimeError when it cannot be made."""
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        for entry in self._folder.iterdir():
            if entry.is_socket():
                entry.unlink()
        self._server = server(REGISTRATION, {"Register": self._register}, str(self._folder / SOCKET))
        await self._server.start()
        log.info("device plugins may register in %s", self._folder)

    async def close(self) -> None:
        """Have nothing more to do with plugins; what is held stays held."""
        if self._expiry is not None:
            self._expiry.cancel()
        if self._server is not None:
            await self._server.stop(_STOP_S)
        for task in (tasks := list(self._following.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for plugin in self._plugins.values():
            await plugin.close()

    # --- what is so -------------------------------------------------------------------------------------------------

    @property
    def totals(self) -> Mapping[str, int]:
        """Return how many units of each resource may be offered."""
        return self._book.totals()

    @property
    def held(self) -> Mapping[ContainerId, Mapping[str, frozenset[str]]]:
        """Return the ids of the devices of each container, by resource."""
        return self._book.held

    @property
    def there(self) -> Mapping[str, Sequence[str]]:
        """Return the ids of all healthy devices of plugins that are there, by resource."""
        listed = self._book.resources.items()
        return {
            name: sorted(device.id for device in one.devices.values() if device.healthy)
            for name, one in listed
            if one.gone_s is None
        }

    @property
    def book(self) -> DeviceBook:
        """Return the devices, and who holds them."""
        return self._book

    # --- containers -------------------------------------------------------------------------------------------------

    async def prepare(self, config: ContainerConfig) -> ContainerConfig:
        """Give a container the devices that it asks for; once it has them, the same again.

        Raises UnitsShort where others still have them; NotFound, Conflict, ContainerError, Unavailable.
        """
        if not config.device_units:
            return config
        container = config.container_id
        for resource, count in config.device_units.items():
            if resource not in self._answers.get(container, {}):
                await self._take(container, resource, count)
        for resource, held in list(self._answers[container].items()):
            if held.answer is None:
                answer = await self._plugin(resource).allocate(held.ids)
                self._note(container, resource, Held(held.ids, answer))
            await self._plugin(resource).before_start(held.ids)
        answers = [(resource, held.answer or {}) for resource, held in self._answers[container].items()]
        plan = plan_of(answers, self._cdi)
        return replace(config, device_plan=plan if config.device_plan is None else config.device_plan.joined(plan))

    def release(self, container: ContainerId) -> None:
        """Free what a container holds, once nothing of it is left; nothing happens where it holds nothing."""
        if container not in self._answers:
            return
        del self._answers[container]
        try:
            self._records.save(self._answers)
        except MesosGpuError as error:
            log.error("container %s is on record with devices that it no longer has: %s", container, error)
        before = self._book.totals()
        self._book.release(container)
        self._changed(before)

    async def _take(self, container: ContainerId, resource: str, count: int) -> None:
        """Choose devices for a container, and write that down."""
        held, free = self._book.choose(container, resource, count)
        chosen = own_choice(held, free, count)
        plugin = self._plugins.get(resource)
        if plugin is not None and plugin.prefers and len(free) > count - len(held) > 0:
            said = await self._prefer(plugin, free, held, count)
            # Others may have taken some of them while it thought.
            held, free = self._book.choose(container, resource, count)
            chosen = (said and preferred(held, free, count, said)) or own_choice(held, free, count)
        self._book.take(container, resource, chosen)
        try:
            self._note(container, resource, Held(sorted(chosen)))
        except MesosGpuError:
            self._book.take(container, resource, held)
            raise

    async def _prefer(
        self, plugin: Plugin, free: Sequence[Device], held: Collection[str], count: int
    ) -> Sequence[str] | None:
        """Ask a plugin which devices it would give; one that cannot say has no say."""
        try:
            return await plugin.prefer([device.id for device in free], held, count)
        except grpc.aio.AioRpcError as error:
            log.warning("the plugin of %s prefers nothing: %s", plugin.resource, error.details())
            return None

    def _note(self, container: ContainerId, resource: str, held: Held) -> None:
        changed = {**self._answers, container: {**self._answers.get(container, {}), resource: held}}
        self._records.save(changed)
        self._answers = changed

    def _plugin(self, resource: str) -> Plugin:
        try:
            return self._plugins[resource]
        except KeyError:
            raise NotFound(f"cannot allocate unregistered device {resource}") from None

    # --- plugins ----------------------------------------------------------------------------------------------------

    async def _register(self, request: Any, context: Any) -> Any:
        problem = _problem(request)
        if problem is not None:
            log.warning("a device plugin was refused: %s", problem)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        plugin = Plugin(request.resource_name, str(self._folder / request.endpoint))
        try:
            await plugin.meet()
        except grpc.aio.AioRpcError as error:
            await plugin.close()
            words = f"cannot reach the plugin of {request.resource_name} at {request.endpoint}: {error.details()}"
            log.warning("%s", words)
            await context.abort(grpc.StatusCode.UNAVAILABLE, words)
        await self._follow(plugin)
        log.info("the plugin of %s registered (%s)", plugin.resource, request.endpoint)
        return message("v1beta1.Empty")()

    async def _follow(self, plugin: Plugin) -> None:
        """Take a plugin for the one of its resource from now on; the one before is let go."""
        former = self._plugins.get(plugin.resource)
        task = self._following.pop(plugin.resource, None)
        self._plugins[plugin.resource] = plugin
        self._following[plugin.resource] = asyncio.ensure_future(self._watch(plugin))
        if task is not None:
            task.cancel()
        if former is not None:
            with suppress(Exception):
                await former.close()

    async def _watch(self, plugin: Plugin) -> None:
        try:
            async for devices in plugin.lists():
                if self._plugins.get(plugin.resource) is plugin:
                    before = self._book.totals()
                    self._book.list(plugin.resource, devices)
                    self._changed(before)
        except Exception:
            log.exception("the list of the plugin of %s", plugin.resource)
        if self._plugins.get(plugin.resource) is plugin:
            log.warning("the plugin of %s is gone; its devices are not given until it registers again", plugin.resource)
            del self._plugins[plugin.resource], self._following[plugin.resource]
            before = self._book.totals()
            self._book.gone(plugin.resource, asyncio.get_running_loop().time())
            self._changed(before)
            self._arm()
            await plugin.close()

    def _changed(self, before: Mapping[str, int]) -> None:
        if self._book.totals() != before:
            self.on_change()

    def _arm(self) -> None:
        due_s = self._book.next_due_s()
        if self._expiry is not None:
            self._expiry.cancel()
        loop = asyncio.get_running_loop()
        self._expiry = None if due_s is None else loop.call_at(due_s, self._expire)

    def _expire(self) -> None:
        self._book.expire(asyncio.get_running_loop().time())
        self._arm()


def _problem(request: Any) -> str | None:
    """Return why a plugin cannot register, in a kubelet's words where it has any."""
    if request.version != VERSION:
        return (
            f"requested API version {request.version!r} is not supported by kubelet. Supported version is {VERSION!r}"
        )
    if not is_units(request.resource_name):
        return f"the ResourceName {request.resource_name!r} is invalid: it is to be DOMAIN/NAME"
    name = request.endpoint
    if not name or "/" in name or name in (".", "..", SOCKET):
        return f"the endpoint {name!r} is not the name of a socket in the folder of {SOCKET}"
    return None
