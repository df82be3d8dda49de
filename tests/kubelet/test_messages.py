"""The messages of kubelets, byte by byte: numbers and types are what others' programs have."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.kubelet.messages import message


@pytest.mark.parametrize(
    ("name", "fields", "data"),
    [
        ("v1beta1.Empty", {}, b""),
        (
            "v1beta1.RegisterRequest",
            {"version": "v1beta1", "endpoint": "x.sock", "resource_name": "a.b/c"},
            b"\x0a\x07v1beta1\x12\x06x.sock\x1a\x05a.b/c",
        ),
        ("v1beta1.DevicePluginOptions", {"get_preferred_allocation_available": True}, b"\x10\x01"),
        ("v1beta1.Device", {"ID": "d", "health": "Healthy"}, b"\x0a\x01d\x12\x07Healthy"),
        (
            "v1beta1.ContainerPreferredAllocationRequest",
            {"available_deviceIDs": ["a", "b"], "must_include_deviceIDs": ["a"], "allocation_size": 2},
            b"\x0a\x01a\x0a\x01b\x12\x01a\x18\x02",
        ),
        (
            "v1beta1.ContainerAllocateResponse",
            {"envs": {"A": "b"}, "annotations": {"k": "v"}},
            b"\x0a\x06\x0a\x01A\x12\x01b\x22\x06\x0a\x01k\x12\x01v",
        ),
        (
            "v1beta1.Mount",
            {"container_path": "/c", "host_path": "/h", "read_only": True},
            b"\x0a\x02/c\x12\x02/h\x18\x01",
        ),
        ("v1beta1.DeviceSpec", {"container_path": "/c", "permissions": "rw"}, b"\x0a\x02/c\x1a\x02rw"),
        ("v1.ContainerDevices", {"resource_name": "r", "device_ids": ["d"]}, b"\x0a\x01r\x12\x01d"),
        ("v1.PodResources", {"name": "p", "namespace": "n"}, b"\x0a\x01p\x12\x01n"),
        ("v1.GetPodResourcesRequest", {"pod_name": "p", "pod_namespace": "n"}, b"\x0a\x01p\x12\x01n"),
    ],
)
def test_messages_are_on_the_wire_as_the_api_says(name: str, fields: dict[str, Any], data: bytes) -> None:
    made = message(name)(**fields)
    assert made.SerializeToString(deterministic=True) == data
    assert message(name).FromString(data) == made


def test_numa_nodes_and_cdi_names_lie_in_messages_of_their_own() -> None:
    topology = message("v1beta1.TopologyInfo")(nodes=[message("v1beta1.NUMANode")(ID=1)])
    assert (
        message("v1beta1.Device")(ID="d", topology=topology).SerializeToString() == b"\x0a\x01d\x1a\x04\x0a\x02\x08\x01"
    )
    cdi = message("v1beta1.CDIDevice")(name="a.b/c=d")
    given = message("v1beta1.ContainerAllocateResponse")(cdi_devices=[cdi])
    assert given.SerializeToString() == b"\x2a\x09\x0a\x07a.b/c=d"


def test_a_message_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        message("v1beta1.Claim")
