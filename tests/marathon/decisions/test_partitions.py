"""Any history of partitions, of masters and Marathons that fail over: no run twice, no instance twice too early.

The master answers as Mesos' does: of a task on an unreachable agent it tells only who names the agent that it is
unreachable, and nobody that it is unknown while the agent may still come back after a failover (Master::reconcile in
src/master/master.cpp). What it says by itself it says once, to whoever is subscribed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mesos_gpu.marathon.model.jobs import new_run_id
from mesos_gpu.marathon.model.task_ids import app_of
from mesos_gpu.marathon.state.actions import Acknowledge, Action, Kill, Launch, Reconcile
from mesos_gpu.marathon.state.events import CallFailed, Disconnected, Event, Offered, PutJob, StartRun, Status, Tick
from mesos_gpu.marathon.state.state import restored
from tests.support.histories import examples
from tests.support.marathon.builders import Run, app, offer, status

AGENTS = ("S0", "S1")
INSTANCES = 2
INACTIVE_S, EXPUNGE_S = 100.0, 200.0
LIVING = ("TASK_STAGING", "TASK_RUNNING")


class Standing(Enum):
    """What the master holds of an agent."""

    REGISTERED = "registered"
    RECOVERED = "recovered from the registry, and may come back"
    UNREACHABLE = "unreachable"


@dataclass
class Agent:
    name: str
    standing: Standing = Standing.REGISTERED
    cut_off: bool = False
    since_s: float = 0.0
    """When it became unreachable."""
    tasks: dict[str, str] = field(default_factory=dict)
    """What really runs there, and what ended but is not acknowledged: states by task id."""
    updates: list[Status] = field(default_factory=list)
    """Not acknowledged yet, oldest first."""

    def becomes(self, task_id: str, state: str) -> None:
        self.tasks[task_id] = state
        uuid = f"{task_id}/{state}"
        self.updates.append(status(task_id, state, agent_id={"value": self.name}, uuid=uuid))


class Histories(RuleBasedStateMachine):
    """Random histories over two agents, apps that wait for lost agents for some time or forever, and runs."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Run()
        self.agents = {name: Agent(name) for name in AGENTS}
        self.known: dict[str, str] = {}
        """The master's tasks, the agent of each."""
        self.ever: dict[str, list[str]] = {}
        """The tasks of each run that have really started."""
        self.up = True

    @initialize()
    def begin(self) -> None:
        waits = {"inactiveAfterSeconds": INACTIVE_S, "expungeAfterSeconds": EXPUNGE_S}
        self.perform(self.run.subscribe())
        for app_id, strategy in (("/stays", "disabled"), ("/waits", waits)):
            self.perform(self.run.put(app(app_id, instances=INSTANCES, unreachableStrategy=strategy)))
        for policy in ("NEVER", "ON_FAILURE"):
            restart = {"policy": policy}
            document = {"id": policy[:2].lower(), "run": {"cmd": "x", "cpus": 0.1, "mem": 32, "restart": restart}}
            self.feed(PutJob(document))
            self.start_a_run(document["id"])
        for name in AGENTS:
            self.offer(name, lost=False)

    # --- Marathon ---------------------------------------------------------------------------------------------

    def feed(self, event: Event, *, after_s: float = 0.1) -> None:
        self.perform(self.run.do(event, after_s=after_s))

    def perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if not self.up and isinstance(action, (Launch, Kill, Reconcile)):
                self.feed(CallFailed(action, "not connected"))
            elif isinstance(action, Launch):
                self.launch(action)
            elif isinstance(action, Kill):
                self.kill(action)
            elif isinstance(action, Reconcile):
                for task_id, agent_id in (action.agents or dict(self.known)).items():
                    self.answer(task_id, agent_id)
            elif isinstance(action, Acknowledge):
                self.acknowledged(action.status["uuid"])

    @rule(after_s=st.sampled_from([0.1, 150.0]))
    def marathon_fails_over(self, after_s: float) -> None:
        later = Run(restored(self.run.state.lasting), self.run.settings, now_s=self.run.now_s + after_s)
        later._events = self.run._events
        self.run, self.up = later, True
        self.perform(later.subscribe())

    @rule()
    def the_connection_breaks(self) -> None:
        self.up = False
        self.feed(Disconnected())

    @rule()
    def the_connection_is_back(self) -> None:
        if not self.up:
            self.up = True
            self.perform(self.run.subscribe())

    @rule(job=st.sampled_from(["ne", "on"]))
    def start_a_run(self, job: str) -> None:
        if len(self.run.state.lasting.jobs[job].runs) < 2:
            self.feed(StartRun(job, new_run_id("20261121160000", int(self.run.now_s * 10))))

    @rule(seconds=st.sampled_from([1.0, 16.0, 60.0, 150.0, 601.0]))
    def time_passes(self, seconds: float) -> None:
        self.feed(Tick(), after_s=seconds)

    # --- the master -------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(AGENTS), lost=st.booleans())
    def offer(self, name: str, lost: bool) -> None:
        """`lost`: what Marathon asks for then never reaches the master."""
        if self.up and self.agents[name].standing is Standing.REGISTERED:
            made = offer(f"O{self.run.now_s}", agent=name, host=name, cpus=9)
            actions = self.run.do(Offered([made]))
            launches = [action for action in actions if isinstance(action, Launch)]
            if lost and launches:
                self.perform([action for action in actions if not isinstance(action, Launch)])
                for launch in launches:
                    self.feed(CallFailed(launch, "broken pipe"))
            else:
                self.perform(actions)

    def launch(self, action: Launch) -> None:
        for task_id, name in action.agents.items():
            self.check(task_id)
            self.known[task_id] = name
            if not self.agents[name].cut_off:
                self.ever.setdefault(str(app_of(task_id)), []).append(task_id)
                self.agents[name].becomes(task_id, "TASK_RUNNING")

    def kill(self, action: Kill) -> None:
        name = self.known.get(action.task_id)
        if name is None:
            self.answer(action.task_id, action.agent_id)
        elif not self.agents[name].cut_off and self.agents[name].tasks.get(action.task_id) in LIVING:
            self.agents[name].becomes(action.task_id, "TASK_KILLED")

    def answer(self, task_id: str, agent_id: str | None) -> None:
        """Explicit reconciliation."""
        standings = {name: agent.standing for name, agent in self.agents.items()}
        where = standings.get(agent_id or "")
        if task_id in self.known:
            agent = self.agents[self.known[task_id]]
            self.tell(task_id, agent.tasks.get(task_id, "TASK_STAGING"), agent.name, "REASON_RECONCILIATION")
        elif where is Standing.RECOVERED or (agent_id is None and Standing.RECOVERED in standings.values()):
            return
        else:
            says = {Standing.REGISTERED: "TASK_GONE", Standing.UNREACHABLE: "TASK_UNREACHABLE", None: "TASK_UNKNOWN"}
            self.tell(task_id, says[where], agent_id or "", "REASON_RECONCILIATION")

    def tell(self, task_id: str, state: str, agent_id: str, reason: str) -> None:
        """Say something that is not said again."""
        if self.up:
            document = {"task_id": {"value": task_id}, "state": state, "reason": reason}
            self.feed(Status({**document, "agent_id": {"value": agent_id}}))

    @rule()
    def the_master_fails_over(self) -> None:
        self.the_connection_breaks()
        self.known.clear()
        for agent in self.agents.values():
            if agent.standing is Standing.REGISTERED:
                agent.standing = Standing.RECOVERED
        for agent in self.agents.values():
            if not agent.cut_off and agent.standing is Standing.RECOVERED:
                self.comes_back(agent)

    # --- agents and the network -------------------------------------------------------------------------------

    @rule(name=st.sampled_from(AGENTS), given_up=st.booleans())
    def cut_off(self, name: str, given_up: bool) -> None:
        agent = self.agents[name]
        agent.cut_off = True
        if given_up and agent.standing is not Standing.UNREACHABLE:
            agent.standing, agent.since_s = Standing.UNREACHABLE, self.run.now_s
            for task_id in [task_id for task_id, where in self.known.items() if where == name]:
                del self.known[task_id]
                self.tell(task_id, "TASK_UNREACHABLE", name, "REASON_AGENT_REMOVED")

    @rule(name=st.sampled_from(AGENTS))
    def joins_again(self, name: str) -> None:
        agent = self.agents[name]
        if agent.cut_off:
            agent.cut_off = False
            self.comes_back(agent)

    def comes_back(self, agent: Agent) -> None:
        """Register again: the master learns what runs there, and the agent what should."""
        returned = agent.standing is Standing.UNREACHABLE
        agent.standing = Standing.REGISTERED
        for task_id in [task_id for task_id, where in self.known.items() if where == agent.name]:
            if task_id not in agent.tasks:
                agent.becomes(task_id, "TASK_DROPPED")
        self.known.update(dict.fromkeys(agent.tasks, agent.name))
        if returned:
            for task_id, state in list(agent.tasks.items()):
                self.tell(task_id, state, agent.name, "REASON_AGENT_REREGISTERED")

    @rule(
        name=st.sampled_from(AGENTS), number=st.integers(0, 9), state=st.sampled_from(["TASK_FINISHED", "TASK_FAILED"])
    )
    def a_task_ends(self, name: str, number: int, state: str) -> None:
        living = self.living_on(self.agents[name])
        if living:
            self.agents[name].becomes(living[number % len(living)], state)

    @rule(name=st.sampled_from(AGENTS))
    def updates_arrive(self, name: str) -> None:
        agent = self.agents[name]
        if self.up and not agent.cut_off and agent.standing is Standing.REGISTERED and agent.updates:
            self.feed(agent.updates[0])

    def acknowledged(self, uuid: str) -> None:
        for agent in self.agents.values():
            for update in [update for update in agent.updates if update.status["uuid"] == uuid]:
                agent.updates.remove(update)
                task_id = update.status["task_id"]["value"]
                if update.status["state"] not in LIVING:
                    del agent.tasks[task_id]
                    self.known.pop(task_id, None)

    # --- what must hold ---------------------------------------------------------------------------------------

    @staticmethod
    def living_on(agent: Agent) -> list[str]:
        return sorted(task_id for task_id, state in agent.tasks.items() if state in LIVING)

    def check(self, launched: str) -> None:
        """Nothing is launched in the place of what may still run, before its time has come."""
        app_id = str(app_of(launched))
        counted = 0
        for agent in self.agents.values():
            away_s = self.run.now_s - agent.since_s if agent.standing is Standing.UNREACHABLE else 0.0
            if app_id != "/waits" or away_s < INACTIVE_S:
                counted += sum(app_of(task_id) == app_id for task_id in self.living_on(agent))
        most = INSTANCES if app_id in ("/stays", "/waits") else 1
        assert counted < most, f"{launched} is launched beside {counted} living ones"

    @invariant()
    def no_run_is_carried_out_twice(self) -> None:
        for app_id, tasks in self.ever.items():
            assert not app_id.startswith("/ne/") or len(tasks) == 1, tasks


Histories.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=30)
TestHistories = Histories.TestCase
