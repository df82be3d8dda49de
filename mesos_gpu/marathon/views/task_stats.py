"""`?embed=app.taskStats`: how the tasks of an app do, by the version they run.

Source: Marathon core/appinfo/TaskStatsByVersion.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import seconds_of
from mesos_gpu.marathon.model.health import verdict
from mesos_gpu.marathon.model.instances import Instance, Task
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.state import State


def task_stats(state: State, spec: RunSpec, instances: Sequence[Instance], moment: Moment) -> dict[str, Any]:
    """Return counts of the tasks of an app, and their ages. A group without tasks is left out."""
    info = spec.document["versionInfo"]
    tasks = [i.task for i in instances if i.task is not None]
    groups: dict[str, Callable[[Task], bool]] = {
        "startedAfterLastScaling": lambda task: task.staged_at_s >= seconds_of(info["lastScalingAt"]),
        "withLatestConfig": lambda task: task.version >= info["lastConfigChangeAt"],
        "withOutdatedConfig": lambda task: task.version < info["lastConfigChangeAt"],
        "totalSummary": lambda task: True,
    }
    shown = {}
    for name, belongs in groups.items():
        if chosen := [task for task in tasks if belongs(task)]:
            shown[name] = {"stats": _stats(state, chosen, moment)}
    return shown


def _stats(state: State, tasks: Sequence[Task], moment: Moment) -> dict[str, Any]:
    states = [task.state for task in tasks]
    verdicts = [verdict(state.health.get(task.id)) for task in tasks]
    stats: dict[str, Any] = {
        "counts": {
            "staged": states.count("TASK_STAGING"),
            "running": states.count("TASK_RUNNING"),
            "healthy": verdicts.count(True),
            "unhealthy": verdicts.count(False),
        }
    }
    ages = [moment.now_s - task.started_at_s for task in tasks if task.started_at_s is not None]
    if ages:
        stats["lifeTime"] = {"averageSeconds": fmean(ages), "medianSeconds": median(ages)}
    return stats
