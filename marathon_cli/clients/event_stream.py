"""A client of Marathon's event stream (Server-Sent Events), read by a thread while a command waits.

A stream can break, and a gateway can hold it back. So a command that waits also polls; without a stream it only takes
longer until the next poll.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from marathon_cli.connection.access import NoAnswer
from mesos_gpu.errors import MesosGpuError

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Marathon
    from marathon_cli.connection.transport import Answer


STATUS = "status_update_event"
KINDS = (STATUS, "deployment_success", "deployment_failed", "deployment_step_success")
OPENED_S = 1.0
"""How long to wait until Marathon has begun to tell."""
Event = Mapping[str, Any]


class EventStream:
    """The events of a Marathon that `concerns` picks, from when this is made until `close`."""

    def __init__(self, marathon: Marathon, concerns: Callable[[Event], bool]) -> None:
        self._marathon, self._concerns = marathon, concerns
        self._came: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._opened, self._closed = threading.Event(), False
        self._answer: Answer | None = None
        self.live = False
        """Whether events come."""
        self._thread = threading.Thread(target=self._hear, name="event-stream", daemon=True)
        self._thread.start()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self) -> bool:
        """Wait for a moment until Marathon has begun to tell, and return whether it has."""
        self._opened.wait(OPENED_S)
        return self.live

    def wait(self, seconds: float) -> list[Event]:
        """Return what has come since the last call: as soon as there is something, or nothing after `seconds`."""
        self._opened.wait(min(seconds, OPENED_S))
        if not self.live and self._came.empty():
            time.sleep(seconds)
            return []
        try:
            found = [self._came.get(timeout=seconds)]
        except queue.Empty:
            return []
        with suppress(queue.Empty):
            while True:
                found.append(self._came.get_nowait())
        return found

    def pause(self, seconds: float) -> None:
        """Sleep, or until something comes."""
        self.wait(seconds)

    def close(self) -> None:
        """Hear no more."""
        self._closed = True
        if self._answer is not None:
            self._answer.cut()
            self._thread.join(OPENED_S)

    def _hear(self) -> None:
        try:
            with self._marathon.listen(KINDS) as answer:
                self._answer = answer
                self.live = not self._closed
                self._opened.set()
                for line in answer.lines():
                    if self._closed:
                        break
                    event = _event(line)
                    if event is not None and self._concerns(event):
                        self._came.put(event)
        except (MesosGpuError, NoAnswer):
            pass  # an old Marathon, one that lets us see no events, or one that went away
        finally:
            self.live = False
            self._opened.set()


def _event(line: bytes) -> Event | None:
    """Return the event in one line of a stream of Server-Sent Events (WHATWG HTML, 9.2), None when it has none."""
    if not line.startswith(b"data:"):
        return None
    try:
        found = json.loads(line[5:])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
