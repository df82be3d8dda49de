"""The services of those APIs over gRPC, for either side: who serves one gives its methods, who calls one gets a stub.

The only module that knows how a service is put together; `grpc` is an extra of this project (`pip install
mesos-gpu[kubernetes]`), so this module is imported only when it is needed, after `require_grpc()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio

from mesos_gpu.kubelet.messages import message

VERSION = "v1beta1"
REGISTRATION, DEVICE_PLUGIN = "v1beta1.Registration", "v1beta1.DevicePlugin"
POD_RESOURCES = "v1.PodResourcesLister"
STREAMS = frozenset({"ListAndWatch"})
METHODS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    REGISTRATION: {"Register": ("v1beta1.RegisterRequest", "v1beta1.Empty")},
    DEVICE_PLUGIN: {
        "GetDevicePluginOptions": ("v1beta1.Empty", "v1beta1.DevicePluginOptions"),
        "ListAndWatch": ("v1beta1.Empty", "v1beta1.ListAndWatchResponse"),
        "GetPreferredAllocation": ("v1beta1.PreferredAllocationRequest", "v1beta1.PreferredAllocationResponse"),
        "Allocate": ("v1beta1.AllocateRequest", "v1beta1.AllocateResponse"),
        "PreStartContainer": ("v1beta1.PreStartContainerRequest", "v1beta1.PreStartContainerResponse"),
    },
    POD_RESOURCES: {
        "List": ("v1.ListPodResourcesRequest", "v1.ListPodResourcesResponse"),
        "GetAllocatableResources": ("v1.AllocatableResourcesRequest", "v1.AllocatableResourcesResponse"),
        "Get": ("v1.GetPodResourcesRequest", "v1.GetPodResourcesResponse"),
    },
}
"""Each method's request and answer; the answers of those in STREAMS come one after another."""

_LOCAL = (("grpc.default_authority", "localhost"), ("grpc.enable_http_proxy", 0))


def handlers(service: str, methods: Mapping[str, Any]) -> Any:
    """Return what a gRPC server takes: these methods of a service, each `async (request, context)`."""
    made = {}
    for name, method in methods.items():
        request, answer = METHODS[service][name]
        make = grpc.unary_stream_rpc_method_handler if name in STREAMS else grpc.unary_unary_rpc_method_handler
        made[name] = make(
            method,
            request_deserializer=message(request).FromString,
            response_serializer=message(answer).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service, made)


def server(service: str, methods: Mapping[str, Any], path: str) -> Any:
    """Return a server, not started, of one service at a socket file."""
    made = grpc.aio.server()
    made.add_generic_rpc_handlers((handlers(service, methods),))
    made.add_insecure_port(f"unix:{path}")
    return made


def channel(path: str) -> Any:
    """Return a channel to a socket file; it connects when it is used."""
    return grpc.aio.insecure_channel(f"unix:{path}", options=_LOCAL)


class Stub:
    """A service to call: `await stub.call("Allocate", request, timeout=...)`; `stub.stream` for those that stream."""

    def __init__(self, service: str, connection: Any) -> None:
        self._methods = {}
        for name, (request, answer) in METHODS[service].items():
            make = connection.unary_stream if name in STREAMS else connection.unary_unary
            self._methods[name] = make(
                f"/{service}/{name}",
                request_serializer=message(request).SerializeToString,
                response_deserializer=message(answer).FromString,
            )

    async def call(self, name: str, request: Any, *, timeout: float) -> Any:
        """Return the answer. Raises grpc.aio.AioRpcError."""
        return await self._methods[name](request, timeout=timeout)

    def stream(self, name: str, request: Any) -> Any:
        """Return the answers, to be read with `async for`."""
        return self._methods[name](request)
