"""What is said about a task that may not run, or that ended: one place for states, reasons and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mesos_gpu.agent.decisions import checking
from mesos_gpu.agent.decisions.permissions import run_refusal
from mesos_gpu.agent.launching import executor_launch, launch, shares
from mesos_gpu.agent.model import cdi_names, device_units
from mesos_gpu.agent.model.events import Identity, RunTask
from mesos_gpu.agent.model.executors import DEFAULT, Executor, ExecutorPatience
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.namespace_exits import ALL_ALIKE, NamespaceExits
from mesos_gpu.agent.model.paths import is_path_safe
from mesos_gpu.agent.model.status import how_it_ended, verdict_of
from mesos_gpu.agent.model.tasks import Fate, Phase, Task
from mesos_gpu.agent.model.verdict import AGENT, Verdict
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo, TaskStatus
from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.mesos.tasks import is_terminal, seen_by
from mesos_gpu.mesos.units import format_duration


def _dropped(framework: Framework, reason: str, message: str, state: str = "TASK_DROPPED") -> Verdict:
    """Return a verdict with a state that only PARTITION_AWARE frameworks are told by its own name."""
    return Verdict(seen_by(state, partition_aware=framework.can("PARTITION_AWARE")), AGENT, reason, message)


def refused_run(
    event: RunTask,
    framework: Framework,
    *,
    resource_version: str,
    draining: bool,
    acls: Acls = OPEN,
    exits: NamespaceExits = ALL_ALIKE,
) -> Verdict | None:
    """Return why none of the tasks of a message may run, or None."""
    refusals = (
        run_refusal(acls, framework, info)
        or exits.refusal(acls, framework.info, info, hosted=event.group or "executor" in info)
        for info in event.tasks
    )
    unauthorized = next(filter(None, refusals), None)
    if unauthorized is not None:
        reason = "REASON_TASK_GROUP_UNAUTHORIZED" if event.group else "REASON_TASK_UNAUTHORIZED"
        return Verdict("TASK_ERROR", AGENT, reason, unauthorized)
    if event.resource_version not in (None, resource_version):
        return _dropped(framework, "REASON_INVALID_OFFERS", "The offer was made by an earlier agent process")
    if draining:
        return _dropped(framework, "REASON_AGENT_DRAINING", "The agent is draining")
    if event.unknown:
        words = "The checkpointed resources being used by the task or task group are unknown to the agent"
        return _dropped(framework, "REASON_RESOURCES_UNKNOWN", words)
    return None


def refused_task(identity: Identity, info: TaskInfo) -> Verdict | None:
    """Return why this task may not run, or None."""
    if not is_path_safe(info["task_id"]["value"]):
        return Verdict("TASK_ERROR", AGENT, "REASON_TASK_INVALID", "The task id cannot be the name of a folder")
    words = launch.refusal(info, identity.logger) or checking.refusal(info)
    return refused_share(identity, info) if words is None else launch_failed(words)


def refused_share(identity: Identity, info: Mapping[str, Any], *, running: bool = False) -> Verdict | None:
    """Return why a task may not have its part of a GPU, devices of a plugin, or CDI devices, or None.

    `running`: its executor runs already.
    """
    words = (
        shares.refusal(identity.shared_cards, info, running=running, require=identity.share_require)
        or device_units.refusal(info, identity.gpus_from, running=running)
        or cdi_names.refusal(info, identity.cdi_kinds, running=running)
    )
    return None if words is None else Verdict("TASK_ERROR", AGENT, "REASON_TASK_INVALID", words)


def launch_failed(cause: str) -> Verdict:
    """Return what is said when a container could not be launched."""
    return Verdict("TASK_FAILED", AGENT, "REASON_CONTAINER_LAUNCH_FAILED", f"Failed to launch container: {cause}")


def gpu_ill(task: Task) -> Verdict:
    """Return what is said of a task that had to end for its GPU; the reason is that of Mesos' ContainerLimitation."""
    return Verdict("TASK_FAILED", AGENT, "REASON_CONTAINER_LIMITATION", task.why)


def killed_during_launch(task: Task) -> Verdict:
    """Return what is said when the kill came before the container ran."""
    if task.fate is Fate.GPU_ILL:
        return gpu_ill(task)
    words = "Killed before its container ran"
    return Verdict("TASK_KILLED", AGENT, task.reason or "REASON_TASK_KILLED_DURING_LAUNCH", words)


def ended(framework: Framework, task: Task, ending: Termination) -> Verdict:
    """Return what is said when the container of a running (or ending) task ended."""
    message = how_it_ended(ending)
    if task.fate is Fate.TIMED_OUT:
        return Verdict("TASK_FAILED", reason="REASON_MAX_COMPLETION_TIME_REACHED", message=message)
    if task.fate is Fate.GPU_ILL:
        return gpu_ill(task)
    if task.fate is None:
        return verdict_of(ending)
    gone = task.gone and framework.can("PARTITION_AWARE")
    return Verdict("TASK_GONE_BY_OPERATOR" if gone else "TASK_KILLED", reason=task.reason, message=message)


def vanished(framework: Framework, task: Task, was: Phase, *, rebooted: bool) -> Verdict:
    """Return what is said when a container is not there after a restart of the agent."""
    why = "the machine was restarted" if rebooted else "its container is not there after an agent restart"
    if was is Phase.CANCELLED:
        return killed_during_launch(task)
    if task.fate is Fate.GPU_ILL:
        return gpu_ill(task)
    if task.fate in (Fate.KILLED, Fate.UNHEALTHY, Fate.SILENCED):
        return Verdict("TASK_KILLED", AGENT, task.reason or "REASON_AGENT_RESTARTED", f"Killed, and {why}")
    if was is Phase.LAUNCHING and not rebooted:
        return _dropped(framework, "REASON_AGENT_RESTARTED", f"Never launched: {why}")
    return _dropped(framework, "REASON_AGENT_RESTARTED", f"Lost: {why}", "TASK_GONE")


def not_here(past: Task | None, *, partition_aware: bool, reason: str, rebooted: bool = False) -> Verdict:
    """Return what is said about a task that someone else believes to be here; `past` is what we remember of it.

    Its end was acknowledged, but a master may take it up again from a list of ours that was older than that. Mesos says
    TASK_DROPPED of such a task too, whatever became of it. Where the machine was `rebooted` since, what was known of it
    may be lost with the power: it may have run, and TASK_DROPPED would say that it never did.
    """
    if past is not None and is_terminal(past.state):
        return Verdict(past.state, AGENT, reason, "The task has ended, and its end was acknowledged")
    state = seen_by("TASK_GONE" if rebooted else "TASK_DROPPED", partition_aware=partition_aware)
    since = " since its machine was restarted" if rebooted else ""
    return Verdict(state, AGENT, reason, f"The task is unknown to the agent{since}")


# --- tasks of executors ---------------------------------------------------------------------------------------------


def refused_hosted(
    identity: Identity, executor: ExecutorInfo, tasks: Sequence[TaskInfo], *, group: bool
) -> Verdict | None:
    """Return why tasks may not run in this executor, or None; a group runs whole or not at all."""
    if (executor.get("type") == DEFAULT) is not group:
        return launch_failed("Task groups are for the default executor, and it is for task groups")
    if not all(is_path_safe(info["task_id"]["value"]) for info in tasks):
        return Verdict("TASK_ERROR", AGENT, "REASON_TASK_INVALID", "The task id cannot be the name of a folder")
    words = executor_launch.refusal(identity, executor)
    if words is None and group and any(info.get("limits") and not has_own_cgroup(info) for info in tasks):
        words = "Resource limits of a task of a group need share_cgroups=false"
    if words is not None:
        return launch_failed(words)
    return next(filter(None, (refused_share(identity, info) for info in (executor, *tasks))), None)


def has_own_cgroup(task: TaskInfo) -> bool:
    """Return whether a task of a group is held to limits of its own, rather than to its group's."""
    return (task.get("container") or {}).get("linux_info", {}).get("share_cgroups") is False


def executor_terminated(framework: Framework) -> Verdict:
    """Return what is said of a task whose executor is ending or gone."""
    return _dropped(framework, "REASON_EXECUTOR_TERMINATED", "Executor terminated")


def taken_back(killed: Task, task: Task) -> Verdict:
    """Return what is said of a task that was killed, or whose group was, before its executor had it."""
    words = "Task killed before delivery to the executor"
    if task is not killed:
        words = "A task within the task group was killed before delivery to the executor"
    return Verdict("TASK_KILLED", AGENT, killed.reason or "REASON_TASK_KILLED_DURING_LAUNCH", words)


def never_arrived(framework: Framework) -> Verdict:
    """Return what is said of a task that an executor does not know after a restart of the agent."""
    return _dropped(framework, "REASON_AGENT_RESTARTED", "Task launched during agent restart")


def update_failed(problem: str) -> Verdict:
    """Return what is said of a task for which its executor's container could not be made larger."""
    words = f"Failed to update resources for container: {problem}"
    return Verdict("TASK_FAILED", AGENT, "REASON_CONTAINER_UPDATE_FAILED", words)


def not_subscribed(framework: Framework, executor: Executor, patience: ExecutorPatience) -> Verdict:
    """Return what is said of the tasks of an executor that did not subscribe in time."""
    if executor.recovered:
        words = f"Executor did not reregister within {format_duration(patience.reregistration_s)}"
        return _dropped(framework, "REASON_EXECUTOR_REREGISTRATION_TIMEOUT", words, "TASK_GONE")
    words = f"Executor did not register within {format_duration(patience.registration_s)}"
    return Verdict("TASK_FAILED", AGENT, "REASON_EXECUTOR_REGISTRATION_TIMEOUT", words)


def executor_vanished(framework: Framework, *, rebooted: bool) -> Verdict:
    """Return what is said of the tasks of an executor whose container is not there after a restart of the agent."""
    why = "the machine was restarted" if rebooted else "its executor's container is not there after an agent restart"
    return _dropped(framework, "REASON_EXECUTOR_TERMINATED", f"Lost: {why}", "TASK_GONE")


def with_its_executor(executor: Executor, task: Task, ending: Termination | None) -> Verdict:
    """Return what is said of a task that ran, or waited, when its executor's container ended."""
    if task.fate is Fate.GPU_ILL:
        return gpu_ill(task)
    if executor.verdict is not None:
        return executor.verdict
    if ending is not None and (ending.oom or ending.disk_limit_bytes is not None):
        return verdict_of(ending)
    return Verdict("TASK_FAILED", AGENT, "REASON_EXECUTOR_TERMINATED", "Executor terminated")


def of_agents_doing(framework: Framework, task: Task, status: TaskStatus) -> TaskStatus:
    """Return an executor's status of a task that the agent had it kill, with the agent's reason for it."""
    if status["state"] != "TASK_KILLED" or task.fate is None:
        return status
    if task.fate is Fate.GPU_ILL:
        verdict = gpu_ill(task)
        said = {"state": verdict.state, "reason": verdict.reason, "message": verdict.message}
        return cast(TaskStatus, {**status, **said})
    if task.reason is None:
        return status
    gone = task.gone and framework.can("PARTITION_AWARE")
    return {**status, "state": "TASK_GONE_BY_OPERATOR" if gone else "TASK_KILLED", "reason": task.reason}


def wait_status(ending: Termination | None) -> int:
    """Return the status as wait(2) gives it, -1 when nobody knows it."""
    if ending is None or (ending.exit_code is None and ending.signal is None):
        return -1
    return ending.signal if ending.signal is not None else (ending.exit_code or 0) << 8
