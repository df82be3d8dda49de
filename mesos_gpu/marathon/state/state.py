"""Everything the scheduler knows: each thing stands here, once, and a Draft (draft.py) changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.share_scheduling import high_share
from mesos_gpu.marathon.model.backoff import Backoff
from mesos_gpu.marathon.model.deployment import Deployment
from mesos_gpu.marathon.model.groups import Root
from mesos_gpu.marathon.model.health import Results
from mesos_gpu.marathon.model.instances import COMING_UP, Instance, Phase, Task
from mesos_gpu.marathon.model.jobs import Job, run_spec_in
from mesos_gpu.marathon.model.launch_tokens import LaunchTokens
from mesos_gpu.marathon.model.usage import Period, RunTimes, Sum
from mesos_gpu.marathon.state.asked import NOTHING_ASKED, Asked
from mesos_gpu.marathon.state.events import ReadinessChecked
from mesos_gpu.marathon.state.given_back import NO_CALLS, NOTHING_AWAITED, Awaited, Calls, Entry
from mesos_gpu.marathon.state.lines import Lines
from mesos_gpu.marathon.state.members import Members
from mesos_gpu.marathon.state.queue_entry import Place
from mesos_gpu.marathon.state.seen import Seen
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.marathon.state.unused import Queue
from mesos_gpu.marathon.state.waiting import Waiting
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role


@dataclass
class Lasting:
    """What is on disk. `versions` has all kept versions of each app, newest first; the first is the present one."""

    framework_id: FrameworkId | None = None
    versions: Table[tuple[RunSpec, ...]] = field(default_factory=Table)
    instances: Table[Instance] = field(default_factory=Table)
    deployments: Table[Deployment] = field(default_factory=Table)
    failures: Table[Mapping[str, Any]] = field(default_factory=Table)
    """The last failure of a task of each app, as `lastTaskFailure` shows it."""
    roots: tuple[Root, ...] = ()
    """All kept versions of the tree of groups, newest first."""
    jobs: Table[Job] = field(default_factory=Table)
    usage: Table[Period] = field(default_factory=Table)
    """What tasks had, of hours and days that are over, by Period.key."""
    usage_open: Table[Sum] = field(default_factory=Table)
    """The same of the present hour, and of earlier ones what came later: by hour and Who (state/accounting.py)."""
    run_times: Table[RunTimes] = field(default_factory=Table)
    """How long one-off runs took, by what they run (run_times.py)."""
    counted_until_s: float | None = None
    """All that lives is counted until then; None when nothing that lives was counted yet."""


@dataclass
class Books(Lasting):
    """What lasts, and what a new process learns again."""

    members: Members = field(default_factory=Members)
    """Instance ids by app id; also of apps that are gone while their tasks are being ended."""
    waiting: Waiting = field(default_factory=Waiting)
    """App ids by id of an instance that waits for an offer."""
    lines: Lines = field(default_factory=Lines)
    """Runs that wait, by what they ask for; kept where nobody counts offers that did not do (offer_statistics)."""
    in_line: Table[tuple[str, float]] = field(default_factory=Table)
    """In which of the lines an instance waits, and since when."""
    coming_up: Members = field(default_factory=Members)
    """Ids of instances whose task was started and has not come to run, by app."""
    timely: Table[str] = field(default_factory=Table)
    """App ids by id of an instance to which the passing of time may matter: those, and unreachable ones, say."""
    singular: Table[bool] = field(default_factory=Table)
    """Ids of apps that wait and are looked at apart from the others (`singled_out`): most often none."""
    subscribed: bool = False
    backoffs: Table[Backoff] = field(default_factory=Table)
    kills: Table[float] = field(default_factory=Table)
    """When the end of a task was last asked for, by task id."""
    queue: Queue = field(default_factory=Queue)
    asked_for: Asked = NOTHING_ASKED
    """Ids of tasks to come for which offers were asked."""
    revive_due: bool = False
    suppressed: bool = False
    revive_credit_s: float = 0.0
    revive_for_request: bool = False
    """Whether a revive that is due is for what a request has just asked for: somebody waits for it."""
    revived_s: float = 0.0
    """When offers were last asked for."""
    reconcile_at_s: float | None = None
    watched_s: float = 0.0
    """When all instances were last looked at for what is due as time passes."""
    latest_s: float = 0.0
    """When the last event came, by the clock of then."""
    stirred_s: float = 0.0
    """When something last happened, or was done; since then nothing but time has passed."""
    health: Table[Results] = field(default_factory=Table)
    """Results of health checks by task id; a new process begins without any."""
    readiness: Table[ReadinessChecked] = field(default_factory=Table)
    """The last result of a readiness check by task id."""
    roles: frozenset[Role] = frozenset()
    """The roles that the master knows us by; none when that is not known."""
    held: tuple[OfferDocument, ...] = ()
    """Offers that are kept for a moment, so that there is a choice."""
    held_until_s: float | None = None
    gathering: bool = False
    """Whether they are kept for what waits first (decisions/in_order.py)."""
    queued: tuple[tuple[Offer, float], ...] = ()
    """Offers that wait for launch tokens, and since when; in that order (decisions/offer_queue.py)."""
    queue_used_s: float = 0.0
    """When something was last started on one of them."""
    token_short: bool = False
    """Whether offers were declined for want of tokens, and not asked for again since."""
    away: tuple[Entry, ...] = ()
    """What was given back of offers while something waited in order, with when, and until when it is refused."""
    offers_read: Mapping[tuple[AgentId, Role], Offer] = field(default_factory=dict)
    """The last offer of each agent in each role that was read while something waits in order."""
    calls: Calls = NO_CALLS
    """How often offers were asked for in vain for what waits in order."""
    awaited: Awaited = NOTHING_AWAITED
    """Machines that were given back in parts, to come as one."""
    freed: tuple[tuple[Task, RunSpec, float], ...] = ()
    """Tasks that have ended while something waited in order, and when: what they had is still to be offered."""
    seen: Mapping[str, Seen] = field(default_factory=dict)
    """What tasks were at the last look at what waits in order, by id of their instance (state/seen.py)."""
    ordered: bool = False
    """Whether something waits in order, so that time and each end of a task matter to it."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """How near those are that wait in order, by app."""
    agents: frozenset[str] = frozenset()
    """Ids of the agents that have made offers."""
    tokens: LaunchTokens = field(default_factory=LaunchTokens)
    region: str | None = None
    """The region of the master; other regions are only for apps that name one."""
    pending: Table[tuple[int, frozenset[str]]] = field(default_factory=Table)
    """By deployment: its present step, and the apps of it that are not done."""
    usage_hour_ms: int = 0
    """The hour up to which the hours before it were closed."""
    releasing: frozenset[str] = frozenset()
    """Ids of instances that are gone, and whose reservations are still to be given back."""

    def app(self, app_id: str) -> RunSpec | None:
        """Return the present version of an app or pod, or what carries out a run of a job."""
        versions = self.versions.get(app_id)
        return versions[0] if versions else run_spec_in(self.jobs, app_id)

    def apps(self) -> list[RunSpec]:
        """Return the present version of every app and pod."""
        return [versions[0] for versions in self.versions.values()]

    def instances_of(self, app_id: str) -> list[Instance]:
        """Return the instances of an app, oldest first."""
        instances = self.instances
        return sorted([instances[key] for key in self.members.of(app_id)], key=lambda i: (i.since_s, i.id))

    def spec_of(self, instance: Instance) -> RunSpec | None:
        """Return the version of its app that an instance runs, the present one when that is no longer kept."""
        versions = self.versions.get(instance.app_id)
        return version_of(versions, instance) if versions else run_spec_in(self.jobs, instance.app_id)

    def deployments_of(self, app_id: str) -> list[Deployment]:
        """Return the deployments that touch an app."""
        return [d for d in self.deployments.values() if app_id in d.apps]


BOOKS = tuple(each.name for each in fields(Books))
TABLES = tuple(each.name for each in fields(Books) if each.default_factory in (Table, Members, Waiting, Queue))
"""The names of those that are opened when an event comes, and closed when it has been handled."""
PLAIN = tuple(name for name in BOOKS if name not in TABLES)
"""The names of the others."""
_LASTING = tuple(each.name for each in fields(Lasting))


class State(Books):
    """The books between two events, closed: a value."""

    def __init__(self, books: Books | None = None) -> None:
        theirs, mine = vars(books or Books()), vars(self)
        for name in BOOKS:
            mine[name] = theirs[name]
        for name in TABLES:
            mine[name] = mine[name].closed()

    @classmethod
    def after(cls, before: State, changes: Mapping[str, Any]) -> State:
        """Return what comes after a state: books by name that are others now, tables closed."""
        made = cls.__new__(cls)
        vars(made).update(vars(before))
        vars(made).update(changes)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}: a state is a value")

    @property
    def lasting(self) -> Lasting:
        """Return what of it is on disk."""
        known = vars(self)
        return Lasting(**{name: known[name] for name in _LASTING})


def version_of(versions: Sequence[RunSpec] | None, instance: Instance) -> RunSpec | None:
    """Return the version of its app that an instance runs, the present one when that is no longer kept.

    The present one, too, where they differ in nothing that an instance is replaced for: what priority it has and
    whether it gives way are the app's, as they are now.
    """
    if not versions:
        return None
    runs = instance.task.version if instance.task is not None else instance.version
    if versions[0].version == runs:
        return versions[0]
    found = next((spec for spec in versions if spec.version == runs), versions[0])
    return versions[0] if found.config_version == versions[0].config_version else found


def singled_out(spec: RunSpec | None) -> bool:
    """Return whether the order of what waits matters to an app, or others' parts of GPUs are put away for it."""
    return spec is not None and (spec.ordered or high_share(spec) is not None)


def is_timely(instance: Instance) -> bool:
    """Return whether something may be due about an instance because time passes, whatever its app says."""
    return (
        instance.phase in COMING_UP
        or instance.phase is Phase.UNREACHABLE
        or instance.reservation is not None
        or (instance.task is not None and bool(instance.task.suspension) and not instance.task.away_by_hand)
    )


def restored(lasting: Lasting) -> State:
    """Return the state of a process that has just started over what is on disk."""
    members: dict[str, set[str]] = {}
    for instance in lasting.instances.values():
        if not instance.released:
            members.setdefault(instance.app_id, set()).add(instance.id)
    coming_up: dict[str, set[str]] = {}
    for instance in lasting.instances.values():
        if instance.phase in COMING_UP:
            coming_up.setdefault(instance.app_id, set()).add(instance.id)
    books = Books(
        members=Members({app_id: frozenset(ids) for app_id, ids in members.items()}),
        coming_up=Members({app_id: frozenset(ids) for app_id, ids in coming_up.items()}),
        timely=Table({i.id: i.app_id for i in lasting.instances.values() if is_timely(i)}),
        waiting=Waiting.of([i for i in lasting.instances.values() if i.phase is Phase.SCHEDULED]),
        releasing=frozenset(i.id for i in lasting.instances.values() if i.released),
    )
    vars(books).update(vars(lasting))
    for app_id in books.waiting.apps():
        if singled_out(books.app(app_id)):
            books.singular = Table({**books.singular, app_id: True})
    return State(books)
