"""Operators wait until what they asked for is durable, and what followed it too."""

from __future__ import annotations

import asyncio

from mesos_gpu.errors import Unavailable


class Waiting:
    """Waits for one event's changes of the registry, and for what followed them. Left as often as entered."""

    def __init__(self) -> None:
        """Expect the event itself."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._expected = 1

    def expect(self) -> None:
        """Wait for one thing more."""
        self._expected += 1

    def fail(self, why: str) -> None:
        """Stop waiting: it will not come."""
        if not self.done.done():
            self.done.set_exception(Unavailable(why))
            self.done.exception()  # it is told to who waits, if anybody does still

    def __enter__(self) -> None:
        """Begin one of the things."""

    def __exit__(self, *error: object) -> None:
        """End it."""
        self._expected -= 1
        if not self._expected and not self.done.done():
            self.done.set_result(None)
