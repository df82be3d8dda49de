"""What was written and a power cut could still take, and who waits until it cannot: one sync serves all who wait.

Syncing takes a disk milliseconds, or seconds where it is busy. So it is done in threads, while the loop goes on; what
is written meanwhile goes into the next one (group commit, as databases have it). A launch has ten files and folders:
ext4 has a flush of the disk for each, one after the other, and one for all of those that ask at the same time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from mesos_gpu.base.files import sync_existing
from mesos_gpu.errors import Unavailable

AT_ONCE = 8
"""So many files are synced at a time: a launch took 25 ms one after the other, 5 by four threads, 2.4 by eight."""


class Syncing:
    """Files and folders that are to be synced. Everything here is called in one event loop."""

    def __init__(self) -> None:
        self.on_failure: Callable[[OSError], None] = lambda error: None
        """Called when the disk failed: what waited for it is not done, and nothing that waits later."""
        self._unsynced: dict[Path, None] = {}
        self._waiting: list[Callable[[OSError | None], None]] = []
        self._busy = False
        self._failure: OSError | None = None
        self._threads = ThreadPoolExecutor(AT_ONCE, "syncing")

    def begin_threads(self) -> None:
        """Start its threads now, rather than when they are needed.

        Python's Thread.start waits until the thread says that it runs; one that memory is too short for by then never
        does, and the loop would stand still for good.
        """
        there = threading.Barrier(AT_ONCE)
        for _ in range(AT_ONCE):
            self._threads.submit(there.wait)

    def wrote(self, *paths: Path) -> None:
        """Take note that the content of a file, or the names in a folder, have changed."""
        self._unsynced.update(dict.fromkeys(paths))

    def after(self, then: Callable[[], None]) -> None:
        """Call `then` when all that was written until now outlives a power cut; in the order in which it was asked for.

        At once where that is so already; never when the disk fails.
        """
        self._when_synced(lambda error: then() if error is None else None)

    def synced(self) -> Callable[[], Awaitable[None]]:
        """Have all that was written until now synced; what is returned waits for it, and may be called again.

        It raises Unavailable when the disk failed.
        """
        done = asyncio.Event()
        self._when_synced(lambda error: done.set())

        async def wait() -> None:
            await done.wait()
            if self._failure is not None:
                raise Unavailable(f"what was written cannot be synced: {self._failure.strerror}")

        return wait

    def close(self) -> None:
        """Begin no more syncs; who waits is not called any more."""
        self._waiting.clear()
        self._threads.shutdown(wait=False)

    def _when_synced(self, waiter: Callable[[OSError | None], None]) -> None:
        if self._failure is not None or not (self._busy or self._unsynced):
            waiter(self._failure)
            return
        self._waiting.append(waiter)
        if not self._busy:
            self._busy = True
            # Not at once: what is written in the same turn of the loop goes with it.
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        paths, waiting = list(self._unsynced), self._waiting
        self._unsynced, self._waiting = {}, []
        if not waiting:  # it was closed
            self._busy = False
            return
        loop, parts = asyncio.get_running_loop(), (paths[nth::AT_ONCE] for nth in range(min(AT_ONCE, len(paths) or 1)))
        work = asyncio.gather(*(loop.run_in_executor(self._threads, sync_existing, part) for part in parts))
        work.add_done_callback(partial(self._done, waiting))

    def _done(self, waiting: list[Callable[[OSError | None], None]], work: asyncio.Future[list[None]]) -> None:
        if work.cancelled():
            return
        error = work.exception()
        if error is not None and not isinstance(error, OSError):
            raise error
        if error is not None:
            self._failure = error
            waiting, self._waiting = [*waiting, *self._waiting], []
            self.on_failure(error)
        for waiter in waiting:
            waiter(error)
        self._busy = bool(self._waiting)
        if self._busy:
            self._begin()
