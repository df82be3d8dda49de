"""The messages of Kubernetes' device plugin API v1beta1 and PodResources API v1, as classes made from field tables.

Source of names and numbers: kubernetes/kubelet pkg/apis/, deviceplugin/v1beta1/api.proto and podresources/v1/api.proto.
All are proto3: what has its zero value is not on the wire. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
}
MAP, MANY = "map", "many "

DEVICE_PLUGIN: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool"),
        "get_preferred_allocation_available": (2, "bool"),
    },
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "NUMANode": {"ID": (1, "int64")},
    "TopologyInfo": {"nodes": (1, "many NUMANode")},
    "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
    "ListAndWatchResponse": {"devices": (1, "many Device")},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "many string"),
        "must_include_deviceIDs": (2, "many string"),
        "allocation_size": (3, "int32"),
    },
    "PreferredAllocationRequest": {"container_requests": (1, "many ContainerPreferredAllocationRequest")},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "many string")},
    "PreferredAllocationResponse": {"container_responses": (1, "many ContainerPreferredAllocationResponse")},
    "ContainerAllocateRequest": {"devices_ids": (1, "many string")},
    "AllocateRequest": {"container_requests": (1, "many ContainerAllocateRequest")},
    "Mount": {"container_path": (1, "string"), "host_path": (2, "string"), "read_only": (3, "bool")},
    "DeviceSpec": {"container_path": (1, "string"), "host_path": (2, "string"), "permissions": (3, "string")},
    "CDIDevice": {"name": (1, "string")},
    "ContainerAllocateResponse": {
        "envs": (1, MAP),
        "mounts": (2, "many Mount"),
        "devices": (3, "many DeviceSpec"),
        "annotations": (4, MAP),
        "cdi_devices": (5, "many CDIDevice"),
    },
    "AllocateResponse": {"container_responses": (1, "many ContainerAllocateResponse")},
    "PreStartContainerRequest": {"devices_ids": (1, "many string")},
    "PreStartContainerResponse": {},
}
POD_RESOURCES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ListPodResourcesRequest": {},
    "AllocatableResourcesRequest": {},
    "GetPodResourcesRequest": {"pod_name": (1, "string"), "pod_namespace": (2, "string")},
    "NUMANode": {"ID": (1, "int64")},
    "TopologyInfo": {"nodes": (1, "many NUMANode")},
    "ContainerDevices": {
        "resource_name": (1, "string"),
        "device_ids": (2, "many string"),
        "topology": (3, "TopologyInfo"),
    },
    "ContainerMemory": {"memory_type": (1, "string"), "size": (2, "uint64"), "topology": (3, "TopologyInfo")},
    "ContainerResources": {
        "name": (1, "string"),
        "devices": (2, "many ContainerDevices"),
        "cpu_ids": (3, "many int64"),
        "memory": (4, "many ContainerMemory"),
    },
    "PodResources": {
        "name": (1, "string"),
        "namespace": (2, "string"),
        "containers": (3, "many ContainerResources"),
    },
    "ListPodResourcesResponse": {"pod_resources": (1, "many PodResources")},
    "AllocatableResourcesResponse": {
        "devices": (1, "many ContainerDevices"),
        "cpu_ids": (2, "many int64"),
        "memory": (3, "many ContainerMemory"),
    },
    "GetPodResourcesResponse": {"pod_resources": (1, "PodResources")},
}
_PACKAGES = {"v1beta1": DEVICE_PLUGIN, "v1": POD_RESOURCES}


def message(name: str) -> Any:
    """Return the class of a message such as `v1beta1.Device` or `v1.PodResources`. KeyError for an unknown one."""
    return _classes()[name]


@cache
def _classes() -> Mapping[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    for package, tables in _PACKAGES.items():
        pool.Add(_file(package, tables))
    return {
        f"{package}.{name}": message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for package, tables in _PACKAGES.items()
        for name in tables
    }


def _file(package: str, tables: Mapping[str, Mapping[str, tuple[int, str]]]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in tables.items():
        made = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add(made, f"{package}.{name}", package, field, number, kind)
    return file


def _add(made: Any, owner: str, package: str, name: str, number: int, kind: str) -> None:
    field = made.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
    if kind == MAP:  # a map on the wire is repeated pairs
        entry = f"{name.capitalize()}Entry"
        pair = made.nested_type.add(name=entry)
        pair.options.map_entry = True
        for at, part in enumerate(("key", "value"), start=1):
            pair.field.add(name=part, number=at, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
        field.label, field.type, field.type_name = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE, f".{owner}.{entry}"
        return
    if kind.startswith(MANY):
        field.label, kind = _FIELD.LABEL_REPEATED, kind.removeprefix(MANY)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{kind}"
