"""What happens to the scheduler: news from Mesos, calls of the API, the passing of time. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mesos_gpu.marathon.model.usage import Reading
from mesos_gpu.marathon.state.actions import Call
from mesos_gpu.mesos.documents import OfferDocument, TaskStatus
from mesos_gpu.mesos.ids import FrameworkId, TaskId


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event is handled, and where the ids come from that are made then."""

    now_s: float
    new_id: Callable[[], str]
    """Returns a UUID as text that nothing has yet."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The master took us in under this framework id."""

    framework_id: FrameworkId
    master: str
    again: bool
    region: str | None = None
    """The master's region, where it is in one."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection to the master is gone; the driver makes a new one by itself."""


@dataclass(frozen=True, slots=True)
class Offered:
    """Offers, as Mesos' v1 documents."""

    offers: Sequence[OfferDocument]


@dataclass(frozen=True, slots=True)
class Rescinded:
    """An offer is void: its agent is gone or being drained, or another one is owed it."""

    offer_id: str


@dataclass(frozen=True, slots=True)
class Status:
    """A task status, as Mesos' v1 document."""

    status: TaskStatus


@dataclass(frozen=True, slots=True)
class FrameworkError:
    """The master refuses us for good, in its words."""

    message: str


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A call to the master did not get through, or was refused."""

    call: Call
    problem: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What agents measured of tasks since the last time, by task id; `instances` says whose each is."""

    readings: Mapping[TaskId, Reading]
    instances: Mapping[TaskId, str]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class PutApps:
    """Set apps to what these documents say, as the API got them; each has its `id`.

    `create` decides about apps that do not exist: True (and those that do are refused), False (refused), or None for
    either. With `partial` a document changes the top-level keys it has, else it is the whole app. A document of `id`
    and `version` alone goes back to that version.
    """

    documents: Sequence[Mapping[str, Any]]
    deployment_id: str
    force: bool = False
    create: bool | None = None
    partial: bool = True


@dataclass(frozen=True, slots=True)
class PutPod:
    """Create a pod (`create`), or change one that exists, to what a whole definition says."""

    document: Mapping[str, Any]
    deployment_id: str
    force: bool = False
    create: bool = True


@dataclass(frozen=True, slots=True)
class RemoveApp:
    """Remove an app, or a pod, and end its tasks."""

    app_id: str
    deployment_id: str
    force: bool = True


@dataclass(frozen=True, slots=True)
class RestartApp:
    """Replace every instance of an app, following its upgrade strategy."""

    app_id: str
    deployment_id: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class KillTasks:
    """End tasks, named by their own ids or their instances'.

    Their app starts new ones, unless `scale` lowers the number of its instances by as many. `wipe` gives the
    instances up: their places are taken by new instances.
    """

    task_ids: Sequence[str]
    deployment_id: str
    scale: bool = False
    wipe: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class CancelDeployment:
    """Stop a deployment where it is (`force`), or restore its apps as they were."""

    deployment_id: str
    new_deployment_id: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class ResetDelay:
    """Let an app start again at once, whatever its backoff."""

    app_id: str


@dataclass(frozen=True, slots=True)
class PutGroup:
    """Set a group, and what is in it, to what a document says.

    `create` decides about a group that exists: True refuses it, None changes it. A document of `version` alone goes
    back to that version of the group, one of `scaleBy` alone multiplies the instances of every app in it.
    """

    group_id: str
    document: Mapping[str, Any]
    deployment_id: str
    force: bool = False
    create: bool | None = None


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """Remove a group, and everything in it."""

    group_id: str
    deployment_id: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class EnforceRole:
    """Say whether the apps of a top-level group must have its role."""

    group_id: str
    deployment_id: str
    enforce_role: bool


@dataclass(frozen=True, slots=True)
class HealthChecked:
    """A health check that Marathon runs itself has a result; `index` is its place in the app's `healthChecks`."""

    task_id: TaskId
    index: int
    alive: bool
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class ReadinessChecked:
    """A readiness check has a result; `response` is the endpoint's last answer, where the app wants it kept."""

    task_id: TaskId
    name: str
    ready: bool
    response: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PutJob:
    """Create a job (`create`), or change one that exists; its schedules change only with `with_schedules`."""

    document: Mapping[str, Any]
    create: bool = True
    with_schedules: bool = False


@dataclass(frozen=True, slots=True)
class RemoveJob:
    """Forget a job. One with active runs is only removed with `stop_runs`, which ends them."""

    job_id: str
    stop_runs: bool = False


@dataclass(frozen=True, slots=True)
class PutSchedule:
    """Give a job a schedule (`create`), or replace one that it has."""

    job_id: str
    document: Mapping[str, Any]
    create: bool = True


@dataclass(frozen=True, slots=True)
class RemoveSchedule:
    """Take a schedule from a job."""

    job_id: str
    schedule_id: str


@dataclass(frozen=True, slots=True)
class StartRun:
    """Start a run of a job now, under this id."""

    job_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class StopRun:
    """End a run of a job."""

    job_id: str
    run_id: str


MasterEvent: TypeAlias = Subscribed | Disconnected | Offered | Rescinded | Status | FrameworkError | CallFailed
"""What comes from the master, or from the way to it."""
JobEvent: TypeAlias = PutJob | RemoveJob | PutSchedule | RemoveSchedule | StartRun | StopRun
Request: TypeAlias = (
    PutApps
    | PutPod
    | RemoveApp
    | RestartApp
    | KillTasks
    | CancelDeployment
    | ResetDelay
    | PutGroup
    | RemoveGroup
    | EnforceRole
    | JobEvent
)
"""What the API asks for."""
Event: TypeAlias = MasterEvent | Request | Tick | HealthChecked | ReadinessChecked | Measured
