"""Status update streams: every update of a task reaches the master, in order, as often as it takes.

One update per task is outstanding; the next leaves only after its acknowledgement. An update is logged before it is
sent, and so is an acknowledgement before it is acted on, so a stream survives the agent's death at any moment.
Source: Mesos src/slave/task_status_update_manager.cpp.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import FrameworkId, TaskId
from mesos_gpu.mesos.tasks import is_terminal

RETRY_MIN_S = 10.0
RETRY_MAX_S = 600.0


class TaskKey(NamedTuple):
    """What names a task on an agent: task ids are unique within a framework only."""

    framework: FrameworkId
    task: TaskId


class Forward(Struct, frozen=True):
    """Send this update (v1 TaskStatus) to the master, with the latest state we know of the task."""

    key: TaskKey
    status: TaskStatus
    latest_state: str


class Stream(Struct):
    """The updates of one task that are not acknowledged yet, oldest first."""

    pending: deque[TaskStatus] = field(default_factory=deque)
    latest_state: str = "TASK_STAGING"
    due_s: float | None = None
    wait_s: float = RETRY_MIN_S
    ended: bool = False


class UpdateStreams:
    """The streams of all tasks. Holds no clock: `now_s` is any monotonic time in seconds."""

    def __init__(self) -> None:
        self._streams: dict[TaskKey, Stream] = {}
        self._paused = True

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._streams

    def __iter__(self) -> Iterator[TaskKey]:
        return iter(self._streams)

    def pending(self, key: TaskKey) -> tuple[TaskStatus, ...]:
        """Return what is not acknowledged of a task, oldest first."""
        stream = self._streams.get(key)
        return () if stream is None else tuple(stream.pending)

    @property
    def next_due_s(self) -> float | None:
        """Return when `retry` has something to do next, None when nothing is outstanding or sending is paused."""
        if self._paused:
            return None
        return min((s.due_s for s in self._streams.values() if s.due_s is not None), default=None)

    def restore(self, key: TaskKey, pending: Iterable[TaskStatus], latest_state: str) -> None:
        """Take over a stream as it was logged; sending waits for `resume`."""
        stream = Stream(deque(pending), latest_state)
        stream.ended = is_terminal(latest_state)
        self._streams[key] = stream

    def add(self, key: TaskKey, status: TaskStatus, now_s: float) -> list[Forward]:
        """Append an update (the caller has logged it). Returns it when it is the first in line, else nothing.

        What follows a terminal update is dropped.
        """
        stream = self._streams.setdefault(key, Stream())
        if stream.ended:
            return []
        stream.pending.append(status)
        stream.latest_state = status["state"]
        stream.ended = is_terminal(status["state"])
        return self._send_head(key, stream, now_s) if len(stream.pending) == 1 else []

    def expects(self, key: TaskKey, uuid: str) -> bool:
        """Return whether an acknowledgement of this uuid (base64) belongs to the outstanding update of the task."""
        stream = self._streams.get(key)
        return bool(stream and stream.pending and stream.pending[0].get("uuid") == uuid)

    def to_send(self, forward: Forward) -> bool:
        """Return whether this is still what the master should be told of the task, if it waited for the disk."""
        return not self._paused and self.expects(forward.key, forward.status["uuid"])

    def acknowledge(self, key: TaskKey, uuid: str, now_s: float) -> tuple[list[Forward], bool]:
        """Take the outstanding update off the stream when it is the one acknowledged.

        Returns what to send next, and whether the stream is done: its terminal update was acknowledged. An
        acknowledgement of anything else changes nothing.
        """
        if not self.expects(key, uuid):
            return [], False
        stream = self._streams[key]
        stream.pending.popleft()
        if stream.pending:
            return self._send_head(key, stream, now_s), False
        stream.due_s = None
        if stream.ended:
            del self._streams[key]
            return [], True
        return [], False

    def retry(self, now_s: float) -> list[Forward]:
        """Return the updates whose time to be sent again has come: after 10 s, doubling up to 10 min."""
        again: list[Forward] = []
        if self._paused:
            return again
        for key, stream in self._streams.items():
            if stream.due_s is not None and stream.due_s <= now_s:
                stream.wait_s = min(stream.wait_s * 2, RETRY_MAX_S)
                stream.due_s = now_s + stream.wait_s
                again.append(Forward(key, stream.pending[0], stream.latest_state))
        return again

    def pause(self) -> None:
        """Send nothing until `resume`: there is no master."""
        self._paused = True

    def resume(self, now_s: float) -> list[Forward]:
        """Return the outstanding update of every task, whenever it was sent last: a master (re-)appeared."""
        self._paused = False
        return [send for key, stream in self._streams.items() for send in self._send_head(key, stream, now_s)]

    def resend(self, framework: FrameworkId, now_s: float) -> list[Forward]:
        """Return the outstanding updates of one framework's tasks: its scheduler (re-)appeared."""
        mine = [(key, stream) for key, stream in self._streams.items() if key.framework == framework]
        return [send for key, stream in mine for send in self._send_head(key, stream, now_s)]

    def forget(self, key: TaskKey) -> None:
        """Drop a task's stream with all that is in it: its framework is gone."""
        self._streams.pop(key, None)

    def forget_framework(self, framework: FrameworkId) -> None:
        """Drop the streams of all tasks of a framework, also of those that are not here: it is gone."""
        for key in [key for key in self._streams if key.framework == framework]:
            del self._streams[key]

    def _send_head(self, key: TaskKey, stream: Stream, now_s: float) -> list[Forward]:
        if self._paused or not stream.pending:
            return []
        stream.wait_s = RETRY_MIN_S
        stream.due_s = now_s + stream.wait_s
        return [Forward(key, stream.pending[0], stream.latest_state)]
