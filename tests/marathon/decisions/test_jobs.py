"""Jobs over any history: schedules, runs, offers, statuses, crashes. Nothing runs twice, nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import Conflict, InvalidApp
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.model.job import read_job, read_schedule
from mesos_gpu.marathon.model.jobs import History, Job, Schedule, new_run_id, run_of, run_spec_id
from mesos_gpu.marathon.state.actions import Kill, Launch, Save, Say
from mesos_gpu.marathon.state.events import (
    FrameworkError,
    Offered,
    PutJob,
    PutSchedule,
    StartRun,
    StopRun,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.state import restored
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.marathon.builders import RULES, SETTINGS, T0, Run, job, offer, only, schedule, status

MINUTE = 60.0


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"id": "j"}, "/run"),
    (job("A"), "/id"),
    (job("a/b"), "/id"),
    ({**job(), "unknown": 1}, "/unknown"),
    (job(cmdd="x"), "/run/cmdd"),
    (job(gpus=0.5), "/run/gpus"),
    (job(mem=1), "/run/mem"),
    (job(cmd=None), "/run"),
    (job(args=["x"]), "/run"),
    (job(gpus=1, docker={"image": "i"}), "/run"),
    (job(docker={"image": "i"}, ucr={"image": {"id": "i"}}), "/run"),
    (job(ucr={"image": {"id": "i"}, "privileged": True}), "/run/ucr/privileged"),
    (job(placement={"constraints": [{"attribute": "a", "operator": "LIKE", "value": "["}]}),
     "/run/placement/constraints(0)"),
    (job(restart={"policy": "ALWAYS"}), "/run/restart/policy"),
    (job(volumes=[{"containerPath": "a", "secret": "s"}]), "/run/volumes(0)"),
    ({**job(), "schedules": [schedule(cron="x")]}, "/schedules(0)/cron"),
    ({**job(), "schedules": [schedule(timezone="X")]}, "/schedules(0)/timezone"),
    ({**job(), "schedules": [schedule(), schedule()]}, "/schedules"),
    ({**job(), "schedules": [schedule(concurrencyPolicy="REPLACE")]}, "/schedules(0)/concurrencyPolicy"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "path"), REFUSED)
def test_what_is_refused_and_where(document: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidApp) as refused:
        read_job(document, RULES)
    assert path in [problem.path for problem in refused.value.problems]


def test_what_is_wrong_with_a_schedule_alone_is_told_by_its_own_paths() -> None:
    with pytest.raises(InvalidApp) as refused:
        read_schedule(schedule(enabled="yes"))
    assert [problem.path for problem in refused.value.problems] == ["/enabled"]
    assert read_schedule(schedule(timeZone="Europe/Berlin")).timezone == "Europe/Berlin"


@given(st.integers(0, 2**128))
def test_ids_of_runs_are_never_those_of_apps(number: int) -> None:
    run_id = new_run_id("20261121160000", number)
    assert run_of(run_spec_id("a.b", run_id)) == ("a.b", run_id)
    assert run_of("/a/b") is None
    assert run_of("/a") is None


def test_of_missed_times_only_the_last_that_is_not_too_late_counts() -> None:
    waits = Schedule("s", "*/10 * * * *", "UTC", 900, "ALLOW", True, 600.0)
    assert waits.latest(599.0) is None
    assert waits.latest(600.0) == 600.0
    assert waits.latest(1900.0) == 1800.0
    assert waits.latest(1e9 + 500) == pytest.approx(1e9 + 500 - (1e9 + 500) % 600)
    hourly = Schedule("s", "0 * * * *", "UTC", 60, "ALLOW", True, 3600.0)
    assert hourly.latest(3661.0) is None, "too late"


def test_a_history_counts_all_and_keeps_the_last() -> None:
    known = Job({"id": "j"}, history=History())
    run = Run()
    run.do(PutJob(job()))
    for n in range(12):
        run.do(StartRun("j", new_run_id("20261121160000", n)))
        (under_way,) = run.state.lasting.jobs["j"].runs.values()
        known = known.with_run(under_way).finished(under_way, T0 + n, success=n % 2 == 0)
        run.do(StopRun("j", under_way.id))
    assert (known.history.successes, known.history.failures) == (6, 6)
    stopped = run.state.lasting.jobs["j"].history
    assert (stopped.failures, len(stopped.failed)) == (12, 10)
    assert stopped.failed[0].id == new_run_id("20261121160000", 11)


class JobRun(Run):
    """A scheduler with one job, and what its runs have come to."""

    def begin(self, **run: Any) -> None:
        self.subscribe()
        self.do(PutJob(job(**run)))

    @property
    def job(self) -> Job:
        return self.state.lasting.jobs["j"]

    def launch(self, gpus: int = 0) -> list[str]:
        return [task_id for launch in only(self.offer(gpus=gpus), Launch) for task_id in launch.task_ids]

    def start(self, number: int = 1) -> None:
        self.do(StartRun("j", new_run_id("20261121160000", number)))

    def crash(self) -> None:
        self.state = restored(self.state.lasting)
        self.do(Subscribed("F", "m", again=True))

    @property
    def outcome(self) -> tuple[int, int, int]:
        history = self.job.history
        return len(self.job.runs), history.successes, history.failures


def test_a_run_that_ends_well_is_a_success_and_leaves_nothing() -> None:
    run = JobRun()
    run.begin(gpus=1)
    run.start()
    (task,) = run.launch(gpus=1)
    run.do(status(task))
    assert run.outcome == (1, 0, 0)
    actions = run.do(status(task, "TASK_FINISHED"))
    assert run.outcome == (0, 1, 0)
    assert isinstance(actions[0], Save)
    assert actions[0].jobs["j"] is run.job
    assert run.state.lasting.instances == {}
    assert run.launch() == []
    assert run.job.history.succeeded[0].tasks[0].state == "TASK_FINISHED"


def test_no_two_runs_of_a_job_have_one_id() -> None:
    run = Run(settings=SETTINGS)
    run.subscribe()
    run.do(PutJob(job("j")))
    run.do(StartRun("j", "Ra"))
    before = run.state
    with pytest.raises(Conflict):
        run.do(StartRun("j", "Ra"), after_s=1.0)
    assert run.state.jobs == before.jobs


@pytest.mark.parametrize("end", ["TASK_FAILED", "TASK_KILLED", "TASK_LOST", "TASK_ERROR", "TASK_GONE_BY_OPERATOR"])
def test_a_run_that_ends_badly_has_failed_unless_it_is_to_start_anew(end: str) -> None:
    never = JobRun()
    never.begin()
    never.start()
    (task,) = never.launch()
    never.do(status(task))
    never.do(status(task, end))
    assert never.outcome == (0, 0, 1)
    assert never.launch() == []
    anew = JobRun()
    anew.begin(restart={"policy": "ON_FAILURE", "activeDeadlineSeconds": 100})
    anew.start()
    (task,) = anew.launch()
    anew.do(status(task))
    anew.do(status(task, end))
    assert anew.outcome == (1, 0, 0)
    anew.do(Tick(), after_s=10)
    (again,) = anew.launch()
    assert again != task
    anew.do(status(again), after_s=100)
    anew.do(status(again, end))
    assert anew.outcome == (0, 0, 1)
    assert anew.launch() == []


def test_what_certainly_never_started_starts_all_the_same() -> None:
    run = JobRun()
    run.begin()
    run.start()
    (task,) = run.launch()
    run.crash()
    run.do(status(task, "TASK_GONE", reason="REASON_RECONCILIATION"))
    assert run.outcome == (1, 0, 0)
    run.do(Tick(), after_s=2)
    (again,) = run.launch()
    run.do(status(again))
    run.do(status(again, "TASK_GONE", reason="REASON_RECONCILIATION"))
    assert run.outcome == (0, 0, 1), "that one had run"


def test_what_a_master_knows_may_have_started() -> None:
    # Its agent's machine was restarted: all that is known there is that it does not run any more.
    run = JobRun()
    run.begin()
    run.start()
    (task,) = run.launch()
    run.do(status(task, "TASK_GONE", reason="REASON_RECONCILIATION", message="Reconciliation: Latest task state"))
    assert run.outcome == (0, 0, 1)


@pytest.mark.parametrize("running", [True, False])
def test_a_run_whose_framework_was_removed_is_not_carried_out_twice(running: bool) -> None:
    # Marathon was cut off from the master for longer than its failover timeout. The task may have ended well meanwhile.
    never = JobRun()
    never.begin()
    never.start()
    (task,) = never.launch()
    if running:
        never.do(status(task))
    never.do(FrameworkError("Framework has been removed"))
    assert never.outcome == (0, 0, 1)
    never.subscribe()
    assert never.launch() == []
    anew = JobRun()
    anew.begin(restart={"policy": "ON_FAILURE"})
    anew.start()
    (task,) = anew.launch()
    anew.do(FrameworkError("Framework has been removed"))
    anew.subscribe()
    assert anew.outcome == (1, 0, 0)
    anew.do(Tick(), after_s=10)
    assert len(anew.launch()) == 1


def test_a_run_on_a_lost_machine_is_not_started_a_second_time() -> None:
    run = JobRun()
    run.begin(restart={"policy": "ON_FAILURE"})
    run.start()
    (task,) = run.launch()
    run.do(status(task))
    run.do(status(task, "TASK_UNREACHABLE"))
    run.do(Tick(), after_s=10_000)
    assert run.launch() == []
    run.do(status(task))
    run.do(status(task, "TASK_FINISHED"))
    assert run.outcome == (0, 1, 0)


def test_a_stopped_run_has_failed_and_its_task_is_ended() -> None:
    run = JobRun()
    run.begin()
    run.start()
    (task,) = run.launch()
    run.do(status(task))
    (run_id,) = run.job.runs
    assert [kill.task_id for kill in only(run.do(StopRun("j", run_id)), Kill)] == [task]
    assert run.outcome == (0, 0, 1)
    run.do(status(task, "TASK_KILLED"))
    assert run.outcome == (0, 0, 1)
    assert run.state.lasting.instances == {}


def test_schedules_start_runs_when_it_is_time_and_not_while_forbidden() -> None:
    run = JobRun(now_s=T0 - T0 % MINUTE + 1)
    run.begin()
    run.do(PutSchedule("j", schedule(concurrencyPolicy="FORBID")))
    run.do(PutSchedule("j", schedule("off", enabled=False)))
    assert run.job.next_event_s() == run.now_s + 59
    at_s = next_tick_s(run.state, SETTINGS, run.moment)
    assert at_s is not None
    assert at_s <= run.now_s + 59
    run.do(Tick(), after_s=58)
    assert run.outcome == (0, 0, 0)
    run.do(Tick(), after_s=1)
    assert run.outcome == (1, 0, 0)
    (task,) = run.launch()
    run.do(Tick(), after_s=MINUTE)
    assert run.outcome == (1, 0, 0), "FORBID"
    run.do(status(task, "TASK_FINISHED"))
    run.do(Tick(), after_s=MINUTE)
    assert run.outcome == (1, 1, 0)


def test_a_scheduled_run_that_cannot_start_in_time_has_failed() -> None:
    run = JobRun(now_s=T0 - T0 % MINUTE)
    run.begin()
    run.do(PutSchedule("j", schedule(cron="* * * * *", startingDeadlineSeconds=30)))
    run.do(Tick(), after_s=MINUTE)
    assert run.outcome == (1, 0, 0)
    run.do(Tick(), after_s=31)
    assert run.outcome == (0, 0, 1)
    assert run.launch() == []
    run.do(Tick(), after_s=10 * MINUTE + 14)
    assert run.outcome == (0, 0, 1), "missed by more than 30 seconds"


YEARS = 10 * 365 * 24 * 3600.0


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_was_ahead_and_is_put_right_keeps_no_run_waiting(restarts: bool, golden: Golden) -> None:
    run = JobRun(now_s=T0 - T0 % MINUTE + 1)
    run.begin()
    run.do(PutSchedule("j", schedule(concurrencyPolicy="ALLOW")))
    run.do(Tick(), after_s=YEARS)
    assert run.outcome == (1, 0, 0)
    assert run.job.next_event_s() == pytest.approx(run.now_s, abs=1000), "of that time"
    run.now_s -= YEARS
    if restarts:
        run.crash()
    said = only(run.do(Tick()), Say)
    assert said[-1].text == golden
    (waits,) = run.job.schedules.values()
    assert waits.next_s == run.now_s + 59
    run.do(Tick(), after_s=60)
    assert run.outcome == (2, 0, 0)


def test_a_clock_that_goes_back_a_little_repeats_no_run() -> None:
    run = JobRun(now_s=T0 - T0 % MINUTE + 1)
    run.begin()
    run.do(PutSchedule("j", schedule(concurrencyPolicy="ALLOW")))
    run.do(Tick(), after_s=60)
    assert run.outcome == (1, 0, 0)
    run.do(Tick(), after_s=-120)
    run.do(Tick(), after_s=100)
    assert run.outcome == (1, 0, 0)


EVENTS = st.sampled_from(
    ["tick", "late", "offer", "dropped", "run", "finish", "fail", "again", "crash", "start", "stop"]
)


class JobHistory:
    """A job in a world where anything may happen; notes which tasks its runs had."""

    def __init__(self, policy: str, concurrency: str) -> None:
        self.run = JobRun()
        self.run.begin(restart={"policy": policy})
        self.run.do(PutSchedule("j", schedule(concurrencyPolicy=concurrency)))
        self.living: dict[str, str] = {}
        """The task of each run that has one."""
        self.tasks_ever: dict[str, list[str]] = {}
        self.runs_asked = 0

    def happen(self, event: str) -> None:
        run = self.run
        if event == "tick":
            run.do(Tick(), after_s=30)
        elif event == "late":
            run.do(Tick(), after_s=5000)
        elif event == "offer":
            self._note_launched(run.launch())
        elif event == "dropped":
            for task_id in run.launch():
                run.do(status(task_id, "TASK_DROPPED"))
        elif event == "start":
            self.runs_asked += 1
            run.start(self.runs_asked)
        elif event == "crash":
            run.crash()
        elif event == "stop" and run.job.runs:
            run.do(StopRun("j", next(iter(run.job.runs))))
        elif event in ("run", "finish", "fail", "again") and self.living:
            self._tell_of_first_task(event)

    def _note_launched(self, task_ids: list[str]) -> None:
        for task_id in task_ids:
            run_id = task_id.split(".instance-")[0]
            assert run_id not in self.living, "two tasks of one run"
            self.living[run_id] = task_id
            self.tasks_ever.setdefault(run_id, []).append(task_id)

    def _tell_of_first_task(self, event: str) -> None:
        run_id, task_id = next(iter(self.living.items()))
        state = {"finish": "TASK_FINISHED", "fail": "TASK_FAILED"}.get(event, "TASK_RUNNING")
        if state != "TASK_RUNNING":
            del self.living[run_id]
        self.run.do(status(task_id, state))
        if event != "again":
            self.run.do(status(task_id, state))

    def behave(self) -> None:
        """Let the world behave: what is under way comes to its end."""
        run = self.run
        run.do(PutSchedule("j", schedule(enabled=False), create=False))
        for _ in range(100):
            run.do(Tick(), after_s=400)
            run.do(Offered([offer(f"X{run.now_s}", cpus=100, mem=100_000)]))
            for instance in list(run.state.instances.values()):
                if instance.task is not None:
                    run.do(status(instance.task.id))
                    run.do(status(instance.task.id, "TASK_FINISHED"))
            if not run.job.runs:
                break


@settings(max_examples=examples(300))
@given(st.lists(EVENTS, max_size=40), st.sampled_from(["NEVER", "ON_FAILURE"]), st.sampled_from(["ALLOW", "FORBID"]))
def test_nothing_runs_twice_and_nothing_is_lost(events: list[str], policy: str, concurrency: str) -> None:
    """Whatever happens, with crashes at any point: a run has one living task at most, NEVER means one task ever."""
    history = JobHistory(policy, concurrency)
    run = history.run
    for event in events:
        history.happen(event)
        if concurrency == "FORBID" and not history.runs_asked:
            assert len(run.job.runs) <= 1
        assert restored(run.state.lasting).lasting == run.state.lasting
    if policy == "NEVER":
        assert all(len(tasks) == 1 for tasks in history.tasks_ever.values())
    ended = run.job.history
    assert len(run.job.runs) + ended.successes + ended.failures >= history.runs_asked
    history.behave()
    assert run.job.runs == {}
    assert not run.state.instances
