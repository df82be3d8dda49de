"""What tasks had is counted exactly, whatever is started, lost, found again, ended and killed, and when."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from mesos_gpu.marathon.decisions.orchestrator import handle
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.model.task_ids import app_of
from mesos_gpu.marathon.model.usage import (
    DAY_MS,
    DAYS_KEPT,
    HOUR_MS,
    HOURS_KEPT,
    NAMES_KEPT,
    OTHERS,
    Reading,
    Sum,
    Who,
    by_hour,
)
from mesos_gpu.marathon.state.accounts import pending, split, totals, who
from mesos_gpu.marathon.state.actions import Launch, Save
from mesos_gpu.marathon.state.events import (
    Event,
    FrameworkError,
    Measured,
    Moment,
    Offered,
    PutApps,
    PutJob,
    RemoveApp,
    StartRun,
    Status,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.state import State, restored
from mesos_gpu.mesos.shares.suspending import RESUMED, SUSPENDED
from tests.support.histories import examples
from tests.support.marathon.builders import ROLE, SETTINGS, T0, Run, app, job, offer, only, ranges, status
from tests.support.marathon.saved import Saved

APPS = ("/a", "/b")
COUNTED = replace(SETTINGS, user="ann", launch_tokens=1000, min_revive_interval_s=0.0)


def ms(seconds: float) -> int:
    return round(seconds * 1000)


@dataclass
class Naive:
    """One task as somebody with a stopwatch sees it: pairs of begin and end."""

    app: str
    gpus: int
    begin_s: float
    lost_s: float | None = None
    times: list[tuple[float, float]] = field(default_factory=list)

    def up_to(self, now_s: float) -> list[tuple[float, float]]:
        return [*self.times, (self.begin_s, now_s if self.lost_s is None else self.lost_s)]


class Histories(RuleBasedStateMachine):
    """Random histories, and a naive count of each task beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.disk, self.state = Saved(), State()
        self.now_s, self.count = T0 + 1234.5, 0
        self.alive: dict[str, Naive] = {}
        self.over: list[Naive] = []

    def feed(self, event: Event, *, saved: bool = True) -> None:
        self.count += 1
        moment = Moment(self.now_s, ids_from(str(UUID(int=self.count))))
        state, actions = handle(self.state, event, moment, COUNTED)
        if not saved:  # killed before it was on disk: it has not happened
            self.state = restored(self.disk.load())
            return
        self.state = state
        for save in only(actions, Save):
            self.disk.save(save)
        for launch in only(actions, Launch):
            for info in launch.task_infos:
                gpus = sum(round(r["scalar"]["value"]) for r in info["resources"] if r["name"] == "gpus")
                task_id = info["task_id"]["value"]
                self.alive[task_id] = Naive(app_of(task_id) or "", gpus, self.now_s)
        self.look()

    def look(self) -> None:
        """Whom Marathon has let go has ended for it."""
        known = {i.task.id: i for i in self.state.instances.values() if i.task is not None and i.active}
        for task_id in [task_id for task_id in self.alive if task_id not in known]:
            self.end(task_id, self.now_s)

    def end(self, task_id: str, at_s: float) -> None:
        task = self.alive.pop(task_id)
        if task.lost_s is None:
            task.times.append((task.begin_s, at_s))
        else:
            task.times.append((task.begin_s, task.lost_s))
        self.over.append(task)

    def subscribe(self) -> None:
        self.feed(Subscribed("F", "m", again=True))

    @initialize()
    def begin(self) -> None:
        self.subscribe()

    @rule(app_id=st.sampled_from(APPS), instances=st.integers(0, 3), gpus=st.integers(0, 2), saved=st.booleans())
    def put(self, app_id: str, instances: int, gpus: int, saved: bool) -> None:
        strategy = {"inactiveAfterSeconds": 500, "expungeAfterSeconds": 5000}
        capacity = {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}
        document = app(
            app_id, instances=instances, gpus=gpus, unreachableStrategy=strategy, upgradeStrategy=capacity,
            backoffSeconds=0, labels={"GPU_SCHEDULING_BEHAVIOR": "unrestricted"},
        )  # fmt: skip
        self.feed(PutApps([document], f"d{self.count}", force=True), saved=saved)
        self.feed(Offered([offer(f"O{self.count}", gpus=6, cpus=100)]))

    @rule(app_id=st.sampled_from(APPS))
    @precondition(lambda self: self.state.versions)
    def remove(self, app_id: str) -> None:
        if self.state.app(app_id) is not None:
            self.feed(RemoveApp(app_id, f"d{self.count}", force=True))

    @rule(seconds=st.sampled_from([0.001, 7.77, 900.0, 3600.0, 10_000.0, 90_000.0]), saved=st.booleans())
    def time_passes(self, seconds: float, saved: bool) -> None:
        self.now_s += seconds
        self.feed(Tick(), saved=saved)
        self.feed(Offered([offer(f"O{self.count}", gpus=6, cpus=100)]))

    @rule(seconds=st.sampled_from([0.0, 4000.0]))
    def killed_and_started_again(self, seconds: float) -> None:
        self.state = restored(self.disk.load())
        self.now_s += seconds
        self.subscribe()

    @rule(data=st.data(), saved=st.booleans())
    @precondition(lambda self: self.alive)
    def lost(self, data: st.DataObject, saved: bool) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.alive)))
        gone = Status({"task_id": {"value": task_id}, "state": "TASK_UNREACHABLE", "agent_id": {"value": "S0"}})
        task = self.alive[task_id]
        if saved and task.lost_s is None:
            task.lost_s = self.now_s
        self.feed(gone, saved=saved)

    @rule(data=st.data(), saved=st.booleans())
    @precondition(lambda self: self.alive)
    def runs_or_is_back(self, data: st.DataObject, saved: bool) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.alive)))
        if saved:
            self.alive[task_id].lost_s = None
        self.feed(status(task_id, timestamp=self.now_s), saved=saved)

    @rule(data=st.data(), seconds=st.sampled_from([5.0, 300.0, 4000.0]), ends=st.booleans())
    @precondition(lambda self: self.alive)
    def lost_for_a_while(self, data: st.DataObject, seconds: float, ends: bool) -> None:
        self.lost(data, True)
        self.time_passes(seconds, True)
        if self.alive:
            (self.ends if ends else self.runs_or_is_back)(data, *([0.3] if ends else []), True)

    @rule()
    @precondition(lambda self: self.alive)
    def master_forgets_this_framework(self) -> None:
        """Which ends all tasks at once."""
        self.feed(FrameworkError("Framework has been removed"))
        self.subscribe()

    @rule(data=st.data(), part=st.sampled_from([0.0, 0.3, 1.0]), saved=st.booleans())
    @precondition(lambda self: self.alive)
    def ends(self, data: st.DataObject, part: float, saved: bool) -> None:
        """Its agent tells now when it ended: since the launch, or since it was lost."""
        task_id = data.draw(st.sampled_from(sorted(self.alive)))
        task = self.alive[task_id]
        first_s = task.begin_s if task.lost_s is None else task.lost_s
        at_s = first_s + part * (self.now_s - first_s)
        if saved:
            task.lost_s = None
            task.times.append((task.begin_s, at_s))
            self.over.append(self.alive.pop(task_id))
        self.feed(status(task_id, "TASK_FAILED", timestamp=at_s), saved=saved)

    @invariant()
    def sums_are_those_of_a_stopwatch(self) -> None:
        asked: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
        for task in [*self.over, *self.alive.values()]:
            times = task.up_to(self.now_s) if task in self.alive.values() else task.times
            for first_s, last_s in times:
                for hour, begin, end in by_hour(ms(first_s), ms(last_s)):
                    asked[task.app, hour][0] += 1000 * task.gpus * (end - begin)
                    asked[task.app, hour][1] += end - begin
        found: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
        for period in self.state.usage.values():
            assert period.length_ms == HOUR_MS or not period.sums or self.now_s > T0 + HOURS_KEPT * 3600
            for key, each in period.sums.items():
                found[Who.of(key).app, period.begin_ms][0] += each.gpu_ms
                found[Who.of(key).app, period.begin_ms][1] += each.wall_ms
        for key, each in self.state.usage_open.items():
            hour, owner = split(key)
            found[Who.of(owner).app, hour][0] += each.gpu_ms
            found[Who.of(owner).app, hour][1] += each.wall_ms
        for instance in self.state.instances.values():
            live = pending(self.state, instance, ms(self.now_s))
            if live is not None:
                held, begin_ms, end_ms = live
                for hour, begin, end in by_hour(begin_ms, end_ms):
                    found[who(instance, held).app, hour][0] += held.gpus * (end - begin)
                    found[who(instance, held).app, hour][1] += end - begin
        if self.now_s < T0 + HOURS_KEPT * 3600:  # then hours become days
            assert {key: sums for key, sums in found.items() if any(sums)} == {
                key: sums for key, sums in asked.items() if any(sums)
            }
        by_app = {
            name: [sum(sums[at] for (app_id, _), sums in asked.items() if app_id == name) for at in (0, 1)]
            for name in APPS
        }
        shown = totals(self.state, 0, ms(self.now_s))
        assert {
            name: [sum(getattr(each, kind) for owner, each in shown.items() if owner.app == name) for kind in KINDS]
            for name in APPS
        } == by_app
        assert sum(each.tasks for each in shown.values()) == len(self.over)

    @invariant()
    def the_disk_has_it(self) -> None:
        assert self.disk.load() == self.state.lasting


KINDS = ("gpu_ms", "wall_ms")
Histories.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25)
TestHistories = Histories.TestCase


def started(gpus: int = 2, **changes: object) -> Run:
    run = Run(settings=COUNTED, now_s=T0 - T0 % 3600)
    run.subscribe()
    run.put(app(gpus=gpus, **changes))
    run.offer(gpus=8)
    run.do(status(run.tasks()[0]))
    return run


def test_sums_are_kept_by_app_role_and_user() -> None:
    run = started(user="bob")
    run.do(Tick(), after_s=3600.0)
    ((owner, each),) = totals(run.state, 0, ms(run.now_s)).items()
    assert owner == Who("/a", ROLE, "bob")
    assert (each.gpu_ms, each.wall_ms, each.cpu_ms) == (2000 * HOUR_MS, HOUR_MS, 100 * HOUR_MS)


def test_hours_become_days_and_days_are_forgotten() -> None:
    run = started()
    for _ in range(HOURS_KEPT + 30):
        run.do(Tick(), after_s=3600.0)
    hours = [period for period in run.state.usage.values() if period.length_ms == HOUR_MS]
    days = [period for period in run.state.usage.values() if period.length_ms == DAY_MS]
    assert len(hours) <= HOURS_KEPT + 1
    assert len(days) in (1, 2, 3)
    shown = totals(run.state, 0, ms(run.now_s))
    assert sum(each.wall_ms for each in shown.values()) == (HOURS_KEPT + 30) * HOUR_MS
    week = totals(run.state, ms(run.now_s) - 7 * DAY_MS, ms(run.now_s))
    # The whole of the hour in which it begins, a second ago.
    assert sum(each.wall_ms for each in week.values()) == 7 * DAY_MS + 1000
    for _ in range(DAYS_KEPT):
        run.do(Tick(), after_s=24 * 3600.0)
    assert len(run.state.usage) <= HOURS_KEPT + 1 + DAYS_KEPT + 1


def test_runs_of_a_job_are_the_jobs() -> None:
    run = Run(settings=COUNTED)
    run.subscribe()
    run.do(PutJob(job("train", gpus=1), create=True))
    for _ in range(2):
        run.do(StartRun("train", f"X{run._events}"), after_s=1.0)
        run.offer(gpus=8)
        task_id = next(i.task.id for i in run.state.instances.values() if i.task is not None)
        run.do(status(task_id, "TASK_FINISHED", timestamp=run.now_s + 10), after_s=10.0)
    ((owner, each),) = totals(run.state, 0, ms(run.now_s)).items()
    assert (owner.app, each.tasks, each.gpu_ms) == ("train", 2, 2 * 1000 * 10_000)


def test_gpus_that_are_put_away_for_others_do_not_count() -> None:
    run = started(preemptible=True, labels={"GPU_PREEMPTION": "suspend", "GPU_SCHEDULING_BEHAVIOR": "unrestricted"})
    (instance,) = run.state.instances.values()
    assert instance.task is not None

    def suspension(word: str) -> None:
        (now,) = run.state.instances.values()
        assert now.task is not None
        changed = run.state.instances.opened()
        changed.put(now.id, replace(now, task=replace(now.task, suspension=word, suspension_s=run.now_s)))
        vars(run.state)["instances"] = changed.closed()

    begin_s = instance.task.staged_at_s
    run.now_s = begin_s + 100
    suspension("asked")
    run.do(status(instance.task.id, message=SUSPENDED))
    run.do(Tick(), after_s=7200.0)
    suspension("resuming")
    run.do(status(instance.task.id, message=RESUMED), after_s=10.0)
    run.now_s += 50
    ((_, each),) = totals(run.state, 0, ms(run.now_s)).items()
    assert (each.gpu_ms, each.wall_ms) == (2000 * 150_000, 7_360_000)


def test_what_is_measured_is_on_the_account_of_those_that_still_run() -> None:
    run = started()
    (instance,) = run.state.instances.values()
    assert instance.task is not None
    reading = Reading(60_000, cpu_ms=3_000_000, mem=5_000, gpus=2, busy_percent=150, idle_gpus=0, gpu_mem=7_000)
    run.do(Measured({instance.task.id: reading, "gone": reading}, {instance.task.id: instance.id, "gone": "x"}))
    ((_, each),) = totals(run.state, 0, ms(run.now_s)).items()
    assert (each.measured_gpu_ms, each.busy_gpu_ms) == (2000 * 60_000, 1500 * 60_000)
    assert (each.measured_cpu_ms, each.used_cpu_ms) == (100 * 60_000, 3_000_000)
    assert (each.most_mem, each.mem, each.most_gpu_mem) == (5_000, 32_000, 7_000)


def test_a_clock_that_was_ahead_stops_no_count() -> None:
    run = started()
    run.do(Tick(), after_s=400 * 86400.0)
    before = sum(each.wall_ms for each in totals(run.state, 0, ms(run.now_s)).values())
    run.do(Tick(), after_s=-400 * 86400.0 + 7200)
    run.do(Tick(), after_s=7200.0)
    after = sum(each.wall_ms for each in totals(run.state, 0, ms(run.now_s)).values())
    assert after - before >= 7_200_000


def test_a_task_of_a_version_that_did_not_count_has_what_its_app_asks_for() -> None:
    run = started(user="bob")
    (instance,) = run.state.instances.values()
    assert instance.task is not None
    changed = run.state.instances.opened()
    changed.put(instance.id, replace(instance, task=replace(instance.task, held=None)))
    vars(run.state)["instances"] = changed.closed()
    run.do(status(instance.task.id, "TASK_FAILED", timestamp=instance.task.staged_at_s + 100), after_s=200.0)
    ((owner, each),) = totals(run.state, 0, ms(run.now_s)).items()
    assert (owner.user, each.gpu_ms, each.tasks) == ("bob", 2000 * 100_000, 1)


def test_parts_of_shared_gpus_are_counted_in_their_memory() -> None:
    run = Run(settings=COUNTED)
    run.subscribe()
    run.put(app(gpuShare={"memGiB": 6, "weight": 2}))
    shared = [ranges("gpu_mem", (2000, 2014)), ranges("gpu_slices", (2000, 2024))]
    run.offer(extra=shared, attributes={"gpu_shared_cards": "2=GPU-x/15/watcher"})
    run.now_s += 3600
    ((_, each),) = totals(run.state, 0, ms(run.now_s)).items()
    assert (each.gpu_ms, each.gpu_mem_ms) == (0, 6000 * HOUR_MS)


def test_more_names_than_are_kept_apart_in_an_hour_are_others() -> None:
    run = started()
    table = run.state.usage_open.opened()
    hour = ms(run.now_s) // HOUR_MS * HOUR_MS
    for at in range(4 * NAMES_KEPT):
        table.put(f"{hour}\t{Who(f'/{at}', ROLE, 'x').key}", Sum(tasks=1))
    vars(run.state)["usage_open"] = table.closed()
    (task_id,) = run.tasks()
    run.do(status(task_id, "TASK_FAILED", timestamp=run.now_s + 5), after_s=5.0)
    shown = totals(run.state, 0, ms(run.now_s))
    assert {owner.app for owner, each in shown.items() if each.gpu_ms} == {OTHERS}
