"""Agents that do not answer when they are asked to suspend and resume tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.decisions.suspending import IN_VAIN_S, LOOK_S
from mesos_gpu.marathon.model.asking import FIRST_S, LATE_S, LONGEST_S, MOST, SILENT_S, is_over, patience_s, silence
from mesos_gpu.marathon.model.instances import ASKED, AWAY, COMING
from mesos_gpu.marathon.state.actions import Action, Kill
from mesos_gpu.marathon.state.events import Subscribed, Tick
from mesos_gpu.marathon.views.views import queue_view
from mesos_gpu.marathon.why.suspended import giving_way_words, suspended_words
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.shares.suspending import AT_WORK, NOT_SUSPENDED, RESUMED, SUSPENDED
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.marathon.builders import Run, only, status
from tests.support.marathon.suspending import (
    CHEAP,
    DEAR,
    HIGH,
    SHARED,
    card_offered,
    changes,
    contended,
    contended_card,
    refusal,
    shown,
    suspension,
    told,
    word,
)

NO_WORD = silence(MOST)


def ticks(run: Run, until_s: float) -> list[tuple[float, Action]]:
    """Let time pass as the clock is set, and no further; return what was done, and how much later."""
    begin_s, done = run.moment.now_s, []
    while True:
        at_s = next_tick_s(run.state, SHARED, run.moment)
        if at_s is None or at_s > begin_s + until_s:
            return done
        actions = run.do(Tick(), after_s=max(0.0, at_s - run.moment.now_s))
        done += [(round(run.moment.now_s - begin_s, 3), action) for action in actions]


def asks(done: Sequence[tuple[float, Action]], what: str) -> list[float]:
    return [at_s for at_s, action in done if told([action]) and told([action])[0][1] == what]


@given(st.integers(0, 10_000))
def test_it_is_asked_less_and_less_often_but_never_less_than_that(number: int) -> None:
    assert FIRST_S <= patience_s(number) <= patience_s(number + 1) <= LONGEST_S
    assert is_over(ASKED, number) == (number >= MOST)
    assert not is_over(COMING, number), "a task that is away cannot be given up"
    assert not is_over(AWAY, number)


def test_the_silence_is_told_in_words(golden: Golden) -> None:
    assert silence(1) == golden
    assert golden == NO_WORD


def test_a_task_with_gpus_whose_agent_is_silent_is_ended_for_who_still_waits(golden: Golden) -> None:
    run, task, _ = contended()
    done = ticks(run, 200.0)
    assert asks(done, "mesos-gpu suspend") == [15.0, 45.0]
    assert next((at_s, kill.task_id) for at_s, kill in done if isinstance(kill, Kill)) == (105.0, task)
    said = [(kind, more["reason"]) for kind, more in changes([action for _, action in done])]
    assert said == [
        ("instance_not_suspended_event", NO_WORD),
        ("instance_preempted_event", golden),
    ]


def test_it_is_said_meanwhile_that_it_does_not_answer(golden: Golden) -> None:
    run, _, _ = contended()
    assert "unanswered" not in shown(run)["suspension"]
    assert suspended_words({"tasks": [shown(run)]}) == golden
    ticks(run, 20.0)
    assert shown(run)["suspension"]["unanswered"] == 1
    assert suspended_words({"tasks": [shown(run)]}) == golden
    (queued,) = queue_view(run.state, run.moment)
    assert giving_way_words({}, queued) == golden


def test_a_task_with_a_part_runs_on_and_is_left_alone_for_ten_minutes() -> None:
    run, task, _ = contended_card()
    done = ticks(run, 200.0)
    assert (asks(done, "mesos-gpu suspend"), only([action for _, action in done], Kill)) == ([15.0, 45.0], [])
    assert (suspension(run, "/part"), refusal(run, "/part")["reason"]) == (None, NO_WORD)
    card_offered(run, "O3", (10, 15))
    assert told(run.do(Tick(), after_s=IN_VAIN_S)) == []
    run.do(Tick(), after_s=SILENT_S)
    card_offered(run, "O4", (10, 15))
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu suspend")]


def test_an_agent_that_says_that_it_is_at_work_is_waited_for() -> None:
    run, task, _ = contended()
    for _ in range(20):
        done = ticks(run, 15.0)
        assert asks(done, "mesos-gpu suspend") == [15.0]
        assert only([action for _, action in done], Kill) == []
        run.do(word(task, f"{AT_WORK}what it has on GPUs is being put away"))
    assert "unanswered" not in shown(run)["suspension"]
    run.do(word(task, f"{SUSPENDED}..."))
    assert suspension(run) == "suspended"
    run.do(word(task, f"{AT_WORK}..."))
    assert suspension(run) == "suspended", "a late word changes nothing"


def test_what_is_suspended_after_all_is_for_who_asked_and_had_again_when_that_is_gone() -> None:
    run, task, _ = contended_card()
    ticks(run, 110.0)
    (event,) = changes(run.do(word(task, f"{SUSPENDED}...")))
    assert event == ("instance_suspended_event", {"taskId": task, "takenBy": "/high", "gpus": 0})
    assert refusal(run, "/part") is None
    run.put(HIGH | {"instances": 0}, force=True)
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]


def test_a_reason_that_comes_after_all_takes_the_place_of_silence() -> None:
    run, task, _ = contended_card()
    ticks(run, 110.0)
    ((kind, more),) = changes(run.do(word(task, f"{NOT_SUSPENDED}no driver")))
    assert (kind, more["takenBy"], more["reason"]) == ("instance_not_suspended_event", "/high", "no driver")
    assert (refusal(run, "/part")["reason"], refusal(run, "/part")["for"]) == ("no driver", "/high")
    assert changes(run.do(word(task, f"{NOT_SUSPENDED}no driver"))) == []


def test_a_second_message_that_was_on_its_way_when_the_first_was_refused_suspends_for_who_asked() -> None:
    run, task, _ = contended_card()
    run.do(word(task, f"{NOT_SUSPENDED}it has not ended its kernels"))
    run.do(Tick(), after_s=LATE_S / 2)
    ((_, more),) = changes(run.do(word(task, f"{SUSPENDED}...")))
    assert more["takenBy"] == "/high"

    run, task, _ = contended_card()
    run.do(word(task, f"{NOT_SUSPENDED}it has not ended its kernels"))
    run.do(Tick(), after_s=LATE_S)
    ((_, more),) = changes(run.do(word(task, f"{SUSPENDED}...")))
    assert "takenBy" not in more, "that long afterwards somebody has done it by hand"


def test_a_resumption_is_asked_for_as_long_as_it_takes_and_the_silence_told_once(golden: Golden) -> None:
    run, task, _ = contended()
    run.do(word(task, f"{SUSPENDED}..."))
    run.put(DEAR | {"instances": 0}, force=True)
    done = ticks(run, 3600.0)
    at = asks(done, "mesos-gpu resume")
    pauses = [after - before for before, after in pairwise(at)]
    assert pauses[:5] == [15.0, 30.0, 60.0, 120.0, 240.0]
    assert set(pauses[5:]) == {LONGEST_S}
    ((kind, more),) = changes([action for _, action in done])
    assert (kind, more["reason"]) == ("instance_not_resumed_event", NO_WORD)
    assert (suspension(run), refusal(run)["what"]) == ("resuming", "resume")
    assert suspended_words({"tasks": [shown(run)]}) == golden
    run.do(word(task, f"{RESUMED}GPU 0 (GPU-a)"))
    assert (suspension(run), refusal(run)) == (None, None)


def test_an_agent_that_was_away_and_a_master_that_was_are_asked_anew() -> None:
    patient = {"unreachableStrategy": {"inactiveAfterSeconds": 900, "expungeAfterSeconds": 1800}}
    run, task, _ = contended(CHEAP | patient)
    ticks(run, 50.0)
    run.do(status(task, "TASK_UNREACHABLE"))
    assert told([action for _, action in ticks(run, 600.0)]) == []
    assert told(run.do(status(task))) == [(task, "mesos-gpu suspend")]
    assert "unanswered" not in shown(run)["suspension"]
    ticks(run, 50.0)
    assert shown(run)["suspension"]["unanswered"] == 2
    again = run.do(Subscribed(FrameworkId("F"), "master:5050", again=True))
    assert told(again) == [(task, "mesos-gpu suspend")]
    assert "unanswered" not in shown(run)["suspension"]


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from(["", "", AT_WORK, NOT_SUSPENDED]), st.floats(0.0, 300.0)), max_size=8))
def test_whatever_an_agent_says_nobody_is_asked_more_often_than_is_allowed(words: list[tuple[str, float]]) -> None:
    run, task, _ = contended_card()
    begin_s, at = run.moment.now_s, []
    for said, pause_s in words:
        if said:
            run.do(word(task, said))
        before_s = run.moment.now_s - begin_s
        at += [before_s + at_s for at_s in asks(ticks(run, pause_s), "mesos-gpu suspend")]
        run.do(Tick(), after_s=max(0.0, begin_s + before_s + pause_s - run.moment.now_s))
    assert all(after - before >= FIRST_S for before, after in pairwise(at))
