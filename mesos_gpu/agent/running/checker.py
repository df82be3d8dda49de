"""Runs the checks of tasks: probes when they are due, and tells what is new, as mesos/checks.py decides."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

from mesos_gpu.mesos.checks import Course, News, Probe, Result, answered, asked

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
Look: TypeAlias = Callable[[Probe], Awaitable[Result | None]]
"""Carries out one probe within its timeout; None: there is nothing left to look at."""


class Checker(Generic[K]):
    """The checks of many tasks, each named by a key. `tell` is called from the event loop, with nothing under way."""

    def __init__(self, tell: Callable[[K, News], None], now: Callable[[], float]) -> None:
        self._tell, self._now = tell, now
        self._tasks: dict[K, list[asyncio.Task[None]]] = {}

    def begin(self, key: K, courses: Sequence[Course], look: Look) -> None:
        """Follow these courses until `end`; any that ran under the key end first."""
        self.end(key)
        self._tasks[key] = [asyncio.create_task(self._follow(key, course, look)) for course in courses]

    def end(self, key: K) -> None:
        """Stop probing, and tell nothing more; a probe under way is ended."""
        for task in self._tasks.pop(key, ()):
            task.cancel()

    async def stop(self) -> None:
        """End all, and return when no probe is under way."""
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, key: K, course: Course, look: Look) -> None:
        try:
            while True:
                due_s = self._now() if course.due_s is None else course.due_s
                await asyncio.sleep(max(0.0, due_s - self._now()))
                course = asked(course)
                result = await look(course.plan.probe)
                if result is None:
                    return
                course, news = answered(course, result, self._now())
                if news is not None:
                    self._tell(key, news)
        except Exception:  # a mistake of ours: said here, since nobody waits for this
            log.exception("checking %s", key)
