"""A clock that was ahead, and is put right: what waited by it continues."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.state.actions import Decline, Kill, Launch, Reconcile, Revive
from mesos_gpu.marathon.state.events import KillTasks, Offered, RemoveApp, Tick
from mesos_gpu.marathon.state.state import restored
from tests.support.marathon.builders import SETTINGS, Run, app, offer, only, status
from tests.support.marathon.residents import SHARED, Agent, one, resident

YEARS = 10 * 365 * 24 * 3600.0


def ahead(**settings: float) -> Run:
    """A scheduler whose clock is ten years ahead, with one app that runs."""
    run = Run(settings=replace(SETTINGS, **settings))  # type: ignore[arg-type]
    run.now_s += YEARS
    run.subscribe()
    run.put(app(backoffSeconds=60))
    run.offer()
    (task,) = run.tasks()
    run.do(status(task), after_s=1)
    return run


def tick_in_s(run: Run) -> float:
    return (next_tick_s(run.state, run.settings, run.moment) or inf) - run.now_s


def test_an_app_in_backoff_starts_again() -> None:
    run = ahead()
    run.do(status(run.tasks()[0], "TASK_FAILED"), after_s=1)
    run.now_s -= YEARS
    run.do(Tick())
    assert only(run.offer(), Launch) == []
    run.do(Tick(), after_s=61)
    assert len(only(run.offer(), Launch)) == 1


def test_a_kill_without_answer_is_asked_for_again() -> None:
    run = ahead()
    (task,) = run.tasks()
    assert only(run.do(KillTasks([task], "d")), Kill)
    run.now_s -= YEARS
    run.do(Tick())
    assert [kill.task_id for kill in only(run.do(Tick(), after_s=SETTINGS.kill_retry_s), Kill)] == [task]


def test_tasks_are_asked_about_and_offers_asked_for() -> None:
    run = ahead(reconcile_interval_s=600.0)
    run.do(Tick(), after_s=600)
    run.now_s -= YEARS
    run.do(Tick())
    assert only(run.do(Tick(), after_s=600), Reconcile)
    assert only(run.put(app("/b")), Revive)


def test_offers_are_asked_for_also_when_no_tick_has_come_since() -> None:
    run = ahead()
    for n in range(SETTINGS.revive_burst):
        run.put(app(f"/b{n}"))
    run.now_s -= YEARS
    if not only(run.put(app("/late")), Revive):
        assert tick_in_s(run) <= SETTINGS.revive_burst * SETTINGS.min_revive_interval_s
        run.do(Tick(), after_s=tick_in_s(run))
    assert not run.state.revive_due


def test_what_is_due_soon_is_not_put_off_by_what_happens_before_the_next_tick() -> None:
    run = ahead()
    (task,) = run.tasks()
    assert only(run.do(KillTasks([task], "d")), Kill)
    run.now_s -= YEARS
    run.put(app("/b"))
    assert tick_in_s(run) <= SETTINGS.kill_retry_s


def test_instances_are_started_though_all_tokens_were_taken() -> None:
    run = ahead(launch_tokens=1)
    run.put(app("/b", instances=2))
    run.offer()
    run.now_s -= YEARS
    run.do(Tick())
    assert len(only(run.offer(), Launch)) == 1


def test_offers_that_are_held_are_used() -> None:
    run = ahead(gpu_behaviour=GpuBehaviour.UNRESTRICTED, offer_window_s=0.2)  # type: ignore[arg-type]
    run.do(Offered([offer(f"O{n}", agent=f"S{n}", host=f"h{n}", gpus=2) for n in (1, 2)]))
    run.put(app("/b", gpus=1))
    held = run.do(Offered([offer("O3", agent="S1", host="h1", gpus=2)]))
    assert only(held, Launch) == only(held, Decline) == []
    run.now_s -= YEARS
    run.do(Tick())
    assert len(only(run.do(Tick(), after_s=0.3), Launch)) == 1


def test_a_task_that_is_away_is_replaced_in_time() -> None:
    run = ahead()
    strategy = {"inactiveAfterSeconds": 60, "expungeAfterSeconds": 600}
    run.put(app("/b", unreachableStrategy=strategy))
    run.offer()
    (task,) = run.tasks("/b")
    run.do(status(task), after_s=1)
    run.do(status(task, "TASK_UNREACHABLE"), after_s=1)
    run.now_s -= YEARS
    run.do(Tick())
    assert only(run.offer(), Launch) == []
    run.do(Tick(), after_s=61)
    assert len(only(run.offer(), Launch)) == 1


def test_a_volume_that_was_never_made_is_made_elsewhere() -> None:
    run = Run(settings=SHARED)
    run.now_s += YEARS
    run.subscribe()
    run.put(resident())
    assert only(run.offer(), Launch)  # and what was to be reserved is lost on its way
    first = one(run).id
    run.now_s -= YEARS
    run.do(Tick())
    run.do(Tick(), after_s=SHARED.reservation_timeout_s + 1)
    assert one(run).id != first


def test_what_was_given_back_is_forgotten_in_time() -> None:
    run = Run(settings=SHARED)
    run.now_s += YEARS
    run.subscribe()
    agent = Agent(run)
    run.put(resident())
    agent.settle()
    run.do(RemoveApp("/a", "d"))
    agent.end(next(iter(agent.tasks)), "TASK_KILLED")
    agent.settle()
    assert run.state.lasting.instances
    run.now_s -= YEARS
    run.do(Tick())
    assert not run.state.instances_of("/a")
    run.do(Tick(), after_s=SHARED.reservation_timeout_s + 1)
    assert not run.state.instances_of("/a")
    assert not run.state.lasting.instances


def test_a_task_runs_for_as_long_as_it_may_and_no_longer() -> None:
    run = ahead()
    run.put(app("/b", maxRuntimeSeconds=100))
    run.offer()
    (task,) = run.tasks("/b")
    run.do(status(task), after_s=1)
    run.now_s -= YEARS
    run.do(Tick())
    assert only(run.do(Tick(), after_s=90), Kill) == []
    assert [kill.task_id for kill in only(run.do(Tick(), after_s=11), Kill)] == [task]


def test_who_has_waited_longest_is_still_first_also_after_a_restart() -> None:
    for again in (False, True):
        run = ahead()
        run.put(app("/b", cpus=4, priority=0))
        run.now_s -= YEARS
        if again:
            run.state = restored(run.state.lasting)
            run.subscribe()
        run.do(Tick())
        run.do(Tick(), after_s=5)
        run.put(app("/c", cpus=4, priority=0))
        run.do(Tick(), after_s=5)
        (launch,) = only(run.offer(cpus=4), Launch)
        assert launch.task_infos[0]["name"] == "b"
