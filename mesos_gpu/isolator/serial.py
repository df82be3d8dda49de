"""One call at a time: the lock around the public methods of an isolator, and of the records under it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from mesos_gpu.errors import Conflict

P = ParamSpec("P")
R = TypeVar("R")


class SerialAccess:
    """A reentrant lock for the threads of the process that made it.

    A process that is forked from it gets Conflict: its copy of the state is out of date as soon as the parent changes
    the records, and another thread of the parent may have held the lock at the moment of the fork.
    """

    def __init__(self, what: str) -> None:
        self._what, self._pid, self._closed = what, os.getpid(), False
        self._lock = threading.RLock()

    @property
    def is_forked(self) -> bool:
        """Whether this process is another than the one that made this, that is a child of it."""
        return os.getpid() != self._pid

    def close(self) -> None:
        """Refuse all calls from now on."""
        self._closed = True

    def __enter__(self) -> None:
        """Wait for the calls of other threads to end. Raises Conflict in a forked child, and after `close`."""
        if self.is_forked:
            raise Conflict(
                f"{self._what} was opened by process {self._pid}; process {os.getpid()}, forked from it, cannot use "
                "it. Create it in the process that uses it, or start that process with 'spawn'"
            )
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise Conflict(f"{self._what} is closed; create another one")

    def __exit__(self, *_: object) -> None:
        """Let the next thread in."""
        self._lock.release()


class HasAccess(Protocol):
    """An object whose calls are serialized."""

    @property
    def access(self) -> SerialAccess:
        """Return the lock that its calls take."""


Self = TypeVar("Self", bound=HasAccess)


def serial(method: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
    """Have a method run while no other thread is in a method of the same `access`."""

    @wraps(method)
    def call(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.access:
            return method(self, *args, **kwargs)

    return call
