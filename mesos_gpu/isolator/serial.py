"""The lock that serializes calls to the public methods of isolators and of their records."""

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
    """A reentrant lock for the threads of one process.

    In a process forked from it, entering raises Conflict: the copied state is outdated as soon as the parent changes
    the records, and a thread of the parent may have held the lock during the fork.
    """

    def __init__(self, what: str) -> None:
        self._what, self._pid, self._closed = what, os.getpid(), False
        self._lock = threading.RLock()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that created this lock."""
        return os.getpid() != self._pid

    def close(self) -> None:
        """Refuse all further calls."""
        self._closed = True

    def __enter__(self) -> None:
        """Wait for calls of other threads to return. Raises Conflict in a forked child and after `close`."""
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
    """An object whose method calls are serialized."""

    @property
    def access(self) -> SerialAccess:
        """Return the lock that its methods take."""


Self = TypeVar("Self", bound=HasAccess)


def serial(method: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
    """Make a method hold `self.access` while it runs."""

    @wraps(method)
    def call(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.access:
            return method(self, *args, **kwargs)

    return call
