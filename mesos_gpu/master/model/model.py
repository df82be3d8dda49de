"""The things a master knows: frameworks, agents, tasks, offers. Records; the rules are in the modules beside."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct, field

from mesos_gpu.master.model.documents import Operation, Task, capabilities_of, roles_of
from mesos_gpu.master.model.shared_volumes import free_of
from mesos_gpu.mesos.documents import AgentInfo, ExecutorInfo, FrameworkInfo, OfferDocument
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId, OfferId, Role, TaskId
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document, ResourceDocument
from mesos_gpu.mesos.resources import NOTHING, Resources
from mesos_gpu.mesos.tasks import seen_by

MAX_COMPLETED_TASKS = 1000
"""Per framework, as in Mesos."""
MAX_UNREACHABLE_TASKS = 1000
PAST_VERSIONS = 16
_Key = TypeVar("_Key", FrameworkId, tuple[Role, FrameworkId])


class Offer(Struct, frozen=True):
    """Resources of one agent for one role of one framework; `resources` are allocated to that role."""

    id: OfferId
    framework_id: FrameworkId
    agent_id: AgentId
    role: Role
    resources: Resources
    document: OfferDocument
    unallocated: Resources
    """The same, allocated to nobody: what the allocator gave."""


class Shown(Struct, frozen=True):
    """Resources as they were last offered of an agent, beside what they were made of."""

    unallocated: Resources
    role: Role
    refined: bool
    several_roles: bool
    resources: Resources
    documents: list[ResourceDocument]

    @classmethod
    def of(cls, unallocated: Resources, role: Role, *, refined: bool, several_roles: bool) -> Shown:
        """Return resources as they are offered to a framework of these capabilities."""
        resources = unallocated.allocated(role)
        documents = resources.to_json(refined=refined)
        # To whom it is allocated is told to frameworks that can have several roles only (MESOS-8237): the others
        # compare resources field by field, and know of no such field. Whatever they accept is allocated to their role
        # again.
        if not several_roles:
            for document in documents:
                document.pop("allocation_info", None)
        return cls(unallocated, role, refined, several_roles, resources, documents)


class Executor(Struct, eq=False):
    """An executor that a framework brought (command tasks have none)."""

    info: ExecutorInfo
    resources: Resources


class Drainage(Struct, eq=False):
    """What frameworks were asked, and said, about an agent whose machine is to be maintained; all by framework id."""

    outstanding: dict[FrameworkId, OfferId] = field(default_factory=dict)
    """Inverse offers that are not answered."""
    statuses: dict[FrameworkId, Document] = field(default_factory=dict)
    """The last answers, as InverseOfferStatus."""
    refused: dict[FrameworkId, float] = field(default_factory=dict)
    """Until when (monotonic) a framework is not asked again."""


class Framework(Struct, eq=False):
    """A framework, connected or not. `info` is its v1 FrameworkInfo with the id."""

    id: FrameworkId
    info: FrameworkInfo
    registered_s: float
    stream_id: str | None = None
    """The stream that its events go to; of a scheduler driver, its pid. None while it is not connected."""
    pid: str | None = None
    """Where its scheduler driver is, or was; None for one that subscribes over HTTP."""
    deactivated: bool = False
    """Its driver was aborted: it is connected and wants no offers."""
    recovered: bool = False
    """Known only from agents that came back after a restart of the master."""
    reregistered_s: float | None = None
    unregistered_s: float = 0.0
    epoch: int = 0
    """Counts subscriptions, so that a timer of an older disconnection does nothing."""
    suppressed: set[Role] = field(default_factory=set)
    offer_constraints: Document = field(default_factory=dict)
    """Its OfferConstraints: by role, which agents it wants offers of."""
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    unreachable: dict[TaskId, Task] = field(default_factory=dict)
    completed: deque[Task] = field(default_factory=lambda: deque(maxlen=MAX_COMPLETED_TASKS))
    offers: dict[OfferId, Offer] = field(default_factory=dict)
    inverse_offers: dict[OfferId, AgentId] = field(default_factory=dict)
    """Ids of agents that it was asked to leave, by inverse offer id."""
    counters: Counter[str] = field(default_factory=Counter)
    """What became of it, by the last part of a metric's name: `calls/accept`, `offers/sent` and so on."""

    @property
    def connected(self) -> bool:
        """Return whether its scheduler can be told something."""
        return self.stream_id is not None

    @property
    def active(self) -> bool:
        """Return whether it is offered anything."""
        return self.connected and not self.deactivated

    @property
    def name(self) -> str:
        """Return the name it gave itself."""
        return str(self.info["name"])

    @property
    def capabilities(self) -> frozenset[str]:
        """Return its capabilities by name."""
        return capabilities_of(self.info)

    @property
    def partition_aware(self) -> bool:
        """Return whether it knows the states that came with PARTITION_AWARE."""
        return "PARTITION_AWARE" in self.capabilities

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles it is offered resources for."""
        return roles_of(self.info)

    @property
    def checkpoint(self) -> bool:
        """Return whether its tasks outlive a restart of their agent."""
        return bool(self.info.get("checkpoint", False))

    @property
    def failover_timeout_s(self) -> float:
        """Return how long it may stay away."""
        return float(self.info.get("failover_timeout", 0.0))

    def sees(self, state: str) -> str:
        """Return a task state as this framework is told it."""
        return seen_by(state, partition_aware=self.partition_aware)


class Drain(Struct, frozen=True):
    """An operator wants an agent empty; `config` is a v1 DrainConfig."""

    config: Document
    started_s: float
    done: bool = False

    def to_json(self) -> Document:
        """Return it as a v1 DrainInfo."""
        return {"state": "DRAINED" if self.done else "DRAINING", "config": self.config}


class Agent(Struct, eq=False):
    """An agent, connected or on its way back. `info` is its v1 AgentInfo with the id and refined resources."""

    id: AgentId
    info: AgentInfo
    pid: str
    version: str
    capabilities: tuple[str, ...]
    total: Resources
    registered_s: float
    checkpoint: bool = False
    resource_version_uuid: str | None = None
    """Base64 of 16 bytes; the agent refuses tasks that name another."""
    past_versions: tuple[str, ...] = ()
    """The last ones before it."""
    reregistered_s: float | None = None
    connected: bool = True
    deactivated: bool = False
    """Whether an operator keeps it from being offered."""
    drain: Drain | None = None
    tasks: dict[tuple[FrameworkId, TaskId], Task] = field(default_factory=dict)
    executors: dict[tuple[FrameworkId, ExecutorId], Executor] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    """By uuid, oldest first."""
    used: dict[FrameworkId, Resources] = field(default_factory=dict)
    """What tasks and executors hold, by framework id."""
    used_total: Resources = NOTHING
    """What tasks and executors hold."""
    lacking: Resources = NOTHING
    """What they held, and it did not have, when it came back last: GPUs that are ill are offered no more before the end
    of who had them is told."""
    offers: dict[OfferId, Offer] = field(default_factory=dict)
    offered_to: dict[tuple[Role, FrameworkId], Resources] = field(default_factory=dict)
    """What is offered now, by role and framework id."""
    offered: Resources = NOTHING
    """What is offered now."""
    killed: dict[tuple[FrameworkId, TaskId], Document | None] = field(default_factory=dict)
    """Tasks (framework id, task id) whose end was asked for, with the kill policy; asked again after a reconnection."""
    changes: dict[AgentId, None] = field(default_factory=dict)
    """Where it notes its id when what is free of it changes: the master's own list of them, in order."""
    _shown: Shown | None = None
    _free: tuple[Resources | None, Resources, Resources, Resources] = (None, NOTHING, NOTHING, NOTHING)
    """What is free, last, beside what it was made of."""

    @property
    def active(self) -> bool:
        """Return whether it may be offered."""
        return self.connected and not self.deactivated

    @property
    def hostname(self) -> str:
        """Return the name for people and URLs."""
        return str(self.info["hostname"])

    def is_past(self, version: str | None) -> bool:
        """Return whether what names this version was said by a process that another one has followed."""
        return version is not None and version in self.past_versions

    def take_version(self, version: str | None) -> None:
        """Have tasks name this version of its resources; each process of an agent has one of its own, or several."""
        before, self.resource_version_uuid = self.resource_version_uuid, version
        if before is not None and before != version:
            self.past_versions = (*self.past_versions, before)[-PAST_VERSIONS:]

    @property
    def url(self) -> Document:
        """Return where its API is, as offers say it."""
        pid = Pid.parse(self.pid)
        address = {"hostname": self.hostname, "ip": pid.ip, "port": pid.port}
        return {"scheme": "http", "address": address, "path": f"/{pid.id}"}

    @property
    def free(self) -> Resources:
        """Return what is neither held nor offered, and what is shared."""
        total, used, offered, free = self._free
        if total is not self.total or used is not self.used_total or offered is not self.offered:
            total, used, offered = self.total, self.used_total, self.offered
            free = free_of(total, used, offered)
            self._free = (total, used, offered, free)
        return free

    def shown(self, unallocated: Resources, role: Role, *, refined: bool, several_roles: bool) -> Shown:
        """Return resources of it as they are offered; what is free is most often what was offered and declined."""
        last, as_to = self._shown, (role, refined, several_roles)
        same = last is not None and last.unallocated is unallocated
        if last is not None and same and (last.role, last.refined, last.several_roles) == as_to:
            return last
        self._shown = Shown.of(unallocated, role, refined=refined, several_roles=several_roles)
        return self._shown

    @property
    def beyond(self) -> Resources:
        """Return what tasks and executors hold and the agent does not have."""
        return self.used_total.unallocated().nonshared() - self.total

    def charge(self, framework_id: FrameworkId, resources: Resources) -> None:
        """Book `resources` (allocated) for a framework."""
        self.changes[self.id] = None
        self.used[framework_id] = self.used.get(framework_id, NOTHING) + resources
        self.used_total = self.used_total + resources

    def refund(self, framework_id: FrameworkId, resources: Resources) -> None:
        """Undo a `charge`."""
        self.changes[self.id] = None
        _keep(self.used, framework_id, self.used.get(framework_id, NOTHING) - resources)
        self.used_total = self.used_total - resources

    def add_offer(self, offer: Offer) -> None:
        """Book an offer."""
        self.changes[self.id] = None
        key = (offer.role, offer.framework_id)
        self.offers[offer.id] = offer
        self.offered_to[key] = self.offered_to.get(key, NOTHING) + offer.resources
        self.offered = self.offered + offer.resources

    def drop_offer(self, offer: Offer) -> None:
        """Undo an `add_offer`; nothing when it is not there."""
        if self.offers.pop(offer.id, None) is not None:
            self.changes[self.id] = None
            key = (offer.role, offer.framework_id)
            _keep(self.offered_to, key, self.offered_to[key] - offer.resources)
            self.offered = self.offered - offer.resources


class KnownAgent(Struct, frozen=True):
    """An agent of the registry that is not here: `since_s` is when it became unreachable, None while it may return."""

    info: AgentInfo
    pid: str
    since_s: float | None = None


def _keep(books: dict[_Key, Resources], key: _Key, left: Resources) -> None:
    if left:
        books[key] = left
    else:
        books.pop(key, None)


def add(parts: Iterable[Resources]) -> Resources:
    """Return the sum of Resources."""
    total = NOTHING
    for part in parts:
        total = total + part
    return total
