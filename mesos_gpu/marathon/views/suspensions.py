"""Whose GPUs are, or were to be, put away for what waits, and who could not be suspended for it, in /v2/queue. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.matching.share_scheduling import high_share
from mesos_gpu.marathon.model.instances import ASKED, AWAY, Task
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.resource import Document


def suspensions_for(state: State, waiting: Iterable[RunSpec]) -> Mapping[str, list[Document]]:
    """Return, for each app that others are suspended for, the tasks that were asked to be, are, or could not be."""
    takers = {spec.id for spec in waiting if spec.ordered or high_share(spec) is not None}
    found: dict[str, list[Document]] = {}
    for instance in state.instances.values() if takers else ():
        task = instance.task
        if task is None or (taker := _taker(task)) not in takers:
            continue
        found.setdefault(str(taker), []).append({"appId": instance.app_id, "taskId": task.id, **_how(task)})
    return found


def _taker(task: Task) -> str | None:
    if task.suspension:
        return task.suspended_for
    no = task.refusal
    return no.asked_for if no is not None and no.what == "suspend" else None


def _how(task: Task) -> Document:
    """Return how far it has come, or why it has not."""
    if task.suspension in (ASKED, AWAY) or task.refusal is None:
        return {"state": task.suspension, **unanswered(task)}
    return {"state": "refused", "reason": task.refusal.reason, "at": timestamp(task.refusal.at_s)}


def unanswered(task: Task) -> Document:
    """Return how often an agent did not answer what is asked of it now; nothing before it is asked again."""
    return {"unanswered": task.asks - 1} if task.asks > 1 else {}
