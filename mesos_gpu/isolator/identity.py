"""Ids of nested containers, in the form that Mesos prints: `parent.child`. Pure."""

from __future__ import annotations

_SEPARATOR = "."


def is_nested(container_id: str) -> bool:
    """Return whether the container lies in another, such as `parent.child`."""
    return _SEPARATOR in container_id


def top_level(container_id: str) -> str:
    """Return the container that holds the GPUs of `container_id`: its outermost parent, or itself."""
    return container_id.partition(_SEPARATOR)[0]
