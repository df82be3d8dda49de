"""Which folders of ended runs are removed, and when: Mesos' garbage collection of sandboxes and checkpoints. Pure.

Paths are relative to the work_dir; one stands for the folder there and for its twin below `meta`.
Source: Mesos src/slave/gc.cpp, src/slave/slave.cpp (removeExecutor, removeFramework, completeTask, age).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, own_executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.paths import executor_directory, framework_directory, run_directory, task_directory
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.mesos.ids import AgentId, ContainerId, ExecutorId, FrameworkId

WEEK_S = 7 * 24 * 3600.0
_RUN_DEPTH = 7
"""The slashes in slaves/A/frameworks/F/executors/E/runs/R."""


class GcRules(Struct, frozen=True):
    """Mesos' flags: `--gc_delay`, `--gc_disk_headroom`, `--disk_watch_interval`, `--gc_non_executor_...`."""

    delay_s: float = WEEK_S
    headroom: float = 0.1
    watch_interval_s: float = 60.0
    nested: bool = False
    """Sandboxes of containers that the API launched are collected when they end, not only with their parent's."""

    def allowed_age_s(self, usage: float) -> float:
        """Return how long after its end a folder may stay when this share (0 to 1) of the disk is used."""
        return self.delay_s * max(0.0, 1.0 - self.headroom - usage)

    def sooner_s(self, usage: float) -> float:
        """Return how much too early folders are removed with the disk so full."""
        return self.delay_s - self.allowed_age_s(usage)

    def due_s(self, now_s: float, age_s: float) -> float:
        """Return when a folder that was last touched `age_s` ago is to go; one of the future was touched just now."""
        return now_s + self.delay_s - max(0.0, age_s)


class Entry(NamedTuple):
    """A folder that waits to be removed. `folders`: how many there are of it, in the work_dir and below `meta`."""

    due_s: float
    folders: int


class Schedule:
    """The folders that wait. All times are of one clock, in seconds."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, path: object) -> bool:
        return path in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    @property
    def folders(self) -> int:
        """Return how many folders wait."""
        return sum(entry.folders for entry in self._entries.values())

    @property
    def next_due_s(self) -> float | None:
        """Return when the first is due, None when nothing waits."""
        self._forget_stale()
        return self._heap[0][0] if self._heap else None

    def put(self, path: str, due_s: float, folders: int = 1) -> None:
        """Have a folder removed at `due_s`; whatever was said of it before no longer counts."""
        self._entries[path] = Entry(due_s, folders)
        heapq.heappush(self._heap, (due_s, path))

    def spare(self, path: str) -> bool:
        """Have a folder stay; return whether it waited to be removed."""
        return self._entries.pop(path, None) is not None

    def take(self, until_s: float, most: int) -> list[str]:
        """Take out what is due by `until_s`, at most so many, the inner ones before those around them."""
        taken: list[str] = []
        while len(taken) < most:
            self._forget_stale()
            if not self._heap or self._heap[0][0] > until_s:
                break
            _, path = heapq.heappop(self._heap)
            del self._entries[path]
            taken.append(path)
        return sorted(taken, key=lambda path: -path.count("/"))

    def _forget_stale(self) -> None:
        """Drop what leads the heap and was spared or put off since."""
        while self._heap:
            due_s, path = self._heap[0]
            entry = self._entries.get(path)
            if entry is not None and entry.due_s == due_s:
                return
            heapq.heappop(self._heap)


# --- what the agent's state knows ------------------------------------------------------------------------------------


def of_run(agent_id: AgentId, framework: Framework, ended: Task | Executor) -> tuple[str, ...]:
    """Return what nobody needs any more when this run is over and off the list of its framework."""
    if ended.container_id is None:
        return ()
    name = ended.key.executor if isinstance(ended, Executor) else ended.executor_id
    run = str(run_directory(agent_id, framework.id, name, ended.container_id))
    if name in live_executors(framework):
        return (run,)
    return run, str(executor_directory(agent_id, framework.id, name))


def of_framework(agent_id: AgentId, framework: FrameworkId) -> str:
    """Return the folder of a framework of which nothing is left."""
    return str(framework_directory(agent_id, framework))


def of_task(agent_id: AgentId, task: Task) -> str:
    """Return the folder that holds what was written down of one task of an executor."""
    container_id = task.container_id or ContainerId("")
    return str(task_directory(agent_id, task.key.framework, task.executor_id, container_id, task.key.task))


def live_executors(framework: Framework) -> set[ExecutorId]:
    """Return the names of the executors that have a folder in use, those of command tasks too."""
    own = {task.executor_id for task in framework.tasks.values() if task.container_id and not task.hosted}
    return own | set(framework.executors)


def in_use(agent_id: AgentId, frameworks: Iterable[Framework]) -> set[str]:
    """Return every folder that something still needs: frameworks, executors, runs, and tasks of executors."""
    found: set[str] = set()
    for framework in frameworks:
        found.add(of_framework(agent_id, framework.id))
        found |= {str(executor_directory(agent_id, framework.id, name)) for name in live_executors(framework)}
        for task in framework.tasks.values():
            if task.container_id is not None:
                found.add(str(run_directory(agent_id, framework.id, task.executor_id, task.container_id)))
                found.add(of_task(agent_id, task))
        for executor in framework.executors.values():
            found.add(str(run_directory(agent_id, framework.id, executor.key.executor, executor.container_id)))
    return found


def spared_by(agent_id: AgentId, action: act.Action) -> tuple[str, ...]:
    """Return the folders that an action puts to use again, whoever had them before."""
    match action:
        case act.SaveFramework():
            return (of_framework(agent_id, action.framework),)
        case act.SaveTask() if action.executor is not None:
            framework, task = action.key
            return (str(task_directory(agent_id, framework, action.executor, action.container_id, task)),)
        case act.Launch():
            key = action.key
            name = key.executor if isinstance(key, ExecutorKey) else own_executor(key.task)
            return of_framework(agent_id, key.framework), str(executor_directory(agent_id, key.framework, name))
    return ()


def orphaned(found: Collection[str], used: Collection[str]) -> list[str]:
    """Return those of the folders found that nobody needs; those around one that is needed are, too.

    What lies in a run goes with it.
    """
    around = set(used)
    for path in used:
        while "/" in path:
            path = path.rpartition("/")[0]
            around.add(path)
    unused = [path for path in found if path not in around]
    runs = {path for path in unused if path.count("/") == _RUN_DEPTH}
    return [path for path in unused if "/".join(path.split("/")[: _RUN_DEPTH + 1]) not in runs or path in runs]


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies in it."""
    return path == folder or path.startswith(f"{folder}/")
