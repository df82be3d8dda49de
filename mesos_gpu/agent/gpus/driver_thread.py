"""One thread in which the GPU driver is asked, so that a GPU that does not answer never holds up the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DriverThread:
    """Runs one piece of work after another. A daemon: work that never comes back does not keep the agent alive."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="gpu-driver", daemon=True)
        self._thread.start()

    async def ask(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if answer.done():  # nobody waits any longer
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = work()
            except Exception as caught:
                error = caught
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:
                pass  # the loop has ended, and whoever asked with it

        self._work.put(run)
        return await answer

    def close(self) -> None:
        """Take no more work; what is under way ends by itself."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
