"""A master among agents for tests of any history: they run what it sends them, fall silent, and come back."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from mesos_gpu.master.decisions import invariants, launching
from mesos_gpu.master.decisions.handle import handle
from mesos_gpu.master.events.agents import (
    AgentSilent,
    AgentUpdate,
    LinkBroken,
    OperationStatus,
    Register,
    Reregister,
    StatusUpdate,
)
from mesos_gpu.master.events.event import Event
from mesos_gpu.master.events.schedulers import (
    Acknowledge,
)
from mesos_gpu.master.events.timers import Tick
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.model.report import Report
from mesos_gpu.master.registry.queue import RegistryQueue
from mesos_gpu.master.state.actions import (
    Action,
    AgentReregistered,
    ApplyOperation,
    KeepResources,
    RunTask,
    SendEvent,
    ShutdownFramework,
    Store,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.conversions import applied, conversions, unallocated, with_kept
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import NOW, UUID, new_state, report, status

SIZES = ["cpus:2;mem:128;gpus:4", "cpus:2;mem:128", "cpus:1;mem:64;gpus(ml):2"]
ENDS = ["TASK_FINISHED", "TASK_FAILED", "TASK_KILLED"]
ports = st.integers(5051, 5052)
often = st.integers(0, 9).map(lambda n: n != 9)
seldom = st.integers(0, 9).map(lambda n: n == 9)


class AmongAgents(RuleBasedStateMachine):
    """A master, its registry, and agents (by port) with what is true on them, whatever the master believes."""

    @initialize()
    def begin(self) -> None:
        self.state: MasterState = new_state()
        self.seconds = 0.0
        self.made = 0
        # The registry, and whether a write of it takes longer than the events that follow.
        self.registry: RegistryQueue[Store] = RegistryQueue(Record())
        self.slow = False
        # Agents that wait for an answer to their re-registration.
        self.returning: set[int] = set()
        # What is true on the agents, whatever the master believes: id and tasks by port.
        self.ids: dict[int, str] = {}
        self.sizes: dict[int, str] = {}
        self.running: dict[int, dict[tuple[str, str], Document]] = {}
        self.infos: dict[str, Document] = {}
        # What each agent keeps, and the operations whose end it has yet to tell.
        self.kept: dict[int, Resources] = {}
        self.capable: dict[int, bool] = {}
        self.untold: dict[int, list[ApplyOperation]] = {}
        self.register(5051, SIZES[0])
        self.register(5052, SIZES[2])

    @property
    def now(self) -> Moment:
        self.seconds += 0.1
        return Moment(NOW.mono_s + self.seconds, NOW.wall_s + self.seconds)

    def does(self, event: Event) -> None:
        """It happens, and all that follows from it."""
        self.follow(handle(self.state, event, self.now))

    def follow(self, actions: list[Action]) -> None:
        welcome = []
        for action in actions:
            if isinstance(action, AgentReregistered):
                welcome.append(next(port for port, agent_id in self.ids.items() if agent_id == action.agent_id))
            if isinstance(action, Store):
                self.registry.ask(action.operation, action)
                if not self.slow:
                    self.write_the_registry(all_of_it=True)
            if isinstance(action, RunTask):
                port = next(port for port, agent_id in self.ids.items() if agent_id == action.agent_id)
                framework_id = action.framework_info["id"]["value"]
                self.infos[framework_id] = action.framework_info
                resources = Resources.from_json(action.task["resources"])
                document = launching.new_task(self.state.frameworks[framework_id], action.task, resources).document
                self.running[port][(framework_id, action.task["task_id"]["value"])] = dict(document)
            if isinstance(action, (ApplyOperation, KeepResources)):
                self.keep(action)
            if isinstance(action, ShutdownFramework):
                self.forget(action.framework_id, action.agent_id)
            assert not isinstance(action, SendEvent) or self.is_open(action)
        for port in welcome:
            self.is_back(port)

    @rule(all_of_it=st.booleans())
    def write_the_registry(self, all_of_it: bool) -> None:
        """What was asked for until now is durable, and what follows each change follows."""
        while self.registry.take() is not None:
            for store in self.registry.done():
                self.does(store.then)
            if not all_of_it:
                return

    @rule(slow=st.booleans())
    def change_the_pace(self, slow: bool) -> None:
        self.slow = slow

    @invariant()
    def the_registry_says_what_the_books_say(self) -> None:
        if hasattr(self, "state") and not len(self.registry):
            assert invariants.differs(self.state, self.registry.durable) is None

    def keep(self, action: ApplyOperation | KeepResources) -> None:
        """The agent does what the master has done in its books."""
        port = next(port for port, agent_id in self.ids.items() if agent_id == action.agent_id)
        if isinstance(action, KeepResources):
            assert not self.capable[port]
            self.kept[port] = self.state.agents[action.agent_id].total.kept()
            return
        assert self.capable[port]
        whole = with_kept(Resources.parse(self.sizes[port]), self.kept[port])
        self.kept[port] = applied(whole, unallocated(conversions(action.operation))).kept()
        self.untold[port].append(action)

    def forget(self, framework_id: str, agent_id: str) -> None:
        """The agent ends all of a framework, and says nothing."""
        for port, tasks in self.running.items():
            for key in [key for key in tasks if key[0] == framework_id and self.ids[port] == agent_id]:
                del tasks[key]

    def is_open(self, action: SendEvent) -> bool:
        current = {framework.stream_id for framework in self.state.frameworks.values()}
        return action.stream_id in current or action.event["type"] == "ERROR"

    @rule()
    def wait(self) -> None:
        self.seconds += 6
        self.does(Tick())

    @rule(port=ports)
    def tell_of_an_operation(self, port: int) -> None:
        agent = self.state.agents.get(self.ids.get(port, ""))
        if agent is None or not self.untold.get(port) or port in self.returning:
            return
        applied_one = self.untold[port].pop(0)
        done = {"state": "OPERATION_FINISHED", "uuid": {"value": UUID}}
        self.does(OperationStatus(agent.id, applied_one.uuid, done))

    @rule(port=ports, size=st.sampled_from(SIZES))
    def register_anew(self, port: int, size: str) -> None:
        self.register(port, size)

    def register(self, port: int, size: str) -> None:
        self.write_the_registry(all_of_it=True)  # while an answer to a re-registration is due, it is passed over
        before = set(self.state.agents)
        self.does(Register(self.said(report(size, port=port), port)))
        self.write_the_registry(all_of_it=True)
        self.returning.discard(port)
        for agent_id in set(self.state.agents) - before:
            self.ids[port], self.running[port], self.sizes[port] = agent_id, {}, size
            self.kept[port], self.untold[port] = Resources(), []
            self.capable[port] = self.able(port)

    def able(self, port: int) -> bool:
        """One of the agents is of the older sort, which is told whole lists."""
        return port == 5051

    def said(self, what: Report, port: int, kept: Resources | None = None) -> Report:
        more = ("RESOURCE_PROVIDER", "AGENT_OPERATION_FEEDBACK", "AGENT_DRAINING") if self.able(port) else ()
        documents = [] if kept is None else kept.to_json(refined=True)
        return replace(what, capabilities=(*what.capabilities, *more), kept=documents)

    @rule(port=ports, really=seldom)
    def break_link(self, port: int, really: bool) -> None:
        if really:
            self.does(LinkBroken(f"slave(1)@127.0.0.1:{port}"))

    @rule(port=ports, really=seldom)
    def fall_silent(self, port: int, really: bool) -> None:
        if port in self.ids and really:
            self.does(AgentSilent(self.ids[port]))

    @rule(port=ports, forgets=st.booleans())
    def come_back(self, port: int, forgets: bool) -> None:
        """An agent re-registers until it is answered."""
        if port not in self.ids:
            return
        self.ask_to_come_back(port, forgets)
        self.write_the_registry(all_of_it=True)
        if port in self.returning:  # passed over, because it was just being given up
            self.ask_to_come_back(port, False)
            self.write_the_registry(all_of_it=True)
        assert port not in self.returning

    @rule(port=ports, forgets=st.booleans())
    def ask_to_come_back(self, port: int, forgets: bool) -> None:
        """An agent re-registers; while it waits for the answer it says nothing."""
        if port not in self.ids:
            return
        self.returning.add(port)
        if forgets:
            self.running[port].clear()
        tasks = [{**t, "agent_id": {"value": self.ids[port]}} for t in self.running[port].values()]
        frameworks = [self.infos[fid] for fid in dict.fromkeys(fid for fid, _ in self.running[port])]
        again = report(self.sizes[port], port=port, agent_id=self.ids[port], tasks=tasks, frameworks=frameworks)
        self.does(Reregister(self.said(again, port, self.kept[port])))

    def is_back(self, port: int) -> None:
        """The agent has its answer, and tells of its operations."""
        self.returning.discard(port)
        listed = [self.listed(port, one) for one in self.untold[port]] if self.able(port) else None
        agent = self.state.agents[self.ids[port]]
        self.does(AgentUpdate(agent.id, agent.pid, UUID, listed))
        assert self.state.agents[self.ids[port]].total.kept() == self.kept[port], "both keep the same"
        agent = self.state.agents[self.ids[port]]
        for framework_id, task_id in self.running[port]:
            assert (framework_id, task_id) in agent.tasks, "a task that runs is not lost"

    def listed(self, port: int, one: ApplyOperation) -> Document:
        done = {"state": "OPERATION_FINISHED", "uuid": {"value": UUID}}
        document: Document = {"uuid": {"value": one.uuid}, "info": one.operation, "latest_status": done}
        return {**document, "agent_id": {"value": self.ids[port]}, "statuses": [done]}

    @rule(port=ports, end=st.sampled_from(ENDS), told=often, acknowledged=often)
    def end_a_task(self, port: int, end: str, told: bool, acknowledged: bool) -> None:
        tasks = self.running.get(port, {})
        if not tasks or port in self.returning:
            return
        (framework_id, task_id), document = list(tasks.items())[-1]
        document["state"] = end
        agent = self.state.agents.get(self.ids[port])
        if not told or agent is None:
            return
        self.does(StatusUpdate(agent.id, framework_id, status(agent, task_id, end), end))
        framework = self.state.frameworks.get(framework_id)
        if acknowledged and framework is not None and agent.connected:
            body = {"agent_id": {"value": agent.id}, "task_id": {"value": task_id}, "uuid": UUID}
            self.does(Acknowledge(framework.id, body))
            del tasks[(framework_id, task_id)]
            assert task_id not in framework.tasks

    @rule(really=seldom)
    def restart_the_master(self, really: bool) -> None:
        if not really:
            return
        # What was asked for and is not written is lost, whether or not the write is under way.
        durable = self.registry.durable
        self.registry = RegistryQueue(durable)
        info = {**self.state.master_info, "id": f"master{self.made}"}
        self.state = MasterState(info, self.state.settings, self.now, durable)
        self.made += 1
