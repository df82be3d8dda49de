"""Tasks as a master lists them, of every framework, also those that have ended, in the shape of Marathon's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from marathon_cli.clients.task_names import TaskRef, matching
from mesos_gpu.marathon.model.task_ids import app_of
from mesos_gpu.mesos.tasks import is_terminal


def tasks_of(
    tasks: Sequence[Mapping[str, Any]],
    slaves: Sequence[Mapping[str, Any]],
    *,
    name: str | None = None,
    completed: bool | None = None,
    agent_id: str | None = None,
) -> list[dict[str, Any]]:
    """Return tasks, the latest first: those that `name` means, on an agent, that have ended (or that have not).

    `agent_id` may be the end of an id. Each has the keys by which Marathon lists its tasks, and those of the master.
    """
    hosts = {str(slave.get("id")): str(slave.get("hostname")) for slave in slaves}
    meant = None if name is None else {ref.id for ref in matching([TaskRef.of(task) for task in tasks], name)}
    found = [
        {
            **task,
            "appId": app_of(str(task.get("id"))),
            "gpus": int((task.get("resources") or {}).get("gpus") or 0),
            "gpuDevices": [],
            "host": hosts.get(str(task.get("slave_id"))),
            "startedAt": next(_times(task), None),
            "endedAt": next(_times(task, last=True), None) if is_terminal(str(task.get("state"))) else None,
        }
        for task in tasks
        if (meant is None or task.get("id") in meant)
        and (completed is None or is_terminal(str(task.get("state"))) == completed)
        and (agent_id is None or str(task.get("slave_id")).endswith(agent_id))
    ]
    return sorted(found, key=lambda task: str(task["endedAt"] or task["startedAt"] or ""), reverse=True)


def _times(task: Mapping[str, Any], *, last: bool = False) -> Iterator[str]:
    """Yield when each status of a task was made, as Marathon writes times; the last one first with `last`."""
    statuses = task.get("statuses") or []
    for status in reversed(statuses) if last else statuses:
        moment = datetime.fromtimestamp(float(status.get("timestamp") or 0), timezone.utc)
        yield f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
