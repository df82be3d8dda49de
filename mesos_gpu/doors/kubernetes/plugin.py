"""A device plugin over the agent's book: what it lists is free there, and what it gives is lent there.

Source: kubernetes/kubelet pkg/apis/deviceplugin/v1beta1; what a kubelet does with it: kubernetes/kubernetes
pkg/kubelet/cm/devicemanager. docs/do/kubernetes.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from mesos_gpu.doors.common.agent import Book
from mesos_gpu.doors.kubernetes import devices
from mesos_gpu.errors import MesosGpuError
from mesos_gpu.kubelet.messages import message
from mesos_gpu.kubelet.services import DEVICE_PLUGIN, POD_RESOURCES, REGISTRATION, VERSION, Stub, channel, server

log = logging.getLogger(__name__)

KUBELET = "kubelet.sock"
SETTLE_S = 60.0
"""How long a kubelet may take to name the pod of an allocation; what was lent is not taken back before."""
SILENCE_S = 15.0
"""An agent that is silent for longer gives no GPU; until then the kubelet is told what was so."""
REGISTER_S, PODS_S = 30.0, 10.0
T = TypeVar("T")


class GpuPlugin:
    """The agent's GPUs as a resource of a kubelet whose folder of device plugins is `folder`.

    `pods` is the socket of its PodResources API: what no pod has any more is given back. `cgroup` holds all pods: while
    a process is in it, leases outlast this program.
    """

    def __init__(
        self,
        book: Book,
        folder: Path,
        *,
        resource: str,
        pods: Path,
        cgroup: str = "",
        look_s: float = 1.0,
        settle_s: float = SETTLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book, self._folder, self._resource, self._pods = book, folder, resource, pods
        self._cgroup, self._look_s, self._settle_s, self._clock = cgroup, look_s, settle_s, clock
        self._listed: tuple[devices.Listed, ...] = ()
        self._heard_s = self._clock()
        self._changed = asyncio.Condition()
        self._fresh: dict[str, float] = {}
        self._adopted = False
        self._starts = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Serve kubelets, one after another, until `stop` is set."""
        looking = asyncio.ensure_future(self._look_on())
        try:
            while not stop.is_set():
                await self._serve(stop)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _serve(self, stop: asyncio.Event) -> None:
        """Serve a kubelet, from a socket of a new name, until another comes in its place."""
        kubelet = self._folder / KUBELET
        while (known := _which(kubelet)) is None:
            if await self._pause(stop):
                return
        self._starts += 1
        endpoint = f"mesos-gpu-{os.getpid()}-{self._starts}.sock"
        methods = {
            "GetDevicePluginOptions": self._options,
            "ListAndWatch": self._list,
            "GetPreferredAllocation": self._prefer,
            "Allocate": self._allocate,
            "PreStartContainer": self._before_start,
        }
        serving = server(DEVICE_PLUGIN, methods, str(self._folder / endpoint))
        await serving.start()
        try:
            await self._register(kubelet, endpoint)
        except grpc.aio.AioRpcError as error:
            log.warning("the kubelet refuses this plugin: %s", error.details())
        while _which(kubelet) == known and not await self._pause(stop):
            pass
        await serving.stop(0)
        (self._folder / endpoint).unlink(missing_ok=True)

    async def _register(self, kubelet: Path, endpoint: str) -> None:
        options = message("v1beta1.DevicePluginOptions")(get_preferred_allocation_available=True)
        request = message("v1beta1.RegisterRequest")(
            version=VERSION, endpoint=endpoint, resource_name=self._resource, options=options
        )
        async with channel(str(kubelet)) as connection:
            await Stub(REGISTRATION, connection).call("Register", request, timeout=REGISTER_S)
        log.info("registered %s with the kubelet as %s", self._resource, endpoint)

    async def _pause(self, stop: asyncio.Event) -> bool:
        try:
            await asyncio.wait_for(stop.wait(), self._look_s)
        except asyncio.TimeoutError:
            return False
        return True

    # --- what a kubelet asks ----------------------------------------------------------------------------------------

    async def _options(self, request: Any, context: Any) -> Any:
        return message("v1beta1.DevicePluginOptions")(get_preferred_allocation_available=True)

    async def _list(self, request: Any, context: Any) -> AsyncIterator[Any]:
        make = message("v1beta1.Device")
        said: tuple[devices.Listed, ...] = ()
        while True:
            async with self._changed:
                while self._listed in (said, ()):
                    await self._changed.wait()
                said = self._listed
            shown = [make(ID=one.id, health=one.health) for one in said]
            yield message("v1beta1.ListAndWatchResponse")(devices=shown)

    async def _prefer(self, request: Any, context: Any) -> Any:
        try:
            driver = await self._ask(self._book.driver)
        except MesosGpuError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        links = {gpu["uuid"]: gpu.get("links", {}) for gpu in driver["gpus"]}
        make = message("v1beta1.ContainerPreferredAllocationResponse")
        answers = [
            make(
                deviceIDs=devices.best_connected(
                    links, asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size
                )
            )
            for asked in request.container_requests
        ]
        return message("v1beta1.PreferredAllocationResponse")(container_responses=answers)

    async def _allocate(self, request: Any, context: Any) -> Any:
        answers, lent = [], list[str]()
        try:
            for asked in request.container_requests:
                lease = await self._ask(lambda ids=list(asked.devices_ids): self._lend(ids))  # type: ignore[misc]
                lent.append(lease["id"])
                answers.append(_answer(lease))
        except MesosGpuError as error:
            for lease_id in lent:
                await self._ask(lambda name=lease_id: self._book.give_back(name))  # type: ignore[misc]
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        return message("v1beta1.AllocateResponse")(container_responses=answers)

    async def _before_start(self, request: Any, context: Any) -> Any:
        return message("v1beta1.PreStartContainerResponse")()

    def _lend(self, gpus: Sequence[str]) -> dict[str, Any]:
        """Lend these GPUs; what a pod had of them before is over, or the kubelet would not give them again."""
        for lease_id in devices.of(self._book.leases(), gpus):
            self._book.give_back(lease_id)
        lease = self._book.lend(self._asked(gpus))
        self._fresh[lease["id"]] = self._clock()
        return lease

    def _asked(self, gpus: Sequence[str]) -> dict[str, Any]:
        watched = {"pid": os.getpid()} | ({"cgroup": self._cgroup} if self._cgroup else {})
        return {"door": devices.DOOR, "holder": self._resource, "gpus": list(gpus), **watched}

    # --- what changes -----------------------------------------------------------------------------------------------

    async def _look_on(self) -> None:
        while True:
            try:
                await self._look()
                await self._compare()
            except MesosGpuError as error:
                log.warning("%s", error)
                if self._clock() - self._heard_s > SILENCE_S:
                    await self._tell(tuple(devices.Listed(one.id, devices.UNHEALTHY) for one in self._listed))
            await asyncio.sleep(self._look_s)

    async def _look(self) -> None:
        gpus = await self._ask(self._book.gpus)
        self._heard_s = self._clock()
        await self._tell(devices.listed(gpus))

    async def _tell(self, listed: tuple[devices.Listed, ...]) -> None:
        if listed != self._listed:
            async with self._changed:
                self._listed = listed
                self._changed.notify_all()

    async def _compare(self) -> None:
        """Hold leases against the pods: give back what none has, and lend what one has and no lease says."""
        leases = await self._ask(self._book.leases)
        ours = [lease for lease in leases if lease["door"] == devices.DOOR]
        for lease in ours:
            if not self._adopted or (self._cgroup and self._cgroup not in lease["watched"]["cgroups"]):
                watched = {"pid": os.getpid()} | ({"cgroup": self._cgroup} if self._cgroup else {})
                await self._ask(lambda name=lease["id"], more=watched: self._book.watch(name, more))  # type: ignore[misc]
        self._adopted = True
        pods = await self._of_pods()
        if pods is None:
            return
        now_s = self._clock()
        self._fresh = {name: since for name, since in self._fresh.items() if now_s - since < self._settle_s}
        for lease_id in devices.unused(ours, pods, self._fresh):
            log.info("no pod has what was lent as %s any more", lease_id)
            await self._ask(lambda name=lease_id: self._book.give_back(name))  # type: ignore[misc]
        for gpu in devices.missing(ours, pods, await self._ask(self._book.gpus)):
            log.warning("a pod has GPU %s, which was not lent; it is now", gpu)
            await self._ask(lambda name=gpu: self._book.lend(self._asked([name])))  # type: ignore[misc]

    async def _of_pods(self) -> frozenset[str] | None:
        """Return the devices that pods have, None where the kubelet does not tell."""
        if not self._pods.exists():
            return None
        try:
            async with channel(str(self._pods)) as connection:
                request = message("v1.ListPodResourcesRequest")()
                answer = await Stub(POD_RESOURCES, connection).call("List", request, timeout=PODS_S)
        except grpc.aio.AioRpcError as error:
            log.warning("the kubelet does not tell what pods have: %s", error.details())
            return None
        return frozenset(
            device
            for pod in answer.pod_resources
            for container in pod.containers
            for given in container.devices
            if given.resource_name == self._resource
            for device in given.device_ids
        )

    async def _ask(self, call: Callable[[], T]) -> T:
        return await asyncio.to_thread(call)


def _answer(lease: dict[str, Any]) -> Any:
    shown = devices.answer(lease)
    mount, spec = message("v1beta1.Mount"), message("v1beta1.DeviceSpec")
    return message("v1beta1.ContainerAllocateResponse")(
        envs=shown["envs"],
        mounts=[mount(**one) for one in shown["mounts"]],
        devices=[spec(**one) for one in shown["devices"]],
    )


def _which(path: Path) -> tuple[int, int] | None:
    """Tell a socket from another of its name; None where there is none. Numbers of files are used again."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
