"""Reads what the last agent process wrote down (checkpoints.py); decides nothing."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar, cast

from msgspec import Struct, field

from mesos_gpu.agent.decisions.from_executors import LIBPROCESS_PID
from mesos_gpu.agent.decisions.replay import ExecutorRun, Run, replay, replay_executor
from mesos_gpu.agent.disk.checkpoints import (
    DOUBT,
    FRAMEWORK_PID,
    HOLDINGS,
    LATEST,
    SENTINEL,
    AgentCheckpoints,
    decoded,
    read_json,
    read_log,
)
from mesos_gpu.agent.disk.shapes import AgentShape, DrainShape, ExecutorShape, HoldingsShape, TaskShape, fits
from mesos_gpu.agent.disk.syncing import Syncing
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import MAX_COMPLETED_EXECUTORS, Framework
from mesos_gpu.agent.model.paths import sandbox_path
from mesos_gpu.agent.model.tasks import Fate, Phase, Task
from mesos_gpu.errors import Conflict
from mesos_gpu.mesos.documents import FrameworkInfo, TaskStatus
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document, ResourceDocument

log = logging.getLogger(__name__)

_BOOT_ID = re.compile(r"[\w-]{1,64}", re.ASCII)


class Recovered(Struct, frozen=True):
    """What was found. `agent` None: there was no agent here, or it had been told to go."""

    agent: Document | None = None
    rebooted: bool = False
    doubt: bool = False
    """Whether what the machine's last restart has lost was not all told: it was restarted now, or a process ago."""
    frameworks: dict[str, FrameworkInfo] = field(default_factory=dict)
    drivers: dict[str, str] = field(default_factory=dict)
    """Where frameworks' scheduler drivers are, by framework id."""
    runs: tuple[Run, ...] = ()
    executors: tuple[ExecutorRun, ...] = ()
    resources: tuple[ResourceDocument, ...] = ()
    """Reservations and volumes; an agent that begins again has them too."""
    operations: tuple[Document, ...] = ()
    drain: Document | None = None


def recover(checkpoints: AgentCheckpoints, boot_id: str) -> Recovered:
    """Return what the last process left; with an agent id, `checkpoints` go on in its folder.

    What only one task or framework needs is skipped with a warning when it is damaged. Raises Conflict when what is
    damaged says who the agent is or what is reserved on it: to begin again would end its tasks and give volumes away.
    The tasks of a framework that is skipped are gone for good: it may come back, and be readable to a later process.
    """
    meta = checkpoints.meta
    agent = _agent(meta / "slaves" / LATEST)
    holdings = _holdings(meta)
    if agent is None:
        return Recovered(resources=tuple(holdings["resources"]))
    checkpoints.use(agent["id"]["value"])
    found: dict[str, FrameworkInfo] = {}
    drivers: dict[str, str] = {}
    runs: list[Run] = []
    executors: list[ExecutorRun] = []
    folder = meta / "slaves" / checkpoints.agent_id
    for framework in _folders(folder / "frameworks"):
        info = read_json(framework / "framework.info")
        if not isinstance(info, dict):
            log.warning("skipping framework %s: its framework.info is not readable", framework.name)
            checkpoints.close_runs(FrameworkId(framework.name))
            continue
        mine = list(_runs(framework, checkpoints.syncing))
        runs += _worth_keeping([run for run in mine if isinstance(run, Run)])
        executors += _worth_keeping([run for run in mine if isinstance(run, ExecutorRun)])
        found[framework.name] = cast(FrameworkInfo, info)
        driver = _text(framework / FRAMEWORK_PID)
        if driver is not None:
            drivers[framework.name] = driver
    rebooted = _boot_id(meta / "boot_id", boot_id) != boot_id
    if rebooted:
        checkpoints.save_doubt(doubt=True)  # before the boot id is: the next process sees no difference any more
    return Recovered(
        agent=agent,
        rebooted=rebooted,
        doubt=rebooted or (folder / DOUBT).exists(),
        frameworks=found,
        drivers=drivers,
        runs=tuple(runs),
        executors=tuple(executors),
        resources=tuple(holdings["resources"]),
        operations=tuple(holdings["operations"]),
        drain=_drain(folder / "drain.config"),
    )


AnyRun = TypeVar("AnyRun", Run, ExecutorRun)


def _worth_keeping(runs: list[AnyRun]) -> list[AnyRun]:
    """Return the last of those that are complete, and all others."""
    complete = [run for run in runs if run.complete][-MAX_COMPLETED_EXECUTORS:]
    return complete + [run for run in runs if not run.complete]


def _agent(link: Path) -> Document | None:
    """Return who the agent is; None when there was none here, or it had been told to go. Raises Conflict."""
    path = link / "slave.info"
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = decoded(data)
    if fits(found, AgentShape):
        agent: Document = found
        return agent if link.is_symlink() else None
    if data and found is None and not data.startswith(b"{"):
        # A mesos-agent's folder: it wrote protobuf, and its tasks may still run.
        raise Conflict(
            f"{path} was written by another agent (mesos-agent?), or it is damaged: drain that one and stop it, then "
            "start this one with a --work_dir of its own"
        )
    raise Conflict(
        f"{path} is damaged: it does not say which agent ran here. Put back a copy of it, or remove {link} to begin "
        "again as another agent; what still runs here is then ended"
    )


def _boot_id(path: Path, now: str) -> str:
    """Return in which boot the last process ran; this one where that is not known, since containers know theirs."""
    text = _text(path)
    if text is None or not _BOOT_ID.fullmatch(text):
        log.warning("%s does not say in which boot the agent ran last; taking it for this one", path)
        return now
    return text


def _drain(path: Path) -> Document | None:
    found: Document | None = read_json(path)
    if fits(found, DrainShape):
        return found
    if path.exists():
        log.warning("%s is damaged: whether this agent drains will be heard from the master", path)
    return None


def _holdings(meta: Path) -> Document:
    path = meta / "resources" / HOLDINGS
    if path.exists():
        found = read_json(path)
        if fits(found, HoldingsShape):
            holdings: Document = found
            return holdings
        raise Conflict(
            f"{path} is damaged: it does not say what is reserved on this agent. Put back a copy of it, or, to give up "
            f"reservations and persistent volumes, remove {path.parent}"
        )
    # What versions before this one wrote.
    return {"resources": read_json(meta / "resources" / "resources.info") or (), "operations": ()}


def _runs(framework: Path, syncing: Syncing) -> Iterator[Run | ExecutorRun]:
    """Yield the latest run of each executor and command task, oldest first; earlier runs are history."""
    latest = [executor / "runs" / LATEST for executor in _folders(framework / "executors")]
    runs = [link.parent / link.readlink() for link in latest if link.is_symlink()]
    for run in sorted((run for run in runs if run.is_dir()), key=lambda run: run.stat().st_mtime):
        executor = read_json(run.parent.parent / "executor.info")
        tasks = tuple(_tasks(framework, run, syncing))
        name = run.parent.parent.name
        if not fits(executor, ExecutorShape) and any(one.task_info["task_id"]["value"] != name for one in tasks):
            # What its tasks have to tell is written below its name, so that it must be known.
            log.warning("%s/executor.info is missing, or not readable; continuing with its name", run.parent.parent)
            executor = {"executor_id": {"value": name}, "framework_id": {"value": framework.name}}
        if not fits(executor, ExecutorShape):
            if executor is not None:
                log.warning("%s/executor.info is not readable; continuing with its tasks alone", run.parent.parent)
            yield from tasks
        else:
            pid, driver = _forked_pid(run), _text(run / LIBPROCESS_PID)
            yield ExecutorRun(
                FrameworkId(framework.name),
                ContainerId(run.name),
                executor,
                tasks,
                pid,
                (run / SENTINEL).exists(),
                driver,
            )


def _tasks(framework: Path, run: Path, syncing: Syncing) -> Iterator[Run]:
    for task in _folders(run / "tasks"):
        info = read_json(task / "task.info")
        if not fits(info, TaskShape):
            log.warning("skipping task %s: its task.info is not readable", task.name)
            continue
        records, complete = tuple(read_log(task / "task.updates")), (run / SENTINEL).exists()
        if not complete:
            # The last process may have been killed before that was synced, or the names of the folders around it, and
            # this one tells it.
            syncing.wrote(task / "task.updates", task / "task.info", task, run / "tasks", run, run.parent)
            syncing.wrote(run.parent.parent, framework / "executors", framework, framework.parent)
        yield Run(FrameworkId(framework.name), ContainerId(run.name), info, records, complete)


def _forked_pid(run: Path) -> int | None:
    try:
        return int((run / "pids" / "forked.pid").read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


def _text(path: Path) -> str | None:
    """Return what a small file says; None where there is none, or a power cut left nothing or no text in it."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except FileNotFoundError:
        return []


def replayed(
    found: Recovered, identity: Identity, at: Moment
) -> tuple[dict[str, Framework], list[tuple[Task, list[TaskStatus]]]]:
    """Return the frameworks, and each command task as it stood, with what is not acknowledged of it.

    A framework is silenced when all of its runs are that are not over. One that was removed may have come back since,
    to a master that does not know it: what it runs by now is reported, and so are the last of those before.
    """
    frameworks = {name: Framework(info, pid=found.drivers.get(name)) for name, info in found.frameworks.items()}
    tasks, silenced = [], dict[str, bool]()
    for run in found.runs:
        executor_id = ExecutorId(run.task_info["task_id"]["value"])  # a command task is its own executor
        sandbox = sandbox_path(identity.work_dir, identity.agent_id, run.framework, executor_id, run.container_id)
        task, pending = replay(run, sandbox, at)
        if run.complete:
            task.phase, pending = Phase.OVER, []
        else:
            silenced[run.framework] = silenced.get(run.framework, True) and task.fate is Fate.SILENCED
        tasks.append((task, pending))
    for name, framework in frameworks.items():
        framework.silenced = silenced.get(name, False)
    return frameworks, tasks


def replayed_executors(
    found: Recovered, identity: Identity, at: Moment
) -> list[tuple[Executor, list[tuple[Task, list[TaskStatus]]], bool]]:
    """Return each executor, its tasks as `replayed` does, and whether its run is closed."""
    executors = []
    for run in found.executors:
        name = run.info["executor_id"]["value"]
        sandbox = sandbox_path(identity.work_dir, identity.agent_id, run.framework, name, run.container_id)
        executors.append((*replay_executor(run, sandbox, at), run.complete))
    return executors
