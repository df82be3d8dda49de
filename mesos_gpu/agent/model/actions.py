"""What the agent does about what happened to its tasks, in the order of the list: values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mesos_gpu.agent.model.events import Drain, Owner
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.fetch_uris import Item
from mesos_gpu.agent.model.updates import Forward, TaskKey
from mesos_gpu.container.spec.config import ContainerConfig, Size
from mesos_gpu.mesos.checks import Course
from mesos_gpu.mesos.documents import ExecutorInfo, FrameworkInfo, TaskInfo
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId
from mesos_gpu.mesos.resource import Document


@dataclass(frozen=True, slots=True)
class SaveFramework:
    """Checkpoint a FrameworkInfo, and where the framework's scheduler driver is, if it has one."""

    framework: FrameworkId
    info: FrameworkInfo
    pid: str | None = None


@dataclass(frozen=True, slots=True)
class SaveTask:
    """Checkpoint a task before its container is launched; `executor` None: it is its own."""

    key: TaskKey
    container_id: ContainerId
    info: TaskInfo
    executor: ExecutorId | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """Append to the task's log: an UPDATE, an ACK or a KILL record; `executor` None: it is its own."""

    key: TaskKey
    container_id: ContainerId
    record: Document
    executor: ExecutorId | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """Make the sandbox, fetch into it and launch the container; Launched or LaunchFailed comes back, later Ended."""

    key: Owner
    config: ContainerConfig
    fetch: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Watch:
    """After a restart: wait for a container that runs on; Ended or Vanished comes back.

    `launching`: nobody knew yet whether it had started; Launched comes first when it had.
    """

    key: Owner
    container_id: ContainerId
    launching: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """Ask a container to end, and make it end after the grace."""

    key: Owner
    container_id: ContainerId
    grace_s: float


@dataclass(frozen=True, slots=True)
class BeginChecks:
    """Check a task's container; Checked comes back for all that is new."""

    key: TaskKey
    container_id: ContainerId
    sandbox: str
    courses: tuple[Course, ...]


@dataclass(frozen=True, slots=True)
class EndChecks:
    """Check a task no longer: it is to end."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class Forget:
    """How a container ended is written down: the containerizer need not remember it any longer."""

    container_id: ContainerId


@dataclass(frozen=True, slots=True)
class Close:
    """A run is over and everyone knows: mark it complete on disk."""

    key: Owner
    container_id: ContainerId


@dataclass(frozen=True, slots=True)
class Discard:
    """Nobody needs these folders any more, given relative to the work_dir: have them collected in time."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExecutorGone:
    """Tell the master that an executor ended, with this wait status; -1: nobody knows, or it was never launched."""

    framework: FrameworkId
    executor: ExecutorId
    status: int = -1


@dataclass(frozen=True, slots=True)
class SaveExecutor:
    """Checkpoint an executor before its container is launched."""

    key: ExecutorKey
    container_id: ContainerId
    info: ExecutorInfo


@dataclass(frozen=True, slots=True)
class NoteRun:
    """Write a small file of Mesos' layout into the checkpoint of a run, such as pids/forked.pid."""

    key: ExecutorKey
    container_id: ContainerId
    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Send SUBSCRIBED to an executor; the agent's own info is added to it."""

    key: ExecutorKey
    framework: FrameworkInfo
    executor: ExecutorInfo
    container_id: ContainerId


@dataclass(frozen=True, slots=True)
class ToExecutor:
    """Send an event (v1) to an executor, if its stream is open."""

    key: ExecutorKey
    event: Document


@dataclass(frozen=True, slots=True)
class Reconnect:
    """After a restart: ask the driver of an executor, at this libprocess pid, to register again."""

    key: ExecutorKey
    pid: str


@dataclass(frozen=True, slots=True)
class CloseStream:
    """End an executor's stream, after what was sent."""

    key: ExecutorKey


@dataclass(frozen=True, slots=True)
class ToFramework:
    """Pass an executor's bytes (base64) on to its scheduler: to its driver's pid, else through the master.

    Nobody hears when they get lost.
    """

    key: ExecutorKey
    data: str
    pid: str | None = None


@dataclass(frozen=True, slots=True)
class Resize:
    """Make a running container as large as this; Resized comes back."""

    key: ExecutorKey
    container_id: ContainerId
    size: Size
    round: int


@dataclass(frozen=True, slots=True)
class SaveDrain:
    """Checkpoint that the agent is draining, or (None) that it no longer is."""

    drain: Drain | None


@dataclass(frozen=True, slots=True)
class SaveDoubt:
    """Checkpoint that the machine was restarted and not all is told that was lost with it, or that it is."""

    doubt: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """Everything is killed: the agent may exit."""

    why: str


OnDisk: TypeAlias = SaveFramework | SaveTask | SaveExecutor | NoteRun | Log | Close | Discard | SaveDrain | SaveDoubt
ToMaster: TypeAlias = Forward | ExecutorGone | ToFramework
OfExecutors: TypeAlias = Welcome | ToExecutor | CloseStream | Reconnect
OfContainers: TypeAlias = Launch | Watch | Kill | Resize | Forget | BeginChecks | EndChecks
Action: TypeAlias = OnDisk | ToMaster | OfExecutors | OfContainers | Stop
