"""Ids of nested containers, in the form that Mesos prints: `parent.child`. Pure."""

from __future__ import annotations

from mesos_gpu.mesos.ids import ContainerId

_SEPARATOR = "."


def is_nested(container_id: ContainerId) -> bool:
    """Return whether the container lies in another, such as `parent.child`."""
    return _SEPARATOR in container_id


def top_level(container_id: ContainerId) -> ContainerId:
    """Return the container that holds the GPUs of `container_id`: its outermost parent, or itself."""
    return ContainerId(container_id.partition(_SEPARATOR)[0])
