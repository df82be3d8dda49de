"""Any history of apps with persistent volumes: no volume in two tasks at once, none lost, none left behind."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.actions import Action, Kill, Launch, Reconcile
from mesos_gpu.marathon.state.events import (
    CallFailed,
    Event,
    KillTasks,
    Offered,
    PutApps,
    PutPod,
    RemoveApp,
    RestartApp,
    Tick,
)
from mesos_gpu.marathon.state.state import restored
from tests.support.histories import examples
from tests.support.marathon.builders import Run, keeping, offer, only, status
from tests.support.marathon.residents import Agent, resident

APPS = st.sampled_from(["/a", "/g/b"])
AGENTS = st.sampled_from([0, 1])
HOUR_S = 3700.0


class Histories(RuleBasedStateMachine):
    """Random histories over two agents; every event may be the last one before a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Run()
        self.agents = [Agent(self.run, f"S{n}", host=f"h{n}", gpus=2, cpus=2, disk=1000) for n in range(2)]

    @initialize()
    def begin(self) -> None:
        self.run.subscribe()

    def feed(self, event: Event, *, after_s: float = 0.1) -> None:
        try:
            actions = self.run.do(event, after_s=after_s)
        except MesosGpuError:
            return
        self.perform(actions)

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Kill):
                self.end(action.task_id, "TASK_KILLED")
            elif isinstance(action, Reconcile):
                # Asking for all of them, the master names those that it knows.
                for task_id in list(action.agents) or [task for agent in self.agents for task in agent.tasks]:
                    known = any(task_id in agent.tasks for agent in self.agents)
                    self.feed(status(task_id, "TASK_RUNNING" if known else "TASK_UNKNOWN"))

    def end(self, task_id: str, state: str) -> None:
        for agent in self.agents:
            if task_id in agent.tasks:
                siblings = agent.siblings(task_id)
                agent.release(task_id)
                self.feed(status(task_id, state))
                # An executor whose task ended badly ends the others of its group.
                for sibling in siblings if state != "TASK_FINISHED" else ():
                    if sibling in agent.tasks:
                        self.end(sibling, "TASK_KILLED")
                return
        self.feed(status(task_id, "TASK_UNKNOWN"))

    @rule(app_id=APPS, instances=st.integers(0, 3), value=st.sampled_from(["1", "2"]), force=st.booleans())
    def put(self, app_id: str, instances: int, value: str, *, force: bool) -> None:
        document = resident(app_id, gpus=1, instances=instances, env={"VALUE": value})
        self.feed(PutApps([document], f"p{self.run.now_s}", force=force))

    @rule(instances=st.integers(0, 2), value=st.sampled_from(["1", "2"]), force=st.booleans())
    def put_pod(self, instances: int, value: str, *, force: bool) -> None:
        exists = any(spec.id == "/p" for spec in self.run.state.apps())
        document = keeping(gpus=1, instances=instances, environment={"VALUE": value})
        self.feed(PutPod(document, f"q{self.run.now_s}", force, create=not exists))

    @rule(app_id=APPS | st.just("/p"))
    def remove(self, app_id: str) -> None:
        self.feed(RemoveApp(app_id, f"r{self.run.now_s}"))

    @rule(app_id=APPS, force=st.booleans())
    def restart(self, app_id: str, *, force: bool) -> None:
        self.feed(RestartApp(app_id, f"s{self.run.now_s}", force=force))

    @rule(app_id=APPS | st.just("/p"), how=st.sampled_from(["", "wipe", "scale"]))
    def kill(self, app_id: str, how: str) -> None:
        ids = [i.shown_task_id or i.id for i in self.run.state.instances_of(app_id)]
        self.feed(KillTasks(ids[:1], f"k{self.run.now_s}", wipe=how == "wipe", scale=how == "scale", force=True))

    @rule(number=AGENTS, run=st.booleans())
    def give(self, number: int, *, run: bool) -> None:
        agent = self.agents[number]
        self.perform(agent.offer())
        for task_id in list(agent.tasks) if run else []:
            instance = self.run.state.lasting.instances.get(instance_of(task_id) or "")
            # Saying it again would prolong the backoff of its app.
            if instance is None or instance.phase is not Phase.RUNNING:
                self.feed(status(task_id))

    @rule(number=AGENTS)
    def lose_what_is_asked(self, number: int) -> None:
        """The call breaks down on its way, and never arrives."""
        agent = self.agents[number]
        document = {**offer("lost", agent=agent.name, host=agent.host, ports=()), "resources": agent.free.to_json()}
        for launch in only(self.run.do(Offered([document])), Launch):
            self.feed(CallFailed(launch, "broken pipe"))

    @precondition(lambda self: any(agent.tasks for agent in self.agents))
    @rule(number=st.integers(0, 9), state=st.sampled_from(["TASK_FAILED", "TASK_FINISHED", "TASK_LOST"]))
    def end_one(self, number: int, state: str) -> None:
        running = sorted(task_id for agent in self.agents for task_id in agent.tasks)
        self.end(running[number % len(running)], state)

    @rule(number=AGENTS)
    def lose_an_agent_for_a_while(self, number: int) -> None:
        for task_id in list(self.agents[number].tasks):
            self.feed(status(task_id, "TASK_UNREACHABLE"))

    @rule()
    def crash(self) -> None:
        later = Run(restored(self.run.state.lasting), self.run.settings, now_s=self.run.now_s + 1)
        later._events = self.run._events
        self.run = later
        for agent in self.agents:
            agent.run = later
        self.perform(self.run.subscribe())

    @rule(seconds=st.sampled_from([1.0, 25.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.feed(Tick(), after_s=seconds)

    @invariant()
    def no_volume_is_in_two_tasks(self) -> None:
        for agent in self.agents:
            everything = (*agent.tasks.values(), *(taken for _, taken in agent.executors.values()))
            used = [r.persistence_id for taken in everything for r in taken if r.persistence_id]
            assert len(used) == len(set(used))

    @invariant()
    def a_task_has_the_volumes_of_its_instance(self) -> None:
        for agent in self.agents:
            for task_id, own in agent.tasks.items():
                taken = next((shared for mine, shared in agent.executors.values() if task_id in mine), own)
                instance = self.run.state.lasting.instances.get(instance_of(task_id) or "")
                if instance is not None and instance.task is not None and instance.task.has(task_id):
                    assert instance.reservation is not None
                    wanted = {volume.persistence_id for volume in instance.reservation.volumes}
                    assert {r.persistence_id for r in taken} - {None} == wanted

    def teardown(self) -> None:
        """In the end all comes right: what is wanted runs; then everything goes, and nothing is left anywhere."""
        self.run.subscribe()
        self.settle()
        for spec in self.run.state.apps():
            running = [i for i in self.run.state.instances_of(spec.id) if i.task is not None]
            assert len(running) <= spec.instances
        wanted = sum(spec.instances for spec in self.run.state.apps())
        # A pod's instance has two tasks.
        started = [{instance_of(task_id) for task_id in agent.tasks} for agent in self.agents]
        assert sum(map(len, started)) == min(wanted, sum(self.room()))
        for spec in list(self.run.state.apps()):
            self.feed(RemoveApp(spec.id, f"end{spec.id}"))
        self.settle()
        for agent in self.agents:
            assert not agent.tasks
            assert agent.free == agent.whole
        self.feed(Tick(), after_s=HOUR_S)
        assert not self.run.state.lasting.instances
        assert not self.run.state.lasting.deployments

    def room(self) -> list[int]:
        """GPUs of each agent that shelved instances do not hold."""
        shelved = [i for spec in self.run.state.apps() for i in self.run.state.instances_of(spec.id) if i.resting]
        held = [
            sum(i.reservation is not None and i.reservation.agent_id == a.name for i in shelved) for a in self.agents
        ]
        return [2 - count for count in held]

    def settle(self) -> None:
        for _ in range(16):
            self.feed(Tick(), after_s=4.0)
            for number in range(2):
                self.give(number, run=True)


Histories.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25)
TestResidentHistories = Histories.TestCase
