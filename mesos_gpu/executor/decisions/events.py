"""What may happen to the default executor, and what it does about it: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mesos_gpu.mesos.checks import Probe, Result
from mesos_gpu.mesos.documents import TaskInfo, TaskStatus
from mesos_gpu.mesos.ids import ContainerId, TaskId

Document: TypeAlias = Mapping[str, Any]

# --- what happens ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subscribed:
    """The agent took the subscription; `info` is the body of the event."""

    info: Document


@dataclass(frozen=True)
class Disconnected:
    """The stream of events ended, or could not be had."""


@dataclass(frozen=True)
class Launch:
    """Run these tasks (TaskInfo): a group."""

    tasks: tuple[TaskInfo, ...]


@dataclass(frozen=True)
class Kill:
    """End a task; `grace_s` only when the call carries a policy."""

    task_id: TaskId
    grace_s: float | None = None


@dataclass(frozen=True)
class Acknowledged:
    """The agent has an update for good; `uuid` is base64."""

    task_id: TaskId
    uuid: str


@dataclass(frozen=True)
class Shutdown:
    """End all tasks, then this program."""


@dataclass(frozen=True)
class Launched:
    """A nested container runs."""

    container_id: ContainerId


@dataclass(frozen=True)
class LaunchFailed:
    """A nested container could not be launched."""

    container_id: ContainerId
    why: str


@dataclass(frozen=True)
class Ended:
    """A nested container ended. `end` is the answer's body: a raw wait status as `exit_status`, perhaps a reason."""

    container_id: ContainerId
    end: Document


@dataclass(frozen=True)
class Probed:
    """A check of a task looked: its index among the task's checks, and what it found; None: nothing to look at."""

    container_id: ContainerId
    check: int
    result: Result | None


@dataclass(frozen=True)
class Tick:
    """Time passed."""


Event: TypeAlias = (
    Subscribed
    | Disconnected
    | Launch
    | Kill
    | Acknowledged
    | Shutdown
    | Launched
    | LaunchFailed
    | Ended
    | Probed
    | Tick
)

# --- what is done about it ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subscribe:
    """Ask the agent for its events after `after_s`; it is told what it may have missed."""

    tasks: tuple[TaskInfo, ...]
    updates: tuple[Document, ...]
    after_s: float = 0.0


@dataclass(frozen=True)
class Update:
    """Tell the agent how a task is; sent in order."""

    status: TaskStatus


@dataclass(frozen=True)
class LinkSandbox:
    """Show the sandbox of a task's container as `tasks/<task id>`."""

    task_id: TaskId
    container_id: ContainerId


@dataclass(frozen=True)
class LaunchContainer:
    """Launch a nested container for a task; Launched or LaunchFailed comes back."""

    container_id: ContainerId
    task: TaskInfo
    environment: Mapping[str, str]


@dataclass(frozen=True)
class WaitContainer:
    """Wait for the end of a nested container; Ended comes back."""

    container_id: ContainerId


@dataclass(frozen=True)
class SignalContainer:
    """Send a signal to a nested container."""

    container_id: ContainerId
    number: int


@dataclass(frozen=True)
class Look:
    """Carry out a probe of a task; Probed comes back."""

    container_id: ContainerId
    check: int
    probe: Probe


@dataclass(frozen=True)
class Exit:
    """End this program, and with it whatever is left in its container."""

    status: int
    why: str


Action: TypeAlias = Subscribe | Update | LinkSandbox | LaunchContainer | WaitContainer | SignalContainer | Look | Exit
