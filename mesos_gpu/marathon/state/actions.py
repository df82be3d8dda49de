"""What the scheduler decides to do. Values; scheduler.py carries them out, Save always first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.deployment import Deployment
from mesos_gpu.marathon.model.groups import Root
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.model.jobs import Job
from mesos_gpu.marathon.model.task_group import TaskGroup
from mesos_gpu.marathon.model.usage import Period, RunTimes, Sum
from mesos_gpu.mesos.documents import TaskInfo, TaskStatus
from mesos_gpu.mesos.ids import AgentId, FrameworkId, OfferId, Role, TaskId


class Save(Struct, frozen=True):
    """What must be on disk before anything else is done. None under a key: forget it.

    `apps` has new versions; with None an app goes away with all its versions.
    """

    apps: Mapping[str, RunSpec | None]
    instances: Mapping[str, Instance | None]
    deployments: Mapping[str, Deployment | None]
    failures: Mapping[str, Mapping[str, Any] | None]
    framework_id: tuple[FrameworkId | None] | None = None
    """A tuple of one, the new id; None when it has not changed."""
    root: Root | None = None
    """A new version of the tree of groups."""
    jobs: Mapping[str, Job | None] = field(default_factory=dict)
    usage: Mapping[str, Period | None] = field(default_factory=dict)
    usage_open: Mapping[str, Sum | None] = field(default_factory=dict)
    run_times: Mapping[str, RunTimes | None] = field(default_factory=dict)
    counted_until_s: float | None = None
    """The new one; None when it has not changed."""


class Launch(Struct, frozen=True):
    """Accept an offer and start these tasks and groups on it; what is left of it is refused for a while.

    `operations` come before that: reserving and freeing, as Mesos' Offer.Operation. There may be no tasks.
    """

    offer_id: OfferId
    task_infos: Sequence[TaskInfo]
    refuse_s: float
    groups: Sequence[TaskGroup] = ()
    operations: Sequence[Mapping[str, Any]] = ()

    @property
    def task_ids(self) -> tuple[TaskId, ...]:
        """Return the ids of the tasks, those in groups too."""
        return tuple(info["task_id"]["value"] for info in self._infos())

    @property
    def agents(self) -> Mapping[TaskId, AgentId]:
        """Return the agent's id by those of the tasks."""
        return {info["task_id"]["value"]: info["agent_id"]["value"] for info in self._infos()}

    def _infos(self) -> Sequence[TaskInfo]:
        return [*self.task_infos, *(info for group in self.groups for info in group.task_infos)]


class Decline(Struct, frozen=True):
    """Give offers back, and do not want them again for a while unless they have grown."""

    offer_ids: Sequence[OfferId]
    refuse_s: float


class Revive(Struct, frozen=True):
    """Ask for offers: drop all filters, end suppression."""


class Suppress(Struct, frozen=True):
    """Ask for no offers."""


class Kill(Struct, frozen=True):
    """End a task. Of one that the master does not know it tells what it knows of the agent, as in Reconcile."""

    task_id: TaskId
    agent_id: AgentId | None


class Tell(Struct, frozen=True):
    """Send a message to the executor of a task; of one with a command alone that is its agent. It may get lost."""

    task_id: TaskId
    agent_id: AgentId
    data: str
    """Base64."""


class Acknowledge(Struct, frozen=True):
    """Tell the agent that this status has been taken note of."""

    status: TaskStatus


class Reconcile(Struct, frozen=True):
    """Ask for the state of these tasks, agents' ids by theirs; of every task that the master knows when there is none.

    Of a task on an unreachable agent a master says TASK_UNREACHABLE only to who names the agent, and TASK_UNKNOWN, the
    end of it, to who does not. Source: Mesos src/master/master.cpp, Master::reconcile.
    """

    agents: Mapping[TaskId, AgentId]


class UpdateRoles(Struct, frozen=True):
    """Be a framework of these roles: those that apps run in."""

    roles: Sequence[Role]


class Resubscribe(Struct, frozen=True):
    """Start over with the master, as a new framework."""


class Publish(Struct, frozen=True):
    """Send an event to the listeners of /v2/events; the timestamp is added on the way."""

    kind: str
    fields: Mapping[str, Any]


class Answer(Struct, frozen=True):
    """What the API call at hand is answered with."""

    deployment_id: str
    version: str
    task_ids: Sequence[TaskId] = ()
    deployment: Deployment | None = None
    """The plan, as it was before its first step."""


class Say(Struct, frozen=True):
    """Write a line to the log."""

    text: str


class Exit(Struct, frozen=True):
    """End this process with an error: going on would do harm."""

    reason: str


Call: TypeAlias = (
    Launch | Decline | Revive | Suppress | Kill | Tell | Acknowledge | Reconcile | UpdateRoles | Resubscribe
)
"""What goes to the master."""
Action: TypeAlias = Save | Call | Publish | Answer | Say | Exit
