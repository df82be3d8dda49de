"""Offers that come while no launch token is left: kept for a moment, used as tokens come back, or given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.marathon.decisions.offer_queue import kept_until_s
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.state.actions import Action, Decline, Launch, Revive
from mesos_gpu.marathon.state.events import Disconnected, Offered, RemoveApp, Rescinded, Tick
from mesos_gpu.marathon.state.state import State
from tests.support.marathon.builders import SETTINGS, Run, app, offer, only, status


def started(actions: Sequence[Action]) -> int:
    return sum(len(launch.task_infos) for launch in only(actions, Launch))


def declined(actions: Sequence[Action]) -> list[str]:
    return [offer_id for decline in only(actions, Decline) for offer_id in decline.offer_ids]


def run_with(*, tokens: int, instances: int, **changes: Any) -> Run:
    run = Run(State(), replace(SETTINGS, launch_tokens=tokens, **changes))
    run.subscribe()
    run.put(app(instances=instances))
    return run


def offers(run: Run, *names: str) -> list[Action]:
    return run.do(Offered([offer(name, agent=f"S{name}", host=f"h{name}") for name in names]))


def queued(run: Run) -> list[str]:
    return [offer.id for offer, _ in run.state.queued]


def running(run: Run, count: int) -> list[Action]:
    """So many tasks that were started come to run."""
    coming = [t for t in run.tasks() if run.state.instances[t.rpartition("._app.")[0]].task.started_at_s is None]
    return [action for task in coming[:count] for action in run.do(status(task))]


def test_offers_wait_for_tokens_and_are_used_when_as_many_are_back_as_one_may_take() -> None:
    run = run_with(tokens=6, instances=20, max_instances_per_offer=3)
    actions = offers(run, "1", "2", "3", "4")
    assert (started(actions), declined(actions), queued(run)) == (6, [], ["3", "4"])
    assert started(running(run, 2)) == 0, "a token each would make an ACCEPT of each, and the rest of it go back"
    actions = running(run, 1)
    assert [(launch.offer_id, len(launch.task_infos)) for launch in only(actions, Launch)] == [("3", 3)]
    assert queued(run) == ["4"]


def test_a_queued_offer_that_is_rescinded_is_gone() -> None:
    run = run_with(tokens=1, instances=9)
    offers(run, "1", "2", "3")
    assert run.do(Rescinded("2")) == []
    assert queued(run) == ["3"]


def test_a_token_comes_back_once_for_each_task() -> None:
    run = run_with(tokens=3, instances=9, max_instances_per_offer=2)
    assert started(offers(run, "1", "2", "3")) == 3
    (first, *_) = run.tasks()
    assert started([*run.do(status(first)), *run.do(status(first)), *run.do(status(first))]) == 0
    assert run.state.tokens.left == 1


def test_no_more_offers_are_kept_than_there_are_instances_that_wait_or_than_the_flag_says() -> None:
    run = run_with(tokens=5, instances=7, max_instances_per_offer=5)
    assert declined(offers(run, *"12345")) == ["4", "5"]
    assert queued(run) == ["2", "3"]
    run = run_with(tokens=5, instances=70, max_instances_per_offer=5, max_queued_offers=1)
    assert declined(offers(run, *"123")) == ["3"]
    run = run_with(tokens=5, instances=70, max_instances_per_offer=5, max_queued_offers=0)
    assert declined(offers(run, *"123")) == ["2", "3"]


def test_what_was_kept_too_long_is_declined_until_there_are_tokens_for_certain() -> None:
    run = run_with(tokens=5, instances=20)
    offers(run, "1", "2")
    at_s = next_tick_s(run.state, run.settings, run.moment)
    assert at_s == run.now_s + 3
    (decline,) = only(run.do(Tick(), after_s=3.0), Decline)
    assert decline.offer_ids == ["2"]
    assert 0 < decline.refuse_s <= 27
    assert not run.state.queued


def test_what_was_kept_too_long_uses_the_tokens_that_are_there_however_few() -> None:
    run = run_with(tokens=5, instances=20)
    offers(run, "1", "2", "3")
    assert started(running(run, 2)) == 0
    actions = run.do(Tick(), after_s=3.0)
    assert (started(actions), declined(actions)) == (2, ["3"])


def test_offers_are_kept_for_longer_while_others_are_used_but_for_half_a_minute_at_most() -> None:
    run = run_with(tokens=5, instances=200, launch_token_refresh_s=1000.0)
    offers(run, *map(str, range(20)))
    for second in range(2, 30, 2):
        assert (started(running(run, 5)), declined(run.do(Tick(), after_s=2.0))) == (5, []), second
    assert queued(run) == [str(at) for at in range(15, 20)]
    actions = [*running(run, 5), *run.do(Tick(), after_s=2.0)]
    assert (started(actions), declined(actions), queued(run)) == (5, ["16", "17", "18", "19"], [])


def test_offers_that_came_later_are_kept_since_they_came() -> None:
    run = run_with(tokens=5, instances=200)
    offers(run, "1", "2", "3")
    run.do(Tick(), after_s=2.0)
    offers(run, "4")
    assert declined(run.do(Tick(), after_s=1.0)) == ["2", "3"]
    assert queued(run) == ["4"]


def test_offers_that_were_declined_for_want_of_tokens_are_asked_for_as_soon_as_some_are_back() -> None:
    run = run_with(tokens=5, instances=20)
    offers(run, "1", "2")
    assert declined(run.do(Tick(), after_s=3.0)) == ["2"]
    assert only(running(run, 4), Revive) == []
    assert only(running(run, 1), Revive) == [Revive()]
    assert only(run.do(Tick(), after_s=1.0), Revive) == [], "once"


def test_offers_that_were_declined_for_want_of_tokens_are_asked_for_before_the_queue_is_empty() -> None:
    run = run_with(tokens=10, instances=200, max_instances_per_offer=2, max_queued_offers=10)
    offers(run, *map(str, range(20)))
    assert (len(queued(run)), run.state.token_short) == (10, True)
    actions = running(run, 10)
    assert (started(actions), only(actions, Revive)) == (10, [])
    assert len(queued(run)) == 5
    actions = running(run, 2)
    assert (only(actions, Revive), len(queued(run))) == ([Revive()], 4)
    assert only(running(run, 4), Revive) == [], "once, until some are declined again"


def test_nothing_is_asked_for_while_nothing_of_the_queue_is_used() -> None:
    run = run_with(tokens=10, instances=200, max_instances_per_offer=2, max_queued_offers=4)
    offers(run, *map(str, range(20)))
    assert (len(queued(run)), run.state.token_short) == (4, True)
    for _ in range(10):
        assert only(run.do(Tick(), after_s=0.2), Revive) == []
    for _ in range(10):
        assert only(run.do(Tick(), after_s=2.0), Revive) == [], "they have timed out, and there are no tokens"


def test_asking_for_what_was_declined_is_rationed_as_all_asking_is() -> None:
    run = run_with(tokens=5, instances=200, max_queued_offers=0)
    asked = 0
    for turn in range(20):
        offers(run, f"{turn}a", f"{turn}b")
        asked += len(only(running(run, 5), Revive))
    assert 0 < asked <= run.settings.revive_burst
    assert run.state.revive_due
    at_s = next_tick_s(run.state, run.settings, run.moment)
    assert at_s is not None
    assert run.now_s < at_s <= run.now_s + run.settings.min_revive_interval_s


def test_what_is_kept_goes_back_when_nothing_waits_any_more() -> None:
    run = run_with(tokens=5, instances=20)
    offers(run, "1", "2")
    actions = run.do(RemoveApp("/a", "dx"))
    assert declined(actions) == ["2"]
    assert only(actions, Decline)[0].refuse_s == run.settings.decline_offer_s
    assert (run.state.queued, run.state.token_short) == ((), False)


def test_what_is_kept_is_forgotten_with_the_subscription() -> None:
    run = run_with(tokens=5, instances=20)
    offers(run, "1", "2")
    assert declined(run.do(Disconnected())) == []
    assert not run.state.queued
    run.subscribe()
    assert started(running(run, 5)) == 0


def test_what_does_not_suit_is_declined_and_not_kept() -> None:
    run = run_with(tokens=5, instances=20)
    actions = run.do(Offered([offer("1"), offer("2", cpus=0, agent="S2", host="h2")]))
    assert (started(actions), queued(run)) == (5, ["2"])
    assert declined(running(run, 5)) == ["2"], "it was not looked at before"


def test_all_offers_are_used_when_the_interval_brings_tokens() -> None:
    run = run_with(tokens=5, instances=100, launch_token_refresh_s=2.0)
    offers(run, "1", "2", "3")
    at_s = next_tick_s(run.state, run.settings, run.moment)
    assert at_s is not None
    assert started(run.do(Tick(), after_s=at_s - run.now_s)) == 5
    assert queued(run) == ["3"]


@given(st.lists(st.sampled_from(["offer", "run", "wait", "late"]), max_size=60), st.integers(1, 6), st.integers(0, 4))
def test_whatever_happens_offers_are_used_or_declined_once_and_tokens_are_kept_to(
    steps: list[str], tokens: int, room: int
) -> None:
    run = run_with(tokens=tokens, instances=30, max_instances_per_offer=2, max_queued_offers=room)
    made: list[str] = []
    ended: list[str] = []
    coming = 0
    for step in steps:
        if step == "offer":
            made += [f"O{len(made)}", f"O{len(made) + 1}"]
            actions = offers(run, *made[-2:])
        elif step == "run":
            actions = running(run, 1)
            coming = max(0, coming - 1)
        else:
            after_s = 1.0 if step == "wait" else 31.0
            actions = run.do(Tick(), after_s=after_s)
            coming = 0 if after_s > 30 or run.state.tokens.left == tokens else coming
        coming += started(actions)
        assert coming <= tokens
        ended += [launch.offer_id for launch in only(actions, Launch)] + declined(actions)
        assert sorted([*ended, *queued(run)]) == sorted(made)
        assert len(run.state.queued) <= room
        assert all(kept_until_s(run.state, run.settings, came_s) > run.now_s for _, came_s in run.state.queued)
        assert all(run.now_s < came_s + 30 for _, came_s in run.state.queued)
