"""What may happen to an agent's tasks: values only. What is done about it: `actions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec import Struct

from mesos_gpu.agent.model.container_logger import ContainerLogger
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.namespace_exits import ALL_ALIKE, NamespaceExits
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.checks import News
from mesos_gpu.mesos.documents import FrameworkInfo, TaskInfo, TaskStatus
from mesos_gpu.mesos.ids import AgentId, ContainerId, FrameworkId, TaskId
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.mesos.shares.gpu_shares import SharedCard
from mesos_gpu.mesos.shares.levels import Level

Owner: TypeAlias = TaskKey | ExecutorKey
"""What a container is for: a command task, or an executor."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this agent is: its id (once registered), its libprocess pid, and where others reach it.

    `sandbox_directory` is where tasks in images see their sandbox; `default_executor` is the command of the program
    that runs task groups. Without `switch_user` all tasks run as the agent does. `executor_environment` is under what
    each task is given. `domain_socket` is the path of a socket at which executors reach the agent from networks of
    their own, as from there they may not reach its address, and with `domain_socket_for_all` others, too; "" for none.
    `acls` say who may do what here. With an `executor_key`, executors are given a token that is signed with it. With
    `cfs_quota` containers are held to their CPUs. `tls_environment` is how the agent speaks TLS, for the default
    executor to do the same. `shared_cards` are the GPUs that tasks share, by the driver's number, and
    `share_require` is what tasks must be kept to their memory by, at least. `gpus_from` is the resource of device
    plugins whose units are `gpus`; `cdi_kinds` are those CDI devices that tasks may have. A `logger` limits what is
    kept of what tasks say. `exits`: who does without a user namespace, where others have one.
    """

    agent_id: AgentId
    pid: str
    ip: str
    port: int
    work_dir: str
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    sandbox_directory: str = "/mnt/mesos/sandbox"
    default_executor: tuple[str, ...] = ()
    switch_user: bool = True
    cfs_quota: bool = False
    executor_environment: Mapping[str, str] = field(default_factory=dict)
    tls_environment: Mapping[str, str] = field(default_factory=dict)
    acls: Acls = OPEN
    executor_key: bytes | None = field(default=None, repr=False)
    domain_socket: str = ""
    domain_socket_for_all: bool = False
    shared_cards: Mapping[int, SharedCard] = field(default_factory=dict)
    share_require: Level = Level.ADVISORY
    gpus_from: str | None = None
    cdi_kinds: tuple[str, ...] = ()
    logger: ContainerLogger | None = None
    exits: NamespaceExits = ALL_ALIKE

    def at(self, pid: Pid, ip: str) -> Identity:
        """Return it where its endpoint is reached."""
        return replace(self, pid=str(pid), ip=ip, port=pid.port)


# --- what happens ---------------------------------------------------------------------------------------------------


class RunTask(Struct, frozen=True):
    """The master wants these tasks run: one, or a whole group (`group`). Documents are v1.

    `resource_version` is the base64 uuid the offer was made under, None when the message names none. `unknown`: they
    use reservations or volumes that are not here.
    """

    framework: FrameworkInfo
    tasks: tuple[TaskInfo, ...]
    resource_version: str | None = None
    launch_executor: bool = True
    group: bool = False
    unknown: bool = False
    pid: str | None = None
    """Where the framework's scheduler driver is; None for one that is reached through the master alone."""


class KillTask(Struct, frozen=True):
    """The master wants a task killed; `grace_s` only when the message carries a policy."""

    key: TaskKey
    grace_s: float | None = None


class ShutdownFramework(Struct, frozen=True):
    """A framework is gone: kill what it runs, tell nobody."""

    framework: FrameworkId


class ShutdownAgent(Struct, frozen=True):
    """The master disowns this agent, or its operator sends it away: kill everything, then stop."""

    why: str


class Drain(Struct, frozen=True):
    """Kill every task, with no more grace than `max_grace_s`; `gone` when the agent will not be back."""

    max_grace_s: float | None
    gone: bool


class UpdateFramework(Struct, frozen=True):
    """A framework (re-)connected to the master, perhaps with another FrameworkInfo."""

    framework: FrameworkId
    info: FrameworkInfo | None
    pid: str | None = None
    """As that of RunTask."""


class Acknowledged(Struct, frozen=True):
    """The scheduler, or the master for it, acknowledged a status update; `uuid` is base64."""

    key: TaskKey
    uuid: str


class Reconcile(Struct, frozen=True):
    """The master believes that this task is here, and the agent did not list it when it re-registered."""

    key: TaskKey
    partition_aware: bool


class Launched(Struct, frozen=True):
    """A container runs; `pid` is its init, None when a former process launched it and did not get to say.

    `networks` are the NetworkInfos of those that it joined, `cards` the whole GPUs that it holds, by index.
    """

    key: Owner
    pid: int | None
    networks: tuple[Document, ...] = ()
    cards: tuple[int, ...] = ()


class Pulling(Struct, frozen=True):
    """The image of a task that is being launched is being pulled; `message` says how far."""

    key: Owner
    message: str


class LaunchFailed(Struct, frozen=True):
    """A container could not be launched, and nothing of it is left."""

    key: Owner
    cause: str


class Ended(Struct, frozen=True):
    """A container ended, and what it held (GPUs, cgroup, mounts) is free again."""

    key: Owner
    ending: Termination


class Vanished(Struct, frozen=True):
    """After a restart: the container of this task is not there. `rebooted`: the machine was restarted too."""

    key: Owner
    rebooted: bool


class GpuIll(Struct, frozen=True):
    """GPUs that a task holds are unhealthy; `message` says which and why. `kill`: the task has to end for it.

    It is told once, unless it is news `again`.
    """

    key: TaskKey
    message: str
    kill: bool
    again: bool = False


class Subscribed(Struct, frozen=True):
    """An executor is there: it holds these tasks unacknowledged, and sends these updates (v1) again.

    `pid` is where its driver is when it speaks libprocess; None for one that opened a stream.
    """

    key: ExecutorKey
    tasks: tuple[TaskId, ...] = ()
    updates: tuple[TaskStatus, ...] = ()
    pid: str | None = None
    cards: tuple[int, ...] = ()
    """As those of ExecutorSays."""


class StreamClosed(Struct, frozen=True):
    """The stream of an executor broke; it may come back with another."""

    key: ExecutorKey


class ExecutorSays(Struct, frozen=True):
    """An executor says how a task of its is (a v1 TaskStatus with a uuid).

    `cards` are the whole GPUs, by index, that its container holds at this moment: all its tasks share them.
    """

    key: ExecutorKey
    status: TaskStatus
    cards: tuple[int, ...] = ()


class ExecutorMessage(Struct, frozen=True):
    """An executor sends its scheduler bytes (base64)."""

    key: ExecutorKey
    data: str


class FrameworkMessage(Struct, frozen=True):
    """A scheduler sends its executor bytes (base64): through the master, or itself from its driver's pid."""

    key: ExecutorKey
    data: str
    pid: str | None = None


class ShutdownExecutor(Struct, frozen=True):
    """A scheduler wants one of its executors to end."""

    key: ExecutorKey


class Resized(Struct, frozen=True):
    """A container was made as large as `round` asked for, or could not be: `problem`."""

    key: ExecutorKey
    container_id: ContainerId
    round: int
    problem: str | None = None


class Checked(Struct, frozen=True):
    """A check or health check of a task has news."""

    key: TaskKey
    news: News


class Collected(Struct, frozen=True):
    """A folder of the work_dir, given relative to it, was removed in time, with the sandboxes in it."""

    path: str


class Registered(Struct, frozen=True):
    """The master knows us (again): outstanding updates may go."""


class Disconnected(Struct, frozen=True):
    """There is no master for now: updates wait."""


class Tick(Struct, frozen=True):
    """Time passed: retries and deadlines may be due."""


FromMaster: TypeAlias = (
    RunTask
    | KillTask
    | ShutdownFramework
    | ShutdownAgent
    | Drain
    | UpdateFramework
    | Acknowledged
    | Reconcile
    | FrameworkMessage
    | ShutdownExecutor
    | Registered
    | Disconnected
)
ContainerLife: TypeAlias = Launched | Pulling | LaunchFailed | Ended | Vanished
"""What happens to a container of whomever it is for."""
FromContainers: TypeAlias = ContainerLife | Resized | Checked | GpuIll
FromExecutor: TypeAlias = Subscribed | StreamClosed | ExecutorSays | ExecutorMessage
Event: TypeAlias = FromMaster | FromContainers | FromExecutor | Collected | Tick
