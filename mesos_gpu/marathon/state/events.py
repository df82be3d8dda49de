"""What happens to the scheduler: news from Mesos, calls of the API, the passing of time. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from mesos_gpu.marathon.model.usage import Reading
from mesos_gpu.marathon.state.actions import Call
from mesos_gpu.mesos.documents import OfferDocument, TaskStatus
from mesos_gpu.mesos.ids import FrameworkId, TaskId


class Moment(Struct, frozen=True):
    """When an event is handled, and where the ids come from that are made then."""

    now_s: float
    new_id: Callable[[], str]
    """Returns a UUID as text that nothing has yet."""


class Subscribed(Struct, frozen=True):
    """The master took us in under this framework id."""

    framework_id: FrameworkId
    master: str
    again: bool
    region: str | None = None
    """The master's region, where it is in one."""


class Disconnected(Struct, frozen=True):
    """The connection to the master is gone; the driver makes a new one by itself."""


class Offered(Struct, frozen=True):
    """Offers, as Mesos' v1 documents."""

    offers: Sequence[OfferDocument]


class Rescinded(Struct, frozen=True):
    """An offer is void: its agent is gone or being drained, or another one is owed it."""

    offer_id: str


class Status(Struct, frozen=True):
    """A task status, as Mesos' v1 document."""

    status: TaskStatus


class FrameworkError(Struct, frozen=True):
    """The master refuses us for good, in its words."""

    message: str


class CallFailed(Struct, frozen=True):
    """A call to the master did not get through, or was refused."""

    call: Call
    problem: str


class Measured(Struct, frozen=True):
    """What agents measured of tasks since the last time, by task id; `instances` says whose each is."""

    readings: Mapping[TaskId, Reading]
    instances: Mapping[TaskId, str]


class Tick(Struct, frozen=True):
    """Time has passed."""


class PutApps(Struct, frozen=True):
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


class PutPod(Struct, frozen=True):
    """Create a pod (`create`), or change one that exists, to what a whole definition says."""

    document: Mapping[str, Any]
    deployment_id: str
    force: bool = False
    create: bool = True


class RemoveApp(Struct, frozen=True):
    """Remove an app, or a pod, and end its tasks."""

    app_id: str
    deployment_id: str
    force: bool = True


class RestartApp(Struct, frozen=True):
    """Replace every instance of an app, following its upgrade strategy."""

    app_id: str
    deployment_id: str
    force: bool = False


class KillTasks(Struct, frozen=True):
    """End tasks, named by their own ids or their instances'.

    Their app starts new ones, unless `scale` lowers the number of its instances by as many. `wipe` gives the
    instances up: their places are taken by new instances.
    """

    task_ids: Sequence[str]
    deployment_id: str
    scale: bool = False
    wipe: bool = False
    force: bool = False


class CancelDeployment(Struct, frozen=True):
    """Stop a deployment where it is (`force`), or restore its apps as they were."""

    deployment_id: str
    new_deployment_id: str
    force: bool = False


class ResetDelay(Struct, frozen=True):
    """Let an app start again at once, whatever its backoff."""

    app_id: str


class PutGroup(Struct, frozen=True):
    """Set a group, and what is in it, to what a document says.

    `create` decides about a group that exists: True refuses it, None changes it. A document of `version` alone goes
    back to that version of the group, one of `scaleBy` alone multiplies the instances of every app in it.
    """

    group_id: str
    document: Mapping[str, Any]
    deployment_id: str
    force: bool = False
    create: bool | None = None


class RemoveGroup(Struct, frozen=True):
    """Remove a group, and everything in it."""

    group_id: str
    deployment_id: str
    force: bool = False


class EnforceRole(Struct, frozen=True):
    """Say whether the apps of a top-level group must have its role."""

    group_id: str
    deployment_id: str
    enforce_role: bool


class HealthChecked(Struct, frozen=True):
    """A health check that Marathon runs itself has a result; `index` is its place in the app's `healthChecks`."""

    task_id: TaskId
    index: int
    alive: bool
    cause: str | None = None


class ReadinessChecked(Struct, frozen=True):
    """A readiness check has a result; `response` is the endpoint's last answer, where the app wants it kept."""

    task_id: TaskId
    name: str
    ready: bool
    response: Mapping[str, Any] | None = None


class PutJob(Struct, frozen=True):
    """Create a job (`create`), or change one that exists; its schedules change only with `with_schedules`."""

    document: Mapping[str, Any]
    create: bool = True
    with_schedules: bool = False


class RemoveJob(Struct, frozen=True):
    """Forget a job. One with active runs is only removed with `stop_runs`, which ends them."""

    job_id: str
    stop_runs: bool = False


class PutSchedule(Struct, frozen=True):
    """Give a job a schedule (`create`), or replace one that it has."""

    job_id: str
    document: Mapping[str, Any]
    create: bool = True


class RemoveSchedule(Struct, frozen=True):
    """Take a schedule from a job."""

    job_id: str
    schedule_id: str


class StartRun(Struct, frozen=True):
    """Start a run of a job now, under this id."""

    job_id: str
    run_id: str


class StopRun(Struct, frozen=True):
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
