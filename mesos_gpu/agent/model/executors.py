"""Executors of frameworks (custom ones, and Mesos' default executor): the stages of one, as a table, and its books.

A command task has none of these: the agent plays its executor itself. Source: Mesos src/slave/slave.hpp, Executor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum, unique
from typing import NamedTuple

from msgspec import Struct, field

from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.agent.model.verdict import Verdict
from mesos_gpu.mesos.documents import ExecutorInfo
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId, TaskId
from mesos_gpu.mesos.resource import Document

MAX_COMPLETED_TASKS = 200
"""How many ended tasks of one executor are remembered (slave/constants.hpp)."""
DEFAULT, CUSTOM = "DEFAULT", "CUSTOM"


def own_executor(task_id: TaskId) -> ExecutorId:
    """Return the id of the command executor of a task: the task's own, as in Mesos."""
    return ExecutorId(task_id)


class ExecutorKey(NamedTuple):
    """What names an executor on an agent."""

    framework: FrameworkId
    executor: ExecutorId


@unique
class Stage(Enum):
    """Where an executor is in its life."""

    LAUNCHING = "its container is being launched"
    REGISTERING = "its container runs, and it has not subscribed (again)"
    RUNNING = "it has subscribed"
    TERMINATING = "it was told to end, or its container is being ended"
    TERMINATED = "its container is gone; an update of a task waits for an acknowledgement"


@unique
class Turn(Enum):
    """What moves an executor on."""

    LAUNCHED = "its container runs"
    SUBSCRIBED = "it subscribed"
    END_ASKED = "it has to end"
    ENDED = "its container ended, or never came to be"


NEXT_STAGE: Mapping[tuple[Stage, Turn], Stage] = {
    (Stage.LAUNCHING, Turn.LAUNCHED): Stage.REGISTERING,
    (Stage.LAUNCHING, Turn.SUBSCRIBED): Stage.RUNNING,  # it was faster than word of its launch
    (Stage.LAUNCHING, Turn.END_ASKED): Stage.TERMINATING,
    (Stage.LAUNCHING, Turn.ENDED): Stage.TERMINATED,
    (Stage.REGISTERING, Turn.LAUNCHED): Stage.REGISTERING,
    (Stage.REGISTERING, Turn.SUBSCRIBED): Stage.RUNNING,
    (Stage.REGISTERING, Turn.END_ASKED): Stage.TERMINATING,
    (Stage.REGISTERING, Turn.ENDED): Stage.TERMINATED,
    (Stage.RUNNING, Turn.LAUNCHED): Stage.RUNNING,
    (Stage.RUNNING, Turn.SUBSCRIBED): Stage.RUNNING,
    (Stage.RUNNING, Turn.END_ASKED): Stage.TERMINATING,
    (Stage.RUNNING, Turn.ENDED): Stage.TERMINATED,
    (Stage.TERMINATING, Turn.LAUNCHED): Stage.TERMINATING,
    (Stage.TERMINATING, Turn.END_ASKED): Stage.TERMINATING,
    (Stage.TERMINATING, Turn.ENDED): Stage.TERMINATED,
    (Stage.TERMINATED, Turn.END_ASKED): Stage.TERMINATED,
}
"""An absent pair cannot happen; a subscription of an executor that ends is answered with SHUTDOWN, no turn."""


class IllegalTurn(ValueError):
    """An executor was told something that cannot happen in its stage: a mistake of ours."""


def next_stage(stage: Stage, turn: Turn) -> Stage:
    """Return the stage after `turn`. Raises IllegalTurn for a pair that is not in the table."""
    try:
        return NEXT_STAGE[stage, turn]
    except KeyError:
        raise IllegalTurn(f"an executor of which '{stage.value}' was told '{turn.value}'") from None


class ExecutorPatience(Struct, frozen=True):
    """How long executors are waited for, in seconds, and what they are told of it (flags of the agent)."""

    registration_s: float = 60.0
    reregistration_s: float = 2.0
    shutdown_s: float = 5.0
    recovery_s: float = 900.0


class Parcel(Struct, frozen=True):
    """Tasks that go to the executor together, once it is there and its container has been made large enough.

    `round` is the resize that has to be done before.
    """

    tasks: tuple[TaskId, ...]
    group: bool
    round: int


class Executor(Struct):
    """One run of a framework's executor. Its tasks are the framework's `hosted` ones with its id."""

    key: ExecutorKey
    info: ExecutorInfo
    container_id: ContainerId
    sandbox: str
    stage: Stage = Stage.LAUNCHING
    pid: int | None = None
    driver: str | None = None
    """The libprocess pid of its driver; None for one that speaks HTTP, or that was not heard of yet."""
    networks: tuple[Document, ...] = ()
    connected: bool = False
    queue: list[Parcel] = field(default_factory=list)
    ever_sent: bool = False
    recovered: bool = False
    """A former agent process launched it."""
    round: int = 0
    resized: int = 0
    deadline_s: float | None = None
    """When it must have subscribed, or when its container is ended."""
    verdict: Verdict | None = None
    """What is said of its tasks when it ends because this agent ended it."""
    collected: bool = False
    """Its sandbox was removed, some time after its end."""
    completed: deque[Task] = field(default_factory=lambda: deque(maxlen=MAX_COMPLETED_TASKS))

    @property
    def kind(self) -> str:
        """Return DEFAULT or CUSTOM."""
        return str(self.info.get("type", CUSTOM))

    @property
    def alive(self) -> bool:
        """Return whether it can still be given tasks."""
        return self.stage in (Stage.LAUNCHING, Stage.REGISTERING, Stage.RUNNING)

    @property
    def over(self) -> bool:
        """Return whether its container is gone."""
        return self.stage is Stage.TERMINATED

    def turn(self, turn: Turn) -> None:
        """Move on. Raises IllegalTurn."""
        self.stage = next_stage(self.stage, turn)

    def queued(self, task_id: TaskId) -> Parcel | None:
        """Return the parcel that a task waits in."""
        return next((parcel for parcel in self.queue if task_id in parcel.tasks), None)
