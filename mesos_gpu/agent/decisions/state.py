"""The books of one agent's core: what all its decisions read and write. Holds no socket, file, clock or chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from mesos_gpu.agent.decisions.frameworks import Frameworks
from mesos_gpu.agent.model.events import Drain, Identity
from mesos_gpu.agent.model.executors import ExecutorPatience, Stage
from mesos_gpu.agent.model.updates import TaskKey, UpdateStreams
from mesos_gpu.mesos.ids import ContainerId


class FreshIds(Struct, frozen=True):
    """Where ids come from: `uuid` gives base64 of 16 fresh bytes, for a status update; `container_id` a fresh id."""

    uuid: Callable[[], str]
    container_id: Callable[[], ContainerId]


class Departure(Struct):
    """What the agent as a whole was told: to end its tasks (`drain`), or to stop, and why."""

    drain: Drain | None = None
    stopping: str | None = None
    stopped: bool = False
    """Stop was said: everything is killed."""


class AgentState(Struct):
    """The books of one agent. `handle.handle` takes an event into them, `adopting` what a former process left.

    `identity` is who the agent is, `resource_version` (base64) what offers it may be used by; `frameworks` is what it
    runs, `streams` the status updates that are on their way, `counts` what its metrics count.
    """

    identity: Identity
    resource_version: str
    ids: FreshIds
    patience: ExecutorPatience = field(default_factory=ExecutorPatience)
    frameworks: Frameworks = field(default_factory=Frameworks)
    streams: UpdateStreams = field(default_factory=UpdateStreams)
    departure: Departure = field(default_factory=Departure)
    counts: Counter[str] = field(default_factory=Counter)
    rebooted: bool = False
    """Whether the machine was restarted since the last process, and this one has not registered a second time yet:
    what is not known of may have run, for records of tasks are not synced."""
    doubt: bool = False
    """Whether the disk says so, for the next process: until all that was said to be lost is acknowledged."""
    lost: set[TaskKey] = field(default_factory=set)
    """What was said to be lost with the restart, and may not be acknowledged yet."""
    met_master: bool = False
    """Whether this process has registered once."""

    @property
    def next_due_s(self) -> float | None:
        """Return when a Tick is wanted next, in monotonic seconds."""
        due_s = [self.streams.next_due_s]
        due_s += [task.deadline_s for task in self.frameworks.tasks()]
        due_s += [executor.deadline_s for executor in self.frameworks.executors()]
        return min((s for s in due_s if s is not None), default=None)

    @property
    def expected_back(self) -> bool:
        """Return whether an executor of the last process has not subscribed again yet, and still may."""
        return any(e.recovered and e.stage is Stage.REGISTERING for e in self.frameworks.executors())
