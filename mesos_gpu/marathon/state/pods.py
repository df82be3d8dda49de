"""Instances of pods: what they are follows from their containers.

The containers of an instance start together and share an executor, which ends the others when one ends badly. An
instance has ended when all of its containers have.

Source: Marathon core/instance/Instance.scala, raml/PodStatusConversion.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.matching.checks import check_result
from mesos_gpu.marathon.model.instances import Cause, ContainerTask, Instance, Task, cause_of
from mesos_gpu.marathon.state.actions import Publish
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.shares.gpu_links import labelled_cards

MAX_TERMINATIONS = 10
"""Ends of instances that are remembered of one pod."""
MAX_MESSAGE = 10_000
"""Characters kept of a status message."""

# Of those that live, the one that counts for all: the first that there is.
_WORST_FIRST = (
    Cause.TASK_UNREACHABLE,
    Cause.TASK_KILLING,
    Cause.TASK_STAGING,
    Cause.TASK_STARTING,
    Cause.TASK_RUNNING,
)


def task_after(task: Task, status: TaskStatus, now_s: float) -> Task | None:
    """Return the task of an instance after a status of one of its containers; None when that one had ended before."""
    task_id = status["task_id"]["value"]
    index = next(i for i, container in enumerate(task.containers) if container.id == task_id)
    before = task.containers[index]
    if before.ended:
        return None
    container = _container_after(before, status, now_s)
    containers = (*task.containers[:index], container, *task.containers[index + 1 :])
    addresses, cards = _addresses(status) or task.ip_addresses, labelled_cards(status) or task.whole_cards
    after = replace(task, containers=containers, ip_addresses=addresses, whole_cards=cards)
    cause = cause_of_all(after)
    began = all(item.started_at_s is not None for item in containers)
    started_s = max((item.started_at_s or now_s for item in containers), default=now_s) if began else None
    away = cause is Cause.TASK_UNREACHABLE
    return replace(
        after,
        state=_state_of_all(after),
        started_at_s=task.started_at_s or started_s,
        unreachable_since_s=(task.unreachable_since_s or now_s) if away else None,
    )


def cause_of_all(task: Task) -> Cause:
    """Return what the states of all containers mean for their instance."""
    living = [_cause(container) for container in task.containers if not container.ended]
    return min(living, key=_WORST_FIRST.index) if living else Cause.TASK_ENDED


def verdict(task: Task) -> bool | None:
    """Return whether an instance is healthy by its containers' checks; None while none of them has a result."""
    known = [container.healthy for container in task.containers if container.healthy is not None]
    return all(known) if known else None


def healthy(spec: RunSpec, task: Task) -> bool:
    """Return whether every container that has a health check is well; one that came to a good end is."""
    checked = {item["name"] for item in spec.document["pod"]["containers"] if "healthCheck" in item}
    return all(
        container.healthy is True or container.state == "TASK_FINISHED"
        for container in task.containers
        if container.name in checked
    )


def health_event(instance: Instance, task: Task) -> Publish:
    """Return the event that an instance's health has changed."""
    fields = {
        "instanceId": instance.id,
        "runSpecId": instance.app_id,
        "healthy": verdict(task),
        "runSpecVersion": instance.version,
    }
    return Publish("instance_health_changed_event", fields)


def terminations(known: Mapping[str, Any], instance: Instance, task: Task, now_s: float) -> dict[str, Any]:
    """Return what is remembered of the ends of a pod's instances, this one first."""
    ended: dict[str, Any] = {
        "instanceID": instance.id,
        "startedAt": timestamp(task.started_at_s or task.staged_at_s),
        "terminatedAt": timestamp(now_s),
        "containers": [_termination(container) for container in task.containers],
    }
    bad = [item for item in task.containers if item.state not in ("TASK_FINISHED", "TASK_KILLED") and item.message]
    if bad:
        ended["message"] = bad[0].message
    return {"terminationHistory": [ended, *known.get("terminationHistory", ())][:MAX_TERMINATIONS]}


def _termination(container: ContainerTask) -> dict[str, Any]:
    shown: dict[str, Any] = {"containerId": container.id, "lastKnownState": container.state}
    return {**shown, "termination": {"message": container.message}} if container.message else shown


def said_s(status: TaskStatus, now_s: float) -> float:
    """Return when a status says that it was made; never later than now, however far its agent's clock is ahead.

    Else the grace of what began then, or the time that it may take, would begin only when the time has come there.
    """
    return min(float(status.get("timestamp", now_s)), now_s)


def _container_after(container: ContainerTask, status: TaskStatus, now_s: float) -> ContainerTask:
    state = str(status["state"])
    if cause_of(state, status.get("reason")) is Cause.TASK_UNREACHABLE:
        state = "TASK_UNREACHABLE"
    started_s = container.started_at_s
    if state == "TASK_RUNNING" and started_s is None:
        started_s = said_s(status, now_s)
    message = str(status.get("message", ""))[:MAX_MESSAGE]
    return replace(
        container,
        state=state,
        since_s=container.since_s if state == container.state else now_s,
        started_at_s=started_s,
        healthy=bool(status["healthy"]) if "healthy" in status else container.healthy,
        message=message or (container.message if state == container.state else None),
        check_result=check_result(status["check_status"]) if "check_status" in status else container.check_result,
    )


def _cause(container: ContainerTask) -> Cause:
    return cause_of(container.state, None)


def _state_of_all(task: Task) -> str:
    """Return the state that stands for all: of those that live the one that has come least far, else the worst end."""
    living = [container for container in task.containers if not container.ended]
    if living:
        return min(living, key=lambda container: _WORST_FIRST.index(_cause(container))).state
    bad = [c.state for c in task.containers if c.state not in ("TASK_FINISHED", "TASK_KILLED")]
    killed = [c.state for c in task.containers if c.state == "TASK_KILLED"]
    return (bad or killed or ["TASK_FINISHED"])[0]


def _addresses(status: TaskStatus) -> tuple[tuple[str, str], ...]:
    infos = (status.get("container_status") or {}).get("network_infos", [])
    return tuple(
        (address["ip_address"], address.get("protocol", "IPv4"))
        for info in infos
        for address in info.get("ip_addresses", [])
        if "ip_address" in address
    )
