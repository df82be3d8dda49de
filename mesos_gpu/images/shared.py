"""Work that several want at the same time is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class _Work(Generic[Result]):
    def __init__(self, task: asyncio.Task[Result]) -> None:
        self.task, self.wanted_by, self.abandoned = task, 0, False


class Shared(Generic[Key, Result]):
    """Running work by key. It continues while anyone wants it, and is cancelled when the last one is."""

    def __init__(self) -> None:
        self._running: dict[Key, _Work[Result]] = {}

    @property
    def keys(self) -> Collection[Key]:
        """What is being worked on."""
        return self._running.keys()

    async def join(self, key: Key, start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of the work under `key`, which is started if it does not run. Raises what it raises."""
        while (work := self._running.get(key)) is not None and work.abandoned:
            await asyncio.wait([work.task])
        if work is None:
            work = self._running[key] = _Work(asyncio.create_task(start()))
            work.task.add_done_callback(lambda _: self._running.pop(key))
        work.wanted_by += 1
        try:
            return await asyncio.shield(work.task)
        finally:
            work.wanted_by -= 1
            if not work.wanted_by and not work.task.done():
                work.abandoned = True
                work.task.cancel()
                await asyncio.wait([work.task])


async def all_or_none(work: list[Coroutine[Any, Any, None]]) -> None:
    """Run all; when one fails, cancel the others, wait for their end, and raise what it raised.

    Each is cancelled once, also when this is cancelled: a second time would break off what it does about the first.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    if not tasks:
        return
    try:
        # Not gather, which would cancel them, too.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    failures = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    if failures:
        raise failures[0]
    if any(task.cancelled() for task in tasks):
        raise asyncio.CancelledError
