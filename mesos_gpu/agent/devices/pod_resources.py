"""A kubelet's PodResources API, v1, of this agent: node tools (dcgm-exporter) ask which task has which GPU."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from mesos_gpu.agent.views.pods import PodShown
from mesos_gpu.kubelet.messages import message
from mesos_gpu.kubelet.services import POD_RESOURCES, server

log = logging.getLogger(__name__)
_STOP_S = 0.2


class PodResources:
    """Serves `pods`, and the devices that there are (`there`: ids by resource), at a socket file."""

    def __init__(
        self, path: Path, pods: Callable[[], Sequence[PodShown]], there: Callable[[], Mapping[str, Sequence[str]]]
    ) -> None:
        self._path, self._pods, self._there = path, pods, there
        self._server: Any = None

    async def start(self) -> None:
        """Open the socket; one that an earlier agent left is removed. Raises OSError, RuntimeError."""
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        methods = {"List": self._list, "GetAllocatableResources": self._allocatable, "Get": self._get}
        self._server = server(POD_RESOURCES, methods, str(self._path))
        await self._server.start()
        log.info("which task has which devices is told at %s", self._path)

    async def close(self) -> None:
        """Serve no more."""
        if self._server is not None:
            await self._server.stop(_STOP_S)

    async def _list(self, request: Any, context: Any) -> Any:
        return message("v1.ListPodResourcesResponse")(pod_resources=[_pod(pod) for pod in self._pods()])

    async def _allocatable(self, request: Any, context: Any) -> Any:
        return message("v1.AllocatableResourcesResponse")(devices=_devices(self._there()))

    async def _get(self, request: Any, context: Any) -> Any:
        wanted = request.pod_namespace, request.pod_name
        found = [pod for pod in self._pods() if (pod.namespace, pod.name) == wanted]
        if not found:
            words = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            await context.abort(grpc.StatusCode.NOT_FOUND, words)
        return message("v1.GetPodResourcesResponse")(pod_resources=_pod(found[0]))


def _pod(pod: PodShown) -> Any:
    container = message("v1.ContainerResources")(name=pod.container, devices=_devices(pod.devices))
    return message("v1.PodResources")(name=pod.name, namespace=pod.namespace, containers=[container])


def _devices(devices: Mapping[str, Sequence[str]]) -> list[Any]:
    make = message("v1.ContainerDevices")
    return [make(resource_name=resource, device_ids=ids) for resource, ids in devices.items() if ids]
