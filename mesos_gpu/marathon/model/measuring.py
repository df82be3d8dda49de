"""What tasks used since they were last looked at, from what agents show of their containers. Pure.

Source: Mesos' /containers (ResourceStatistics: processor time is counted from a container's begin); `gpus` beside the
statistics is of our own agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.marathon.model.instances import Instance, Phase
from mesos_gpu.marathon.model.usage import Reading, milliseconds
from mesos_gpu.mesos.ids import AgentId, TaskId
from mesos_gpu.mesos.units import MIB

Document = Mapping[str, Any]


class Look(Struct, frozen=True):
    """When a task was looked at, and what its processors had done by then."""

    at_s: float
    cpu_s: float | None


class Wanted(Struct, frozen=True):
    """A task that is to be looked at; `executors`: the names under which agents may show it."""

    task_id: TaskId
    instance_id: str
    executors: tuple[str, ...]
    began_s: float


def wanted(instances: Iterator[Instance]) -> dict[AgentId, list[Wanted]]:
    """Return the tasks that run, by agent."""
    found: dict[AgentId, list[Wanted]] = {}
    for instance in instances:
        task = instance.task
        if task is None or instance.phase is not Phase.RUNNING:
            continue
        # That of a command task, of a task with an executor of its own, and of a pod.
        names = (task.id, f"marathon-{task.id}", f"instance-{instance.id}.{instance.incarnation}")
        began_s = task.started_at_s or task.staged_at_s
        found.setdefault(task.agent_id, []).append(Wanted(task.id, instance.id, names, began_s))
    return found


def measured(
    shown: Sequence[Document], tasks: Sequence[Wanted], before: Mapping[TaskId, Look], *, first_s: float, now_s: float
) -> Iterator[tuple[Wanted, Reading | None, Look]]:
    """Yield each task that an agent shows, with what it used since `before`, and this look.

    Of a task that ran before anybody looked (`first_s`) the first look tells nothing: what it used until then may be
    on an account already.
    """
    tops = {str(each.get("executor_id")): each for each in shown if each.get("executor_id")}
    gpus: dict[str, list[Document]] = {}
    for each in shown:
        gpus.setdefault(_top(each), []).extend(each.get("gpus") or ())
    for task in tasks:
        found = next((tops[name] for name in task.executors if name in tops), None)
        if found is None:
            continue
        cpu_s = _cpu_s(found.get("statistics") or {})
        known = before.get(task.task_id)
        if known is None and task.began_s >= first_s:
            known = Look(task.began_s, 0.0)
        look = Look(now_s, cpu_s)
        if known is None or now_s <= known.at_s:
            yield task, None, look
            continue
        used_s = None if cpu_s is None or known.cpu_s is None else max(0.0, cpu_s - known.cpu_s)
        yield task, _reading(found, gpus.get(_top(found), []), now_s - known.at_s, used_s), look


def _reading(found: Document, gpus: Sequence[Document], period_s: float, cpu_s: float | None) -> Reading:
    said = found.get("statistics") or {}
    memory = said.get("mem_rss_bytes", said.get("mem_total_bytes"))
    busy = [int(gpu["utilization_percent"]) for gpu in gpus if gpu.get("utilization_percent") is not None]
    in_use = [int(gpu["memory_used_mib"]) for gpu in gpus if gpu.get("memory_used_mib") is not None]
    return Reading(
        period_ms=milliseconds(period_s),
        cpu_ms=None if cpu_s is None else round(cpu_s * 1_000_000),
        mem=None if memory is None else int(memory) * 1000 // MIB,
        gpus=len(busy),
        busy_percent=sum(busy),
        idle_gpus=busy.count(0),
        gpu_mem=1000 * sum(in_use) if in_use else None,
    )


def _cpu_s(said: Document) -> float | None:
    try:
        return float(said["cpus_user_time_secs"]) + float(said["cpus_system_time_secs"])
    except (LookupError, TypeError, ValueError):
        return None


def _top(shown: Document) -> str:
    """Return the id of the container that one is nested in, or its own."""
    at = (shown.get("status") or {}).get("container_id") or {"value": shown.get("container_id")}
    while at.get("parent"):
        at = at["parent"]
    return str(at.get("value"))
