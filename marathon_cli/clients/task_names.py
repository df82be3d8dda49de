"""Which tasks a name means: an id, an app's name, the beginning of an id, or a pattern. Pure.

Source: the rules of `dcos task` (an exact id wins; else an id that contains the word, or matches it as a pattern), with
apps' and pods' names as Marathon's users write them. More than one is refused where one is needed, with the candidates.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.model.task_ids import app_of
from mesos_gpu.mesos.tasks import is_terminal

SHOWN = 10
SHORTEST = 8
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task as a master's /tasks shows it. `container_id` is known when the task has been started."""

    id: str
    agent_id: str
    framework_id: str
    state: str
    container_id: Mapping[str, Any] | None = None
    told_at: float = 0.0
    """When its last status was made, in seconds since the epoch; 0 when that is not known."""

    @property
    def ended(self) -> bool:
        """Return whether it no longer runs."""
        return is_terminal(self.state)

    @classmethod
    def of(cls, task: Mapping[str, Any]) -> TaskRef:
        """Read one task of a master's or an agent's JSON."""
        container_id: Mapping[str, Any] | None = None
        told_at = 0.0
        for status in task.get("statuses") or ():
            container_id = (status.get("container_status") or {}).get("container_id") or container_id
            told_at = max(told_at, float(status.get("timestamp") or 0))
        return cls(
            str(task.get("id")),
            str(task.get("slave_id")),
            str(task.get("framework_id")),
            str(task.get("state")),
            container_id,
            told_at,
        )

    @property
    def runs(self) -> tuple[str, str]:
        """Return what it is a run of: its app, or its pod and which of the containers there."""
        begin, _, rest = self.id.partition(".")
        return begin, rest.split(".")[1] if rest.startswith("instance-") and "." in rest else ""


def matching(tasks: Sequence[TaskRef], name: str) -> list[TaskRef]:
    """Return the tasks that `name` means, running ones before others, in the order of their ids.

    The first of these rules that finds any counts: the id itself; a pattern with * ? or [ ]; the name of an app or pod,
    with or without slashes; the beginning of an id; a part of one.
    """
    dotted = name.strip("/").replace("/", "_")
    pattern = any(char in name for char in "*?[")
    rules = (
        lambda task: task.id == name,
        lambda task: pattern and fnmatchcase(task.id, name),
        lambda task: task.id.startswith(f"{dotted}."),
        lambda task: task.id.startswith(name),
        lambda task: name in task.id,
    )
    for rule in rules:
        found = [task for task in tasks if name and rule(task)]
        if found:
            return sorted(found, key=lambda task: (task.ended, task.id))
    return []


def one(tasks: Sequence[TaskRef], name: str, *, ended: bool = False) -> TaskRef:
    """Return the one task that `name` means: a running one, or with `ended` also one that has ended if none runs.

    Of several that have ended, all of them runs of one app, that is the last.

    Raises NotFound, with the nearest name; BadInput, with the candidates, when there are several.
    """
    found = matching(tasks, name)
    live = [task for task in found if not task.ended]
    if live or not ended:
        found = live if live else [task for task in found if not task.ended]
    if not found:
        gone = matching(tasks, name)
        if gone:
            raise NotFound(f"no task {name} runs; {gone[0].id} has ended: {gone[0].state}")
        raise NotFound(f"there is no task {name}{_nearest(tasks, name)}")
    if len(found) > 1 and not live and len({task.runs for task in found}) == 1:
        return max(found, key=lambda task: (task.told_at, task.id))
    if len(found) > 1:
        lines = [f"  {task.id}" for task in found[:SHOWN]]
        more = [f"  and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        raise BadInput("\n".join([f"{name} may mean {len(found)} tasks; name one of them:", *lines, *more]))
    return found[0]


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return for each id the shortest part of it, from its UUID on, that none of the others has; else the id itself.

    Every command that takes a task takes such a part (`matching`), as long as no other task has come that has it, too.
    """
    return [_short(name, [other for other in ids if other != name]) for name in ids]


def _short(name: str, others: Sequence[str]) -> str:
    found = _UUID.search(name)
    tail = name[found.start() :] if found else ""
    parts = (tail[:length] for length in range(SHORTEST, len(tail) + 1))
    return next((part for part in parts if not any(part in other for other in others)), name)


def _nearest(tasks: Sequence[TaskRef], name: str) -> str:
    apps = {task.id.partition(".")[0]: None for task in tasks}
    near = difflib.get_close_matches(name.strip("/").replace("/", "_"), apps, n=1)
    return f"; did you mean {near[0]}?" if near else "; `mesos-gpu task list` shows what there is"


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
        yield timestamp(float(status.get("timestamp") or 0))
