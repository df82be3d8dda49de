"""Carries out what `collecting` decides: looks at clocks and the disk, and removes folders behind the agent's back.

Source: Mesos src/slave/gc.cpp, src/slave/slave.cpp (garbageCollect, checkDiskUsage).
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mesos_gpu.agent.clock import Clock
from mesos_gpu.agent.decisions.collecting import GcRules, Schedule, orphaned
from mesos_gpu.agent.disk.removal import ASIDE, NoFolderError, Remover, folder_in, left_aside, put_aside
from mesos_gpu.agent.launching.nested import CONTAINERS
from mesos_gpu.mesos.ids import AgentId

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long a stop waits for the file that is just being removed, and for a disk that does not answer."""
AT_ONCE = 64
"""How many folders are taken out of the way before the loop continues with something else."""
SLAVES = "slaves"


class Found(NamedTuple):
    """A folder on the disk: when it was last touched (Unix time), and how many there are of it."""

    path: str
    mtime_s: float
    folders: int


def disk_usage(folder: Path) -> float:
    """Return which share of the disk of `folder` is used, as Mesos counts: what is kept for root is free."""
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) / found.f_blocks if found.f_blocks else 0.0


class Collector:
    """The folders of ended runs below one work_dir. Lives in one event loop; `start` makes it remove.

    `on_removed` is told of each folder, by its path in the work_dir, as soon as nobody finds it there any more.
    """

    def __init__(
        self,
        work_dir: Path,
        rules: GcRules | None = None,
        *,
        clock: Clock | None = None,
        usage: Callable[[Path], float] = disk_usage,
    ) -> None:
        self.rules = rules or GcRules()
        self.on_removed: Callable[[str], None] = lambda path: None
        self.succeeded = self.failed = 0
        self.allowed_age_s = self.rules.allowed_age_s(0.0)
        """How long what ended may stay, by how full the disk was when we last looked; an empty one before that."""
        self._roots = (work_dir, work_dir / "meta")
        self._clock, self._usage = clock or Clock(), usage
        self._schedule = Schedule()
        self._removing = 0
        self._stop = threading.Event()
        self._remover = Remover(self._stop)
        self._changed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Return how many folders wait to be removed or are just being removed."""
        return self._schedule.folders + self._removing

    def discard(self, paths: Iterable[str]) -> None:
        """Have folders removed `--gc_delay` from now on; those that are not there are none."""
        for path in paths:
            folders = sum(self._touch(root, path) for root in self._roots)
            if folders:
                self._schedule.put(path, self._clock.mono() + self.rules.delay_s, folders)
        self._changed.set()

    def spare(self, paths: Iterable[str]) -> None:
        """Have folders stay: they are used again."""
        for path in paths:
            self._schedule.spare(path)

    async def recover(self, agent_id: AgentId, used: Callable[[], Collection[str]]) -> None:
        """Schedule what earlier processes left, each by when it was last touched; what is `used` stays.

        Folders of agents that this one is no longer are as old as this process, as in Mesos.
        """
        found = await asyncio.to_thread(self._scan, agent_id)
        mono_s, wall_s = self._clock.mono(), self._clock.wall()
        unused = set(orphaned([one.path for one in found], used()))
        for one in found:
            if one.path in unused and one.path not in self._schedule:
                self._schedule.put(one.path, self.rules.due_s(mono_s, wall_s - one.mtime_s), one.folders)
        self._changed.set()

    def start(self) -> None:
        """Begin to watch the disk and to remove."""
        self._work = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Leave off, also in the middle of a folder; a next process continues."""
        self._stop.set()
        self._changed.set()
        if self._work is not None:
            await asyncio.wait([self._work], timeout=PATIENCE_S)
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    # --- the work -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._work_on()
        except Exception:
            log.exception("sandboxes are no longer collected until the agent is restarted")

    async def _work_on(self) -> None:
        for root in self._roots:
            await self._remove([(str(path), path) for path in left_aside(root)], counted=False)
        look_s = self._clock.mono() + self.rules.watch_interval_s
        while not self._stop.is_set():
            next_s = self._schedule.next_due_s
            await self._wait((look_s if next_s is None else min(look_s, next_s)) - self._clock.mono())
            now_s = self._clock.mono()
            await self.collect(now_s)
            if now_s >= look_s:
                await self.look()
                look_s = self._clock.mono() + self.rules.watch_interval_s

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            # A timer is less than the task that `wait_for` makes; this is what an idle agent does most often.
            timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
        if not self._stop.is_set():
            self._changed.clear()

    async def look(self) -> None:
        """Look how full the disk is, and remove what may not stay so long then."""
        try:
            usage = await asyncio.to_thread(self._usage, self._roots[0])
        except OSError as error:
            log.error("cannot tell how full the disk of %s is: %s", self._roots[0], error)
            return
        self.allowed_age_s = self.rules.allowed_age_s(usage)
        log.debug("the disk is %.0f%% full: what ended may stay %.0f s", 100 * usage, self.allowed_age_s)
        await self.collect(self._clock.mono() + self.rules.sooner_s(usage))

    async def collect(self, until_s: float) -> None:
        """Remove all that is due by then."""
        while not self._stop.is_set() and (taken := self._schedule.take(until_s, AT_ONCE)):
            await self._remove([one for path in taken for one in self._set_aside(path)])

    def _set_aside(self, path: str) -> list[tuple[str, Path]]:
        """Take a folder and its twin out of the way; return where they are now."""
        moved: list[tuple[str, Path]] = []
        failed, linked = self.failed, False
        for root in self._roots:
            try:
                moved.append((path, put_aside(root, path)))
            except FileNotFoundError:
                pass  # it went with what it lay in, or never had a twin
            except NoFolderError:
                linked = True  # `tasks/<id>` in a sandbox: it shows where the task's own lies, and goes with the run
            except OSError as error:
                self.failed += 1
                log.warning("cannot remove %s: %s", root / path, error)
        if failed == self.failed and not linked:
            self.on_removed(path)
        return moved

    async def _remove(self, folders: list[tuple[str, Path]], *, counted: bool = True) -> None:
        self._removing += len(folders)
        for name, folder in folders:
            problem = await asyncio.to_thread(self._remover.remove, folder)
            self._removing -= 1
            if isinstance(problem, InterruptedError):
                continue
            if problem is not None:
                log.warning("not all of %s could be removed, the rest is in %s: %s", name, folder.parent, problem)
            if counted and problem is None:
                self.succeeded += 1
            elif counted:
                self.failed += 1

    # --- what is there ------------------------------------------------------------------------------------------

    def _touch(self, root: Path, path: str) -> bool:
        """Note on the disk that a folder's time runs from now on; return whether it is there."""
        parent, _, name = path.rpartition("/")
        try:
            with folder_in(root, parent) as around:
                os.utime(name, dir_fd=around, follow_symlinks=False)
                return stat.S_ISDIR(os.stat(name, dir_fd=around, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def _scan(self, agent_id: AgentId) -> list[Found]:
        """Return the folders of runs, and those around them, of both trees; for a thread."""
        found: dict[str, Found] = {}
        for root in self._roots:
            for path in _folders_below(root, agent_id, nested=self.rules.nested):
                if path.startswith(SLAVES) and path.count("/") == 1:
                    self._touch(root, path)
                mtime_s = _touched_s(root, path)
                twin = found.get(path, Found(path, mtime_s, 0))
                found[path] = Found(path, max(mtime_s, twin.mtime_s), twin.folders + 1)
        return list(found.values())


def _folders_below(root: Path, agent_id: AgentId, *, nested: bool) -> Iterator[str]:
    """Yield the folders of other agents, and of this one's frameworks, executors, runs and tasks of runs.

    With `nested` also the sandboxes of containers that the API launched.
    """
    if nested:
        yield from _nested_sandboxes(root, "")
    for agent in _folders(root, SLAVES):
        if agent != f"{SLAVES}/{agent_id}":
            yield agent
            continue
        for framework in _folders(root, f"{agent}/frameworks"):
            yield framework
            for executor in _folders(root, f"{framework}/executors"):
                yield executor
                for run in _folders(root, f"{executor}/runs"):
                    yield run
                    if root.name == "meta":
                        yield from _folders(root, f"{run}/tasks")
                    elif nested:
                        yield from _nested_sandboxes(root, f"{run}/")


def _nested_sandboxes(root: Path, around: str) -> Iterator[str]:
    for sandbox in _folders(root, f"{around}{CONTAINERS}"):
        yield sandbox
        yield from _nested_sandboxes(root, f"{sandbox}/")


def _folders(root: Path, path: str) -> list[str]:
    try:
        with folder_in(root, path) as folder, os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [f"{path}/{name}" for name in sorted(names) if name != ASIDE]


def _touched_s(root: Path, path: str) -> float:
    parent, _, name = path.rpartition("/")
    try:
        with folder_in(root, parent) as around:
            return os.stat(name, dir_fd=around, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0  # it has gone meanwhile
