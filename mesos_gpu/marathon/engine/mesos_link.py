"""What the scheduler needs of its connection to the master; driver.py has the real one, tests have a fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from mesos_gpu.marathon.state.actions import Call
from mesos_gpu.marathon.state.events import (
    CallFailed,
    Disconnected,
    FrameworkError,
    Offered,
    Rescinded,
    Status,
    Subscribed,
)
from mesos_gpu.mesos.ids import FrameworkId

LinkEvent: TypeAlias = Subscribed | Disconnected | Offered | Rescinded | Status | FrameworkError | CallFailed
Inbox: TypeAlias = Callable[[LinkEvent], None]
"""Takes news from any thread, at once."""


class MesosLink(Protocol):
    """A connection that makes itself again whenever it breaks, until it is stopped. No method waits for the master."""

    def start(self, framework_id: FrameworkId | None, inbox: Inbox) -> None:
        """Subscribe, as the framework of that id or as a new one, and go on telling `inbox` what happens."""

    def call(self, call: Call) -> None:
        """Send a call, after those before it. When it does not get through, CallFailed comes to the inbox."""

    def stop(self) -> None:
        """Disconnect. The framework stays registered and its tasks run on."""
