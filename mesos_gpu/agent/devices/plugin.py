"""One device plugin, as its host sees it: a socket that answers, and a list that stays open while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf import json_format

from mesos_gpu.agent.decisions.device_book import HEALTHY, Device
from mesos_gpu.errors import ContainerError
from mesos_gpu.kubelet.messages import message
from mesos_gpu.kubelet.services import DEVICE_PLUGIN, Stub, channel

DIAL_S = 10.0
ALLOCATE_S = 30.0
PRE_START_S = 30.0
"""How long plugins may take; kubelets wait as long for a socket and before a start, and for an allocation forever."""


class Plugin:
    """A plugin that has registered, with the options that it says it has."""

    def __init__(self, resource: str, path: str) -> None:
        self.resource, self.path = resource, path
        self._channel = channel(path)
        self._stub = Stub(DEVICE_PLUGIN, self._channel)
        self.prefers = self.wants_start = False

    async def meet(self) -> None:
        """Ask for its options. Raises grpc.aio.AioRpcError when it does not answer."""
        empty = message("v1beta1.Empty")()
        options = await self._stub.call("GetDevicePluginOptions", empty, timeout=DIAL_S)
        self.prefers, self.wants_start = options.get_preferred_allocation_available, options.pre_start_required

    async def lists(self) -> AsyncIterator[Sequence[Device]]:
        """Yield its devices, whenever something about them changes, until it goes."""
        try:
            async for answer in self._stub.stream("ListAndWatch", message("v1beta1.Empty")()):
                yield [_device(shown) for shown in answer.devices]
        except grpc.aio.AioRpcError:
            return

    async def prefer(self, free: Collection[str], held: Collection[str], count: int) -> Sequence[str]:
        """Return which devices it would give. Raises grpc.aio.AioRpcError."""
        container = message("v1beta1.ContainerPreferredAllocationRequest")(
            available_deviceIDs=sorted({*free, *held}), must_include_deviceIDs=sorted(held), allocation_size=count
        )
        request = message("v1beta1.PreferredAllocationRequest")(container_requests=[container])
        answer = await self._stub.call("GetPreferredAllocation", request, timeout=DIAL_S)
        return [name for response in answer.container_responses[:1] for name in response.deviceIDs]

    async def allocate(self, ids: Collection[str]) -> dict[str, Any]:
        """Return what a container needs to use these devices: a ContainerAllocateResponse. Raises ContainerError."""
        container = message("v1beta1.ContainerAllocateRequest")(devices_ids=sorted(ids))
        request = message("v1beta1.AllocateRequest")(container_requests=[container])
        answer = await self._ask("Allocate", request, ALLOCATE_S)
        if not answer.container_responses:
            raise ContainerError(f"the plugin of {self.resource} answered an allocation with nothing")
        document: dict[str, Any] = json_format.MessageToDict(
            answer.container_responses[0], preserving_proto_field_name=True
        )
        return document

    async def before_start(self, ids: Collection[str]) -> None:
        """Have it prepare the devices, where it wants to. Raises ContainerError."""
        if self.wants_start:
            request = message("v1beta1.PreStartContainerRequest")(devices_ids=sorted(ids))
            await self._ask("PreStartContainer", request, PRE_START_S)

    async def close(self) -> None:
        """Have no more to do with it."""
        await self._channel.close()

    async def _ask(self, name: str, request: Any, timeout_s: float) -> Any:
        try:
            return await self._stub.call(name, request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise ContainerError(
                f"the plugin of {self.resource} refused {name}: {error.code().name} {error.details()}"
            ) from None


def _device(shown: Any) -> Device:
    nodes = [node.ID for node in shown.topology.nodes]
    return Device(shown.ID, shown.health == HEALTHY, nodes[0] if nodes else None)
