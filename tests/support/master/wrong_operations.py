"""Operations that a master refuses, and updates of a framework that it does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mesos_gpu.mesos.resource import Document

PERSISTENT = {"persistence": {"id": "v", "principal": "p"}, "volume": {"mode": "RW", "container_path": "d"}}


def some(name: str, value: float, **more: object) -> Document:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, **more}


def reserved(name: str, value: float, role: str = "other", **more: object) -> Document:
    return some(name, value, reservations=[{"type": "DYNAMIC", "role": role, "principal": "p"}], **more)


def operation(kind: str, *resources: Document) -> Document:
    field = "resources" if kind in ("RESERVE", "UNRESERVE") else "volumes"
    return {"type": kind, kind.lower(): {field: list(resources)}}


def volume(**changes: Any) -> Document:
    return reserved("disk", 1, disk={**PERSISTENT, **changes})


OPERATIONS: Mapping[str, Document] = {
    **{f"{kind} of nothing": {"type": kind} for kind in ("RESERVE", "UNRESERVE", "CREATE", "DESTROY", "GROW_VOLUME")},
    **{f"{kind} of none": operation(kind) for kind in ("RESERVE", "UNRESERVE", "CREATE", "DESTROY")},
    "for everybody": operation("RESERVE", reserved("cpus", 1, "*")),
    "for another role": operation("RESERVE", reserved("cpus", 1)),
    "for a bad role": operation("RESERVE", reserved("cpus", 1, "/a")),
    "statically": operation("RESERVE", some("cpus", 1, reservations=[{"type": "STATIC", "role": "other"}])),
    "unreserved": operation("RESERVE", some("cpus", 1)),
    "less than nothing": operation("RESERVE", reserved("cpus", -1)),
    "half a GPU": operation("RESERVE", reserved("gpus", 0.5)),
    "of another": {"type": "RESERVE", "reserve": {"source": [some("cpus", 1)], "resources": [reserved("cpus", 1)]}},
    "refined for a stranger": operation(
        "RESERVE",
        some("cpus", 1, reservations=[{"type": "DYNAMIC", "role": "a"}, {"type": "DYNAMIC", "role": "b"}]),
    ),
    "refined statically": operation(
        "RESERVE",
        some("cpus", 1, reservations=[{"type": "DYNAMIC", "role": "a"}, {"type": "STATIC", "role": "a/b"}]),
    ),
    "in two formats": operation("RESERVE", reserved("cpus", 1, role="other") | {"role": "another"}),
    "not reserved": operation("UNRESERVE", some("cpus", 1)),
    "no volume": operation("CREATE", some("disk", 1)),
    "volume of cpus": operation("CREATE", some("cpus", 1, disk=PERSISTENT)),
    "unreserved volume": operation("CREATE", some("disk", 1, disk=PERSISTENT)),
    "volume to read": operation("CREATE", volume(volume={"mode": "RO", "container_path": "d"})),
    "volume's name": operation("CREATE", volume(persistence={"id": "a/b", "principal": "p"})),
    "volume of the host": operation("CREATE", volume(volume={"mode": "RW", "container_path": "d", "host_path": "/x"})),
    "volume that is not there": operation("DESTROY", volume()),
    "growing no volume": {
        "type": "GROW_VOLUME",
        "grow_volume": {"volume": some("disk", 1), "addition": some("disk", 1)},
    },
    "shrinking all": {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": some("disk", 1), "subtract": {"value": 1}}},
    "disk": {"type": "CREATE_DISK", "create_disk": {"source": some("disk", 1), "target_type": "MOUNT"}},
    "no disk": {"type": "DESTROY_DISK", "destroy_disk": {"source": some("disk", 1)}},
}
UPDATES: tuple[Document, ...] = (
    {"user": "other"},
    {"checkpoint": True},
    {"role": "a/", "capabilities": []},
    {"principal": "other"},
    {"id": {"value": "other"}},
    {"failover_timeout": 1e300},
)


def named() -> list[Document]:
    """Return all operations, each with its name as its id, so that what became of it is told."""
    return [{**one, "id": {"value": name}} for name, one in OPERATIONS.items()]


def plain(text: str, agent_id: str, framework_id: str) -> str:
    """Return words without what is another's: ids, addresses."""
    text = text.replace(agent_id, "AGENT").replace(framework_id, "FRAMEWORK")
    return re.sub(r"slave\(1\)@127.0.0.1:\d+", "PID", text)
