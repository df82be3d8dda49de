"""From what was written down back to where a task stood: pure, the counterpart of the Log actions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, own_executor
from mesos_gpu.agent.model.network_infos import networks_of
from mesos_gpu.agent.model.tasks import Fate, Phase, Task
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo, TaskStatus
from mesos_gpu.mesos.ids import ContainerId, FrameworkId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.tasks import is_terminal


class Run(Struct, frozen=True):
    """One checkpointed run of a command executor. `complete`: it was closed, nothing is to be done for it."""

    framework: FrameworkId
    container_id: ContainerId
    task_info: TaskInfo
    records: tuple[Document, ...]
    complete: bool = False


class ExecutorRun(Struct, frozen=True):
    """One checkpointed run of a framework's executor, with its tasks."""

    framework: FrameworkId
    container_id: ContainerId
    info: ExecutorInfo
    tasks: tuple[Run, ...]
    pid: int | None = None
    complete: bool = False
    driver: str | None = None


def replay_executor(run: ExecutorRun, sandbox: str, at: Moment) -> tuple[Executor, list[tuple[Task, list[TaskStatus]]]]:
    """Return the executor, and each of its tasks as it stood, with what is not acknowledged of it."""
    name = run.info["executor_id"]["value"]
    executor = Executor(ExecutorKey(run.framework, name), run.info, run.container_id, sandbox, pid=run.pid)
    executor.driver = run.driver
    tasks: list[tuple[Task, list[TaskStatus]]] = []
    for one in run.tasks:
        task, pending = replay(one, sandbox, at)
        task.executor_id, task.hosted, task.deadline_s = name, True, None
        if task.phase is Phase.LAUNCHING:
            task.phase = Phase.RUNNING  # whether the executor has it will be seen when it subscribes
        elif task.phase is Phase.CANCELLED:
            task.phase = Phase.ENDING
        said = [record["status"] for record in one.records if record["type"] == "UPDATE"]
        task.received.update(status["uuid"] for status in said if status["source"] == "SOURCE_EXECUTOR")
        tasks.append((task, pending))
    if networks_of(run.info):
        statuses = [status for task, _ in tasks for status in task.statuses]
        executor.networks = next(filter(None, map(_networks, statuses)), ())
    return executor, tasks


def _networks(status: TaskStatus) -> tuple[Document, ...]:
    return tuple((status.get("container_status") or {}).get("network_infos", ()))


def replay(run: Run, sandbox: str, at: Moment) -> tuple[Task, list[TaskStatus]]:
    """Return the task as it stood after the last record, and its updates that are not acknowledged, oldest first."""
    key = TaskKey(run.framework, run.task_info["task_id"]["value"])
    task = Task(key, run.task_info, own_executor(key.task), run.container_id, sandbox)
    pending: list[TaskStatus] = []
    for record in run.records:
        if record["type"] == "UPDATE":
            task.note(record["status"])
            if record["status"]["state"] == "TASK_RUNNING":
                task.healthy, task.check_status = record["status"].get("healthy"), record["status"].get("check_status")
            pending.append(record["status"])
        elif record["type"] == "ACK":
            # Only the oldest can have been acknowledged; it was the last one forwarded.
            if pending and pending[0].get("uuid") == record["uuid"]:
                acknowledged = pending.pop(0)
                task.forwarded_state, task.forwarded_uuid = acknowledged["state"], acknowledged["uuid"]
        elif record["type"] == "KILL":
            task.fate, task.reason, task.why = Fate(record["fate"]), record.get("reason"), record.get("why")
    if pending:
        task.forwarded_state, task.forwarded_uuid = pending[0]["state"], pending[0]["uuid"]
    since_s = _running_since(run.records)
    task.phase = _phase(task, ran=since_s is not None)
    _clocks(task, since_s, at)
    task.grace_ends_s = _grace_ends_s(run.records, at)
    return task, pending


def _phase(task: Task, *, ran: bool) -> Phase:
    if is_terminal(task.state):
        return Phase.OVER
    if task.fate is None:
        return Phase.RUNNING if ran else Phase.LAUNCHING
    return Phase.ENDING if ran else Phase.CANCELLED


def _clocks(task: Task, since_s: float | None, at: Moment) -> None:
    if task.statuses:
        task.pid = (task.statuses[-1].get("container_status") or {}).get("executor_pid")
        task.networks = _networks(task.statuses[-1]) if networks_of(task.info) else ()
    if since_s is not None:
        task.running_since_s = at.mono_s - max(0.0, at.wall_s - since_s)
    limit_s = launch.max_completion_s(task.info)
    if limit_s is not None and since_s is not None and task.phase is Phase.RUNNING:
        # No more than all of it, should the clock have been set back meanwhile.
        task.deadline_s = at.mono_s + min(limit_s, max(0.0, since_s + limit_s - at.wall_s))


def _grace_ends_s(records: Sequence[Document], at: Moment) -> float | None:
    """Return when the shortest grace that it was given is over, in monotonic seconds; None where nobody gave it any."""
    given = [r for r in records if r["type"] == "KILL" and r.get("grace_s") is not None]
    left = (min(r["grace_s"], max(0.0, r["grace_ends_s"] - at.mono_s)) for r in given)
    return min((at.mono_s + left_s for left_s in left), default=None)


def _running_since(records: Sequence[Document]) -> float | None:
    """Return when it was first said to run; later words about a running task do not wind its clock up again."""
    said = (record["status"] for record in records if record["type"] == "UPDATE")
    return next((float(status["timestamp"]) for status in said if status["state"] == "TASK_RUNNING"), None)
