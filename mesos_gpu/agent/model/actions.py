"""What the agent does about what happened to its tasks, in the order of the list: values only."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from mesos_gpu.agent.model.events import Drain, Owner
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.fetch_uris import Item
from mesos_gpu.agent.model.updates import Forward, TaskKey
from mesos_gpu.container.spec.config import ContainerConfig, Size
from mesos_gpu.mesos.checks import Course
from mesos_gpu.mesos.documents import ExecutorInfo, FrameworkInfo, TaskInfo
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId
from mesos_gpu.mesos.resource import Document


class SaveFramework(Struct, frozen=True):
    """Checkpoint a FrameworkInfo, and where the framework's scheduler driver is, if it has one."""

    framework: FrameworkId
    info: FrameworkInfo
    pid: str | None = None


class SaveTask(Struct, frozen=True):
    """Checkpoint a task before its container is launched; `executor` None: it is its own."""

    key: TaskKey
    container_id: ContainerId
    info: TaskInfo
    executor: ExecutorId | None = None


class Log(Struct, frozen=True):
    """Append to the task's log: an UPDATE, an ACK or a KILL record; `executor` None: it is its own.

    `lasting`: a power cut must not undo it once anything is told that follows from it.
    """

    key: TaskKey
    container_id: ContainerId
    record: Document
    executor: ExecutorId | None = None
    lasting: bool = False


class Launch(Struct, frozen=True):
    """Make the sandbox, fetch into it and launch the container; Launched or LaunchFailed comes back, later Ended."""

    key: Owner
    config: ContainerConfig
    fetch: tuple[Item, ...] = ()


class Watch(Struct, frozen=True):
    """After a restart: wait for a container that runs on; Ended or Vanished comes back.

    `launching`: nobody knew yet whether it had started; Launched comes first when it had.
    """

    key: Owner
    container_id: ContainerId
    launching: bool = False


class Kill(Struct, frozen=True):
    """Ask a container to end, and make it end after the grace."""

    key: Owner
    container_id: ContainerId
    grace_s: float


class BeginChecks(Struct, frozen=True):
    """Check a task's container; Checked comes back for all that is new."""

    key: TaskKey
    container_id: ContainerId
    sandbox: str
    courses: tuple[Course, ...]


class EndChecks(Struct, frozen=True):
    """Check a task no longer: it is to end."""

    key: TaskKey


class Forget(Struct, frozen=True):
    """How a container ended is written down: the containerizer need not remember it any longer."""

    container_id: ContainerId


class Close(Struct, frozen=True):
    """A run is over and everyone knows: mark it complete on disk."""

    key: Owner
    container_id: ContainerId


class Discard(Struct, frozen=True):
    """Nobody needs these folders any more, given relative to the work_dir: have them collected in time."""

    paths: tuple[str, ...]


class ExecutorGone(Struct, frozen=True):
    """Tell the master that an executor ended, with this wait status; -1: nobody knows, or it was never launched."""

    framework: FrameworkId
    executor: ExecutorId
    status: int = -1


class SaveExecutor(Struct, frozen=True):
    """Checkpoint an executor before its container is launched."""

    key: ExecutorKey
    container_id: ContainerId
    info: ExecutorInfo


class NoteRun(Struct, frozen=True):
    """Write a small file of Mesos' layout into the checkpoint of a run, such as pids/forked.pid."""

    key: ExecutorKey
    container_id: ContainerId
    name: str
    text: str = ""


class Welcome(Struct, frozen=True):
    """Send SUBSCRIBED to an executor; the agent's own info is added to it."""

    key: ExecutorKey
    framework: FrameworkInfo
    executor: ExecutorInfo
    container_id: ContainerId


class ToExecutor(Struct, frozen=True):
    """Send an event (v1) to an executor, if its stream is open."""

    key: ExecutorKey
    event: Document


class Reconnect(Struct, frozen=True):
    """After a restart: ask the driver of an executor, at this libprocess pid, to register again."""

    key: ExecutorKey
    pid: str


class CloseStream(Struct, frozen=True):
    """End an executor's stream, after what was sent."""

    key: ExecutorKey


class ToFramework(Struct, frozen=True):
    """Pass an executor's bytes (base64) on to its scheduler: to its driver's pid, else through the master.

    Nobody hears when they get lost.
    """

    key: ExecutorKey
    data: str
    pid: str | None = None


class Resize(Struct, frozen=True):
    """Make a running container as large as this; Resized comes back."""

    key: ExecutorKey
    container_id: ContainerId
    size: Size
    round: int


class SaveDrain(Struct, frozen=True):
    """Checkpoint that the agent is draining, or (None) that it no longer is."""

    drain: Drain | None


class SaveDoubt(Struct, frozen=True):
    """Checkpoint that the machine was restarted and not all is told that was lost with it, or that it is."""

    doubt: bool


class Stop(Struct, frozen=True):
    """Everything is killed: the agent may exit."""

    why: str


OnDisk: TypeAlias = SaveFramework | SaveTask | SaveExecutor | NoteRun | Log | Close | Discard | SaveDrain | SaveDoubt
ToMaster: TypeAlias = Forward | ExecutorGone | ToFramework
OfExecutors: TypeAlias = Welcome | ToExecutor | CloseStream | Reconnect
OfContainers: TypeAlias = Launch | Watch | Kill | Resize | Forget | BeginChecks | EndChecks
Action: TypeAlias = OnDisk | ToMaster | OfExecutors | OfContainers | Stop
