"""What the master knows, and the bookkeeping that every event shares. Pure: no clock, no socket, no file.

What happens comes as a value of the room `events`; `decisions/handle.py` enters it here and returns what the edges must
do, in order, as values of `state/actions.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from mesos_gpu.master.allocation.allocator_feed import AllocatorFeed
from mesos_gpu.master.allocation.filters import Filters
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.ids import Ids
from mesos_gpu.master.model.model import (
    MAX_UNREACHABLE_TASKS,
    Agent,
    Drain,
    Drainage,
    Executor,
    Framework,
    KnownAgent,
    Offer,
)
from mesos_gpu.master.model.policy import Policy
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.state.actions import Action, SendEvent
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.master.state.transitions import Transitions
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId, OfferId, Role
from mesos_gpu.mesos.messages import with_defaults
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document

MAX_COMPLETED_FRAMEWORKS = 50


class News(Struct, frozen=True):
    """Something that operators who subscribed are told; `kind` is the event's type, tasks are whole bodies."""

    kind: str
    subject: Agent | Framework | Document


class MasterState:
    """One master's frameworks, agents, offers and tasks."""

    def __init__(
        self, master_info: Document, settings: Settings, started: Moment, record: Record | None = None
    ) -> None:
        """`record` is what the registry of an earlier run holds."""
        self.master_info, self.settings, self.started = master_info, settings, started
        self.elected: Moment | None = None
        self.frameworks: dict[FrameworkId, Framework] = {}
        self.completed: dict[FrameworkId, Framework] = {}
        self.agents: dict[AgentId, Agent] = {}
        self.deactivated: dict[AgentId, Drain | None] = {}
        """Agents that operators keep from being offered, and whether they are to be drained, by id."""
        self.gone: dict[AgentId, float] = {}
        """When operators said that agents are gone for good, by id; the newest last."""
        self.recovered: dict[AgentId, KnownAgent] = {}
        self.unreachable: dict[AgentId, KnownAgent] = {}
        self.filters = Filters(settings.allocation_interval_s)
        self.counters: Counter[str] = Counter()
        self.allocator_feed = AllocatorFeed(settings.rules, settings.draw)
        self.policy = Policy()
        self.drainages: dict[AgentId, Drainage] = {}
        """Agents whose machines are to be maintained, by id."""
        self.offer_ends: list[tuple[float, OfferId, FrameworkId]] = []
        """A heap of (when, offer id, framework id) of offers that time out."""
        self.changed: dict[AgentId, None] = {}
        """Agents of which something else may be free than the allocator knows, in order: so are they entered there."""
        self.withheld: dict[AgentId, bool] = {}
        """Agents on which a task has ended that its framework has not heard of; what is free there waits for that.

        Each with whether an allocation interval has begun since.
        """
        self._asked = self._unsure = False
        self.watched = False
        """Whether any operator listens; only then `news` are kept, until somebody takes them."""
        self.news: list[News] = []
        self.ids = Ids(str(master_info["id"]))
        """Where the ids come from that it gives to others."""
        self.transitions = Transitions()
        self.recover(record or Record())

    @property
    def allocation_due(self) -> bool:
        """Return whether there may be something to offer. Set it when in doubt what changed: all agents are looked at.

        Agents note by themselves what becomes free (`changed`), and refusals that end are known.
        """
        return self._asked or bool(self.changed) or self.filters.any_dropped

    @allocation_due.setter
    def allocation_due(self, due: bool) -> None:
        self._asked = self._unsure = due

    def ask_for_offers(self) -> None:
        """Have allocation follow: a framework wants something, or an agent has changed and is noted."""
        self._asked = True

    def touch(self, agent: Agent) -> None:
        """Note that an agent is other than it was: its total, what it is capable of, or whether it is here."""
        self.changed[agent.id] = None

    def withhold(self, agent: Agent) -> None:
        """Offer what has just become free on an agent after `let_go`, or after a whole allocation interval."""
        self.changed.pop(agent.id, None)
        self.withheld.setdefault(agent.id, False)

    def let_go(self, agent_ids: Iterable[AgentId]) -> None:
        """Offer what was withheld on these agents."""
        for agent_id in list(agent_ids):
            if agent_id in self.withheld:
                del self.withheld[agent_id]
                if agent_id in self.agents:
                    self.touch(self.agents[agent_id])

    def let_go_old(self) -> None:
        """An allocation interval begins: let go what was withheld when the one before began."""
        self.let_go(agent_id for agent_id, old in self.withheld.items() if old)
        self.withheld = dict.fromkeys(self.withheld, True)

    def sync_market(self) -> None:
        """Tell the allocator all that has changed since it last was."""
        self.allocator_feed.sync(self.agents, self.frameworks, list(self.agents) if self._unsure else self.changed)
        for framework_id, role, agent_id in self.filters.take_dropped():
            self.allocator_feed.allocator.retry(agent_id, (role, framework_id))
        self._asked = self._unsure = False
        self.changed.clear()

    def accounted(self, agent: Agent) -> None:
        """Note that an agent's offers are as the allocator decided them; what is withheld there it does not know."""
        if agent.id in self.withheld:
            self.allocator_feed.forget(agent.id)
        else:
            self.allocator_feed.offered(agent)
        self.changed.pop(agent.id, None)

    @property
    def id(self) -> str:
        """Return this master's id, the beginning of every id it gives."""
        return str(self.master_info["id"])

    def recover(self, record: Record) -> None:
        """Take over what the registry holds: at the start, or when this master is elected."""
        self.policy = record.policy.copy()
        self.allocator_feed.allocator.set_quotas(self.policy.quotas)
        for role, weight in self.policy.weights.items():
            self.allocator_feed.allocator.tree.set_weight(role, weight)
        self.deactivated, self.gone = dict(record.deactivated), dict(record.gone)
        self.recovered, self.unreachable = dict(record.agents), dict(record.unreachable)

    def framework_of(self, stream_id: str) -> Framework | None:
        """Return the framework whose current stream this is."""
        return next((f for f in self.frameworks.values() if f.stream_id == stream_id), None)

    def connected_agents(self) -> list[Agent]:
        """Return the agents that can be told something."""
        return [agent for agent in self.agents.values() if agent.connected]

    def record(self) -> Record:
        """Return what the registry holds once nothing is under way, but for who led: these books are made of it."""
        here = {agent.id: KnownAgent(agent.info, agent.pid) for agent in self.agents.values()}
        return Record((), {**self.recovered, **here}, self.unreachable, self.gone, self.deactivated, self.policy)

    # Events to schedulers.

    def tell(self, framework: Framework, kind: str, body: Document | None = None) -> list[Action]:
        """Return the action that sends an event, nothing while the framework has no stream."""
        if framework.stream_id is None:
            return []
        framework.counters["events"] += 1
        framework.counters[f"events/{kind.lower()}"] += 1
        event: Document = {"type": kind} if body is None else {"type": kind, kind.lower(): body}
        return [SendEvent(framework.stream_id, event)]

    def tell_status(self, framework: Framework, status: TaskStatus) -> list[Action]:
        """Return the action that sends an UPDATE event."""
        return self.tell(framework, "UPDATE", {"status": status})

    # Events to operators.

    def announce(self, kind: str, subject: Agent | Framework) -> None:
        """Let operators know what became of an agent or a framework."""
        if self.watched:
            self.news.append(News(kind, subject))

    def announce_status(self, task: Task, status: TaskStatus) -> None:
        """Let operators know of a task's new status."""
        if self.watched:
            body = {"framework_id": task.document["framework_id"], "status": status, "state": task.state}
            self.news.append(News("TASK_UPDATED", body))

    # Tasks and their resources.

    def add_task(self, framework: Framework, agent: Agent, task: Task) -> None:
        """Enter a task in the books of both; it holds its resources unless it has ended."""
        framework.tasks[task.id] = task
        agent.tasks[task.key] = task
        task.held = not task.ended
        if task.held:
            agent.charge(framework.id, task.resources)
        if self.watched:
            self.news.append(News("TASK_ADDED", {"task": with_defaults("mesos.v1.Task", task.document)}))

    def release(self, task: Task) -> None:
        """Free what a task holds; nothing the second time."""
        if not task.held:
            return
        task.held = False
        agent = self.agents.get(task.agent_id)
        if agent is not None:
            agent.refund(task.framework_id, task.resources)

    def drop_task(self, framework: Framework, task: Task, *, completed: bool = True) -> None:
        """Take a task out of the books, into the framework's completed ones."""
        self.release(task)
        framework.tasks.pop(task.id, None)
        agent = self.agents.get(task.agent_id)
        if agent is not None:
            agent.tasks.pop(task.key, None)
            agent.killed.pop(task.key, None)
        if completed:
            framework.completed.append(task)

    def lose_task(self, framework: Framework, task: Task) -> None:
        """Move a task of an unreachable agent aside, from where it may come back."""
        self.drop_task(framework, task, completed=False)
        framework.unreachable[task.id] = task
        while len(framework.unreachable) > MAX_UNREACHABLE_TASKS:
            del framework.unreachable[next(iter(framework.unreachable))]

    def add_executor(self, framework_id: FrameworkId, agent: Agent, executor: Executor) -> None:
        """Enter an executor and what it holds."""
        agent.executors[(framework_id, executor.info["executor_id"]["value"])] = executor
        agent.charge(framework_id, executor.resources)

    def drop_executor(self, agent: Agent, framework_id: FrameworkId, executor_id: ExecutorId) -> bool:
        """Take an executor out of the books; return whether it was there."""
        executor = agent.executors.pop((framework_id, executor_id), None)
        if executor is None:
            return False
        agent.refund(framework_id, executor.resources)
        return True

    def count_end(self, framework: Framework | None, status: Mapping[str, Any], state: str | None = None) -> None:
        """Count that a task came to an end, or was lost from sight; `state` where the status is older than that."""
        ended = (state or str(status["state"])).lower()
        self.counters[f"tasks_{ended.removeprefix('task_')}"] += 1
        if framework is not None:
            framework.counters[f"tasks/terminal/{ended}"] += 1
        if "reason" in status and "source" in status and state in (None, status["state"]):
            # Metrics have kept the names of before v1.
            source, reason = (str(status[key]).lower().replace("agent", "slave") for key in ("source", "reason"))
            self.counters[f"{ended}/{source}/{reason}"] += 1

    # Offers.

    def add_offer(self, offer: Offer) -> None:
        """Enter an offer in the books of its framework and agent."""
        self.frameworks[offer.framework_id].offers[offer.id] = offer
        self.agents[offer.agent_id].add_offer(offer)

    def drop_offer(self, offer: Offer) -> None:
        """Take an offer back without a word; its resources are free again."""
        self.frameworks[offer.framework_id].offers.pop(offer.id, None)
        self.agents[offer.agent_id].drop_offer(offer)

    def rescind(self, offer: Offer) -> list[Action]:
        """Take an offer back and say so."""
        self.drop_offer(offer)
        self.frameworks[offer.framework_id].counters["offers/rescinded"] += 1
        return self.tell(self.frameworks[offer.framework_id], "RESCIND", {"offer_id": {"value": offer.id}})

    def rescind_offers(self, agent: Agent) -> list[Action]:
        """Take back every offer of an agent."""
        return [action for offer in list(agent.offers.values()) for action in self.rescind(offer)]

    def rescind_all(self, agent: Agent) -> list[Action]:
        """Take back every offer of an agent, and every inverse one."""
        actions = self.rescind_offers(agent)
        drainage = self.drainages.get(agent.id)
        if drainage is not None:
            for framework_id, offer_id in drainage.outstanding.items():
                framework = self.frameworks[framework_id]
                del framework.inverse_offers[offer_id]
                actions += self.tell(framework, "RESCIND_INVERSE_OFFER", {"inverse_offer_id": {"value": offer_id}})
            drainage.outstanding.clear()
        return actions

    def withdraw_inverse_offers(self, framework: Framework) -> None:
        """Forget what a framework was asked, without a word."""
        for agent_id in framework.inverse_offers.values():
            if agent_id in self.drainages:
                self.drainages[agent_id].outstanding.pop(framework.id, None)
        framework.inverse_offers.clear()

    def note_maintenance(self, agent: Agent) -> None:
        """Begin to ask frameworks to leave an agent whose machine is to be maintained, or stop it; answers are void."""
        self.drainages.pop(agent.id, None)
        if self.policy.unavailability(agent) is not None:
            self.drainages[agent.id] = Drainage()
            self.ask_for_offers()

    def is_listed(self, role: Role) -> bool:
        """Return whether a role may be used at all (`--roles`)."""
        return self.settings.roles is None or role in self.settings.roles

    # Memory of what is gone.

    def remember_framework(self, framework: Framework) -> None:
        """Keep a removed framework for people to look at, and so that its id cannot come back."""
        self.completed[framework.id] = framework
        while len(self.completed) > MAX_COMPLETED_FRAMEWORKS:
            del self.completed[next(iter(self.completed))]
