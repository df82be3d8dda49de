"""What a task's checks mean for its status updates and its life. Pure.

As in Mesos' command executor: TASK_RUNNING carries what is known, every other status of a task with a check carries an
empty check_status, and only the end of a task that its health check had killed says `healthy`.
Source: Mesos src/launcher/executor.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from typing_extensions import assert_never

from mesos_gpu.agent.launching.variables import read_variables
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.tasks import Fate, Phase, Task
from mesos_gpu.agent.model.verdict import EXECUTOR, Verdict
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.checks import CheckNews, HealthNews, News, begin, empty_status, plans_of
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.tasks import is_terminal


def refusal(task: Mapping[str, Any]) -> str | None:
    """Return why the task's checks cannot be done, None when they can."""
    try:
        for plan in plans_of(task):
            read_variables(plan.probe.command or {})
    except BadInput as error:
        return f"The task cannot be checked: {error}"
    return None


class Findings(TypedDict, total=False):
    """The fields of a TaskStatus that checks fill."""

    check_status: Document
    healthy: bool


def said(task: Task, verdict: Verdict) -> Findings:
    """Return what the checks of a task have found, for its status."""
    if verdict.source != EXECUTOR or "executor" in task.info:
        return {}
    fields: Findings = {}
    running = verdict.state == "TASK_RUNNING"
    if task.info.get("check"):
        fields["check_status"] = (task.check_status if running else None) or empty_status(task.info["check"])
    if running and task.healthy is not None:
        fields["healthy"] = task.healthy
    if task.fate is Fate.UNHEALTHY and is_terminal(verdict.state):
        fields["healthy"] = False
    return fields


def begin_checks(task: Task, now_s: float | None = None) -> list[Action]:
    """Return what begins the checks of a task that runs; `now_s` None: it ran before, and since then clocks run."""
    since_s = task.running_since_s if now_s is None else now_s
    if "executor" in task.info or task.phase is not Phase.RUNNING or task.container_id is None or since_s is None:
        return []
    courses = tuple(begin(plan, since_s, healthy=task.healthy, last=task.check_status) for plan in plans_of(task.info))
    return [act.BeginChecks(task.key, task.container_id, task.sandbox, courses)] if courses else []


def end_checks(task: Task) -> list[Action]:
    """Return what ends the checks of a task, if it has any."""
    checked = task.info.get("check") or task.info.get("health_check")
    return [act.EndChecks(task.key)] if checked else []


def take(task: Task, news: News) -> tuple[Verdict, bool]:
    """Take news into the task. Returns what is to be said, and whether the task is to be killed."""
    match news:
        case CheckNews():
            task.check_status = news.status
            return Verdict("TASK_RUNNING", reason="REASON_TASK_CHECK_STATUS_UPDATED"), False
        case HealthNews():
            task.healthy = news.healthy
            return Verdict("TASK_RUNNING", reason="REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"), news.kill
        case _:
            assert_never(news)
