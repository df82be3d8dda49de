"""Ids of instances and of their tasks: they say which app they are of. The command line reads them, too."""

from __future__ import annotations

import re

_TASK_ID = re.compile(
    r"^(?P<instance>.+\.instance-[0-9a-f-]{36})\.(_app|[a-z0-9]([a-z0-9-]*[a-z0-9])?)\.(?P<incarnation>\d+)$"
)


def new_instance_id(app_id: str, uuid: str) -> str:
    """Return the id of a new instance. Ids of apps have no underscore, so the mapping can be undone."""
    return f"{app_id.strip('/').replace('/', '_')}.instance-{uuid}"


def instance_of(task_id: str) -> str | None:
    """Return the instance id within a task id, None when the task is not one of ours."""
    match = _TASK_ID.match(task_id)
    return match["instance"] if match else None


def app_of(task_or_instance_id: str) -> str | None:
    """Return the app id within a task or instance id, None when there is none."""
    safe, dot, _ = task_or_instance_id.partition(".instance-")
    return "/" + safe.replace("_", "/") if dot else None
