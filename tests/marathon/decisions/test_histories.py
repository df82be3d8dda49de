"""Any history of calls, offers, statuses, broken connections and crashes: nothing starts twice, and all comes right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.decisions.orchestrator import handle, next_tick_s
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.model.groups import conflicts, depths
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.model.task_ids import app_of, instance_of
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Action,
    Decline,
    Kill,
    Launch,
    Reconcile,
    Revive,
    Save,
    Suppress,
)
from mesos_gpu.marathon.state.events import (
    CancelDeployment,
    Disconnected,
    Event,
    HealthChecked,
    KillTasks,
    Moment,
    PutApps,
    PutGroup,
    PutPod,
    ReadinessChecked,
    RemoveApp,
    RemoveGroup,
    RestartApp,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.state import State, restored
from mesos_gpu.marathon.views.tree import current_root
from tests.support.histories import examples
from tests.support.marathon.builders import SETTINGS, T0, app, container, pod, status
from tests.support.marathon.world import ENDS, GPUS, Disk, World

APPS = ("/a", "/b", "/g/c")
LIMITED = replace(SETTINGS, launch_tokens=4)
HTTP = {"protocol": "HTTP", "gracePeriodSeconds": 0, "maxConsecutiveFailures": 1}
READY = {"portName": "default"}


def no_more_than_capacity_allows(before: State, after: State) -> None:
    """Nothing is added to an app beyond what its upgrade strategy allows, read once more here."""
    added = {i.app_id for key, i in after.lasting.instances.items() if key not in before.lasting.instances}
    for app_id in added:
        spec = after.app(app_id)
        assert spec is not None
        strategy = spec.document["upgradeStrategy"]
        least = math.ceil(spec.instances * strategy["minimumHealthCapacity"])
        most = math.floor(spec.instances * (1 + strategy["maximumOverCapacity"]))
        # Where not one may be missing and not one too many, there would be no way: one more it is.
        most += least == most
        # What is being ended for good makes room at once; what is lost does when its time has come.
        kept = [i for i in after.instances_of(app_id) if i.wanted and i.phase is not Phase.UNREACHABLE]
        assert len(kept) <= most, f"{len(kept)} of {app_id}, {most} at most"


class Histories(RuleBasedStateMachine):
    """Random histories."""

    def __init__(self) -> None:
        super().__init__()
        self.disk, self.world, self.state = Disk(), World(), State()
        self.now_s, self.count = T0, 0

    # One event, with or without a crash in the middle of what it leads to

    def feed(self, event: Event, *, crash_after: int | None = None) -> None:
        waiting = [event]
        while waiting:
            self.count += 1
            moment = Moment(self.now_s, ids_from(str(UUID(int=self.count))))
            before = self.state
            try:
                self.state, actions = handle(before, waiting.pop(0), moment, LIMITED)
            except MesosGpuError:
                continue
            no_more_than_capacity_allows(before, self.state)
            waiting += self.perform(actions, crash_after)
            if crash_after is not None:
                self.crash()
                return

    def perform(self, actions: Sequence[Action], crash_after: int | None) -> list[Event]:
        answers: list[Event] = []
        for n, action in enumerate(actions):
            if crash_after is not None and n > crash_after:
                break
            if isinstance(action, Save):
                assert n == 0, "something was done before it was saved"
                self.disk.save(action)
            elif isinstance(action, (Launch, Decline, Revive, Suppress, Kill, Acknowledge, Reconcile)):
                answers += self.world.call(action, self.disk)
        return answers

    def crash(self) -> None:
        self.state = restored(self.disk.load())
        self.world.connected = False

    def subscribe(self) -> None:
        self.world.connected = True
        self.feed(Subscribed("F", "m", again=True))

    @initialize()
    def begin(self) -> None:
        self.subscribe()

    # What people do

    @rule(
        app_id=st.sampled_from(APPS),
        instances=st.integers(0, 3),
        gpus=st.integers(0, 2),
        over=st.sampled_from([0, 1]),
        checked=st.booleans(),
        force=st.booleans(),
        crash_after=st.none() | st.integers(0, 3),
    )
    def put(
        self, app_id: str, instances: int, gpus: int, over: int, checked: bool, force: bool, crash_after: int | None
    ) -> None:
        strategy = {"minimumHealthCapacity": 1 - over if gpus == 0 else 0, "maximumOverCapacity": over}
        labels = {"GPU_SCHEDULING_BEHAVIOR": "unrestricted"}
        document = app(app_id, instances=instances, gpus=gpus, upgradeStrategy=strategy, labels=labels)
        if checked:
            document |= {"healthChecks": [HTTP], "readinessChecks": [READY]}
        self.feed(PutApps([document], f"d{self.count}", force=force), crash_after=crash_after)

    def at_work(self) -> list[str]:
        """The apps of which something runs."""
        running = {i.app_id for i in self.state.lasting.instances.values() if i.phase is Phase.RUNNING}
        return sorted(running.intersection(APPS).intersection(spec.id for spec in self.state.apps()))

    @rule(
        data=st.data(), value=st.sampled_from("123"), over=st.integers(0, 1), crash_after=st.none() | st.integers(0, 3)
    )
    @precondition(at_work)
    def upgrade(self, data: st.DataObject, value: str, over: int, crash_after: int | None) -> None:
        """What runs is replaced, as its strategy says: the case that is rare when everything is drawn again."""
        app_id = data.draw(st.sampled_from(self.at_work()))
        strategy = {"minimumHealthCapacity": 1 - over, "maximumOverCapacity": over}
        document = {"id": app_id, "env": {"VALUE": value}}
        if self.state.app(app_id).gpus == 0:  # type: ignore[union-attr]
            document["upgradeStrategy"] = strategy
        self.feed(PutApps([document], f"d{self.count}", force=True), crash_after=crash_after)

    @rule(
        instances=st.integers(0, 2),
        gpus=st.integers(0, 1),
        checked=st.booleans(),
        force=st.booleans(),
        crash_after=st.none() | st.integers(0, 3),
    )
    def put_pod(self, instances: int, gpus: int, checked: bool, force: bool, crash_after: int | None) -> None:
        exists = any(spec.id == "/p" for spec in self.state.apps())
        check = {"healthCheck": {"exec": {"command": {"shell": "true"}}}} if checked else {}
        document = pod(
            "/p",
            container("one", resources={"gpus": gpus}),
            container("two", **check),
            scaling={"kind": "fixed", "instances": instances},
            scheduling={"upgrade": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}},
            labels={"GPU_SCHEDULING_BEHAVIOR": "unrestricted"},
        )
        self.feed(PutPod(document, f"d{self.count}", force, create=not exists), crash_after=crash_after)

    @rule(app_id=st.sampled_from([*APPS, "/p"]), crash_after=st.none() | st.integers(0, 3))
    def remove(self, app_id: str, crash_after: int | None) -> None:
        self.feed(RemoveApp(app_id, f"d{self.count}"), crash_after=crash_after)

    @rule(
        instances=st.integers(0, 2),
        depends=st.sampled_from([[], ["/a"], ["/b", "/a"]]),
        force=st.booleans(),
        crash_after=st.none() | st.integers(0, 3),
    )
    def put_group(self, instances: int, depends: list[str], force: bool, crash_after: int | None) -> None:
        apps = [app("c", instances=instances, labels={"GPU_SCHEDULING_BEHAVIOR": "unrestricted"})]
        document = {"dependencies": depends, "apps": apps}
        self.feed(PutGroup("/g", document, f"d{self.count}", force), crash_after=crash_after)

    @rule(factor=st.sampled_from([0, 0.5, 2]), force=st.booleans())
    def scale_group(self, factor: float, force: bool) -> None:
        if sum(spec.instances for spec in self.state.apps()) * factor <= 8:
            self.feed(PutGroup("/g", {"scaleBy": factor}, f"d{self.count}", force))

    @rule(data=st.data(), force=st.booleans())
    @precondition(lambda self: self.state.lasting.roots)
    def group_goes_back(self, data: st.DataObject, force: bool) -> None:
        version = data.draw(st.sampled_from([root.version for root in self.state.lasting.roots]))
        self.feed(PutGroup("/", {"version": version}, f"d{self.count}", force))

    @rule(crash_after=st.none() | st.integers(0, 3))
    def remove_group(self, crash_after: int | None) -> None:
        self.feed(RemoveGroup("/g", f"d{self.count}", force=True), crash_after=crash_after)

    @rule(app_id=st.sampled_from(APPS), force=st.booleans())
    def restart(self, app_id: str, force: bool) -> None:
        self.feed(RestartApp(app_id, f"d{self.count}", force))

    @rule(data=st.data(), scale=st.booleans(), wipe=st.booleans())
    @precondition(lambda self: self.state.lasting.instances)
    def kill(self, data: st.DataObject, scale: bool, wipe: bool) -> None:
        instance = data.draw(st.sampled_from(sorted(self.state.lasting.instances)))
        self.feed(KillTasks([instance], f"d{self.count}", scale=scale, wipe=wipe, force=True))

    @rule(data=st.data(), force=st.booleans())
    @precondition(lambda self: self.state.lasting.deployments)
    def cancel(self, data: st.DataObject, force: bool) -> None:
        deployment = data.draw(st.sampled_from(sorted(self.state.lasting.deployments)))
        self.feed(CancelDeployment(deployment, f"d{self.count}", force))

    # What the world does

    @rule(crash_after=st.none() | st.integers(0, 2))
    @precondition(lambda self: self.world.connected)
    def offers(self, crash_after: int | None) -> None:
        self.feed(self.world.make_offer(), crash_after=crash_after)

    @rule()
    @precondition(lambda self: self.world.connected)
    def stale_offer(self) -> None:
        made = self.world.make_offer()
        self.world.offered = {}
        self.feed(made)

    @rule(data=st.data(), state=st.sampled_from(["TASK_STARTING", "TASK_RUNNING", "TASK_UNREACHABLE", *ENDS]))
    @precondition(lambda self: self.world.tasks)
    def task_changes(self, data: st.DataObject, state: str) -> None:
        self.world.report(data.draw(st.sampled_from(sorted(self.world.tasks))), state)

    @rule(data=st.data(), alive=st.booleans(), ready=st.booleans())
    @precondition(lambda self: self.world.tasks)
    def checks_come_in(self, data: st.DataObject, alive: bool, ready: bool) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.world.tasks)))
        self.feed(HealthChecked(task_id, 0, alive=alive, cause="no"))
        self.feed(ReadinessChecked(task_id, "readinessCheck", ready=ready))

    @rule(repeat=st.booleans(), crash_after=st.none() | st.integers(0, 2))
    @precondition(lambda self: self.world.connected and self.world.outbox)
    def status_arrives(self, repeat: bool, crash_after: int | None) -> None:
        first = self.world.outbox[0]
        if repeat:
            self.feed(first)
        self.feed(first, crash_after=crash_after)

    @rule()
    def connection_breaks(self) -> None:
        self.world.connected = False
        self.feed(Disconnected())

    @rule()
    def crashes(self) -> None:
        self.crash()

    @rule()
    @precondition(lambda self: not self.world.connected)
    def connects(self) -> None:
        self.subscribe()

    @rule(seconds=st.sampled_from([0.5, 2.0, 20.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.feed(Tick())

    @rule(offers=st.integers(1, 4))
    @precondition(lambda self: self.world.connected)
    def all_goes_well_for_a_while(self, offers: int) -> None:
        """So that upgrades begin from apps that are as they should be, too."""
        for _ in range(offers):
            self.now_s += 31.0
            self.feed(Tick())
            self.feed(self.world.make_offer())
            self.let_all_run()

    # What must always hold

    @invariant()
    def the_disk_has_what_was_decided(self) -> None:
        lasting = self.state.lasting
        assert self.disk.load() == lasting
        again = restored(lasting)
        for name in ("members", "waiting", "coming_up", "timely"):
            assert dict(getattr(again, name)) == dict(getattr(self.state, name)), name

    @invariant()
    def no_instance_has_two_living_tasks(self) -> None:
        # A pod's has one for each container: `.two.` is like an app's `._app.`, with `.one.` beside it.
        living = [instance_of(task_id) for task_id in self.world.tasks if ".one." not in task_id]
        ours = [key for key in living if key in self.state.lasting.instances]
        known = [i.task for i in self.state.lasting.instances.values() if i.task is not None]
        strange = {instance_of(t) for t in self.world.tasks if not any(task.has(t) for task in known)}
        # More than one only while an earlier one, which we were told had ended, is still to be found out and ended.
        assert all(ours.count(key) == 1 for key in ours if key not in strange)

    @invariant()
    def what_is_known_of_checks_is_about_tasks_there_are(self) -> None:
        known = {i.task.id for i in self.state.lasting.instances.values() if i.task is not None}
        assert {*self.state.health, *self.state.readiness} <= known

    @invariant()
    def the_tree_is_whole(self) -> None:
        depths({spec.id: spec for spec in self.state.apps()}, current_root(self.state).groups)
        assert not conflicts([spec.id for spec in self.state.apps()], current_root(self.state).groups)

    def let_all_run(self) -> None:
        for task_id, (state, _) in sorted(self.world.tasks.items()):
            if state != "TASK_RUNNING":
                self.world.report(task_id, "TASK_RUNNING")
            if ".two." in task_id and task_id not in self.world.healthy:
                self.world.healthy.add(task_id)
                self.world.outbox.append(status(task_id, healthy=True, uuid=f"{task_id}/healthy"))
        while self.world.outbox:
            self.feed(self.world.outbox[0])
        for task_id in sorted(self.world.tasks):
            self.feed(HealthChecked(task_id, 0, alive=True))
            self.feed(ReadinessChecked(task_id, "readinessCheck", ready=True))

    def teardown(self) -> None:
        """Let the world behave for a while: everything must come to what was asked."""
        if not self.world.connected:
            self.subscribe()
        for _ in range(60):
            self.let_all_run()
            self.feed(self.world.make_offer())
            self.let_all_run()
            if not (self.state.waiting or self.state.lasting.deployments or self.state.kills):
                break
            at_s = next_tick_s(self.state, LIMITED, Moment(self.now_s, ids_from(str(UUID(int=0)))))
            self.now_s = min(max(at_s or 0.0, self.now_s + 1), self.now_s + 300)
            self.feed(Tick())
        state, running = self.state, self.world.tasks
        wanted = {spec.id: spec for spec in state.apps()}
        fits = sum(spec.instances * spec.gpus for spec in wanted.values()) <= GPUS
        for app_id in (*APPS, "/p"):
            mine = {instance_of(t) for t in running if app_of(t) == app_id}
            asked = wanted[app_id].instances if app_id in wanted else 0
            assert len(mine) == asked if fits else len(mine) <= asked
        if fits:
            assert not state.lasting.deployments
            tasks = [i.task for i in state.lasting.instances.values() if i.task]
            assert {task_id for task in tasks for task_id in task.living_ids} == set(running)


Histories.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestHistories = Histories.TestCase
