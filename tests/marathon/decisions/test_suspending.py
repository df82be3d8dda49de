"""Tasks whose GPUs are put away for an app of higher priority, and had again: by the agent's word alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.decisions.suspending import IN_VAIN_S, LOOK_S, OFFERED_S
from mesos_gpu.marathon.model.asking import FIRST_S
from mesos_gpu.marathon.state.actions import Action, Decline, Kill, Launch
from mesos_gpu.marathon.state.events import RemoveApp, Tick
from mesos_gpu.marathon.views.views import app_view
from mesos_gpu.mesos.shares.suspending import NOT_RESUMED, NOT_SUSPENDED, RESUMED, SUSPENDED
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, app, only, status
from tests.support.marathon.suspending import (
    CHEAP,
    DEAR,
    HIGH,
    PART,
    SHARED,
    card_offered,
    changes,
    contended,
    contended_card,
    offered,
    refusal,
    running,
    suspension,
    told,
    word,
)


def test_gpus_are_put_away_used_by_the_other_and_had_again() -> None:
    run, task, actions = contended()
    assert (told(actions), only(actions, Kill)) == ([(task, "mesos-gpu suspend")], [])
    assert changes(actions) == [], "it is told when the agent has done it"
    assert suspension(run) == "asked"
    assert told(run.do(Tick(), after_s=4.0)) == [], "once is enough"
    (told_of,) = changes(run.do(word(task, f"{SUSPENDED}...")))
    assert told_of == ("instance_suspended_event", {"taskId": task, "takenBy": "/dear", "gpus": 1})
    assert suspension(run) == "suspended"
    assert changes(run.do(word(task, f"{SUSPENDED}..."))) == [], "agents may say so again"
    (launch,) = only(offered(run, "O3"), Launch)
    assert launch.task_infos[0]["name"] == "dear"
    (taker,) = run.tasks("/dear")
    run.do(status(taker))
    assert told(run.do(Tick(), after_s=LOOK_S)) == [], "it is needed"

    run.put(DEAR | {"instances": 0}, force=True)
    run.do(status(taker, "TASK_KILLED"))
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]
    no = "Requested 1 gpus but only 0 available"
    (told_of,) = changes(run.do(word(task, NOT_RESUMED + no)))
    mine = {"taskId": task, "takenBy": "/dear", "gpus": 1}
    assert told_of == ("instance_not_resumed_event", mine | {"reason": no})
    assert suspension(run) == "suspended"
    assert (refusal(run)["what"], refusal(run)["reason"]) == ("resume", no)
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]
    assert changes(run.do(word(task, NOT_RESUMED + no))) == [], "it is asked every two seconds, and told once"
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]
    assert changes(run.do(word(task, f"{RESUMED}GPU 0 (GPU-a)"))) == [("instance_resumed_event", mine)]
    assert (suspension(run), refusal(run)) == (None, None)
    assert run.tasks("/cheap") == [task], "it has run all the while"


def test_a_message_that_was_lost_is_sent_again_and_the_clock_is_set_for_it() -> None:
    run, task, _ = contended()
    due_s = next_tick_s(run.state, SHARED, run.moment)
    assert due_s is not None
    assert told(run.do(Tick(), after_s=FIRST_S)) == [(task, "mesos-gpu suspend")]
    run.do(word(task, f"{SUSPENDED}..."))
    run.put(DEAR | {"instances": 0}, force=True)
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]
    assert told(run.do(Tick(), after_s=FIRST_S)) == [(task, "mesos-gpu resume")]


def test_what_the_agent_cannot_put_away_is_ended_instead(golden: Golden) -> None:
    run, task, _ = contended()
    actions = run.do(word(task, f"{NOT_SUSPENDED}no driver"))
    assert [kill.task_id for kill in only(actions, Kill)] == [task]
    assert changes(actions) == [
        ("instance_not_suspended_event", {"taskId": task, "takenBy": "/dear", "gpus": 1, "reason": "no driver"}),
        (
            "instance_preempted_event",
            {"taskId": task, "takenBy": "/dear", "gpus": 1, "reason": golden},
        ),
    ]
    cheap = run.state.app("/cheap")
    assert cheap is not None
    message = app_view(run.state, cheap, ["lastTaskFailure"])["lastTaskFailure"]["message"]
    assert message == golden


def test_what_cannot_be_put_away_runs_on_where_nobody_waits_for_it_any_more() -> None:
    run, task, _ = contended()
    run.put(DEAR | {"instances": 0}, force=True)
    actions = run.do(word(task, f"{NOT_SUSPENDED}no driver"))
    assert (only(actions, Kill), [kind for kind, _ in changes(actions)]) == ([], ["instance_not_suspended_event"])
    assert (suspension(run), refusal(run)["reason"], refusal(run)["for"]) == (None, "no driver", "/dear")


def test_a_late_word_about_resuming_puts_nothing_away_that_was_only_asked_for() -> None:
    run, task, _ = contended()
    assert changes(run.do(word(task, f"{NOT_RESUMED}it is not suspended"))) == []
    assert suspension(run) == "asked"


def test_words_about_what_nobody_asked_for_change_nothing() -> None:
    run, task = running()
    for message in (f"{RESUMED}GPU 0", f"{NOT_SUSPENDED}x", "hello"):
        assert told(run.do(word(task, message))) == []
        assert suspension(run) is None


def test_what_somebody_suspends_by_hand_is_known_and_left_to_him() -> None:
    run, task = running()
    due_s = next_tick_s(run.state, run.settings, run.moment)
    actions = run.do(word(task, f"{SUSPENDED}what it has is put away"))
    assert changes(actions) == [("instance_suspended_event", {"taskId": task, "gpus": 1})]
    assert suspension(run) == "suspended"
    assert next_tick_s(run.state, run.settings, run.moment) == due_s, "nothing is to be done about it"
    for _ in range(3):
        assert told(run.do(Tick(), after_s=IN_VAIN_S)) == []
    run.put(DEAR)
    assert only(offered(run, "O2"), Launch), "its GPU is another's meanwhile"
    assert told(run.do(Tick(), after_s=IN_VAIN_S)) == []
    run.do(word(task, f"{NOT_RESUMED}no GPU is free"))
    assert suspension(run) == "suspended"
    assert refusal(run)["reason"] == "no GPU is free"
    assert changes(run.do(word(task, f"{RESUMED}GPU 0 (GPU-x)"))) == [
        ("instance_resumed_event", {"taskId": task, "gpus": 1})
    ]
    assert suspension(run) is None


def test_without_the_label_it_is_ended() -> None:
    _, task, actions = contended(CHEAP | {"labels": {}})
    assert [kill.task_id for kill in only(actions, Kill)] == [task]


def test_a_task_whose_gpus_alone_do_not_help_is_ended_after_a_while(golden: Golden) -> None:
    run, task, _ = contended(CHEAP | {"cpus": 3.9}, DEAR | {"cpus": 3.9})
    run.do(word(task, f"{SUSPENDED}..."))
    offered(run, "O3", cpus=0.1)
    assert only(run.do(Tick(), after_s=IN_VAIN_S / 2), Kill) == []
    actions = run.do(Tick(), after_s=IN_VAIN_S / 2)
    assert [kill.task_id for kill in only(actions, Kill)] == [task]
    ((kind, said),) = changes(actions)
    assert (kind, said["reason"]) == ("instance_preempted_event", golden)


def test_a_preemptible_part_is_put_away_for_one_of_high_priority_and_had_again() -> None:
    run, task, actions = contended_card()
    assert (told(actions), only(actions, Kill)) == ([(task, "mesos-gpu suspend")], [])
    assert told(run.do(Tick(), after_s=LOOK_S)) == [], "once is enough"
    run.do(word(task, f"{SUSPENDED}..."))
    assert suspension(run, "/part") == "suspended"
    assert told(run.do(Tick(), after_s=LOOK_S)) == [], "what it gave back was not offered yet"
    (launch,) = only(card_offered(run, "O3", (10, 25)), Launch)
    assert launch.task_infos[0]["name"] == "high"
    (taker,) = run.tasks("/high")
    run.do(status(taker))
    run.put(HIGH | {"instances": 0}, force=True)
    run.do(status(taker, "TASK_KILLED"))
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]
    run.do(word(task, f"{RESUMED}GPU 3 (GPU-d)"))
    assert suspension(run, "/part") is None
    assert [one.task.cards for one in run.state.instances.values() if one.task is not None and one.task.id == task] == [
        (3,)
    ]


@pytest.mark.parametrize(
    ("part", "high"),
    [
        (PART | {"preemptible": False}, HIGH),
        (PART | {"gpuShare": {"memGiB": 10, "highPriority": True}}, HIGH),
        (PART, HIGH | {"gpuShare": {"memGiB": 8}}),
        (PART, HIGH | {"gpuShare": {"memGiB": 17, "highPriority": True}}),
        (PART, HIGH | {"cpus": 40}),
    ],
)
def test_nobody_is_suspended_who_did_not_agree_or_for_whom_it_would_be_no_use(
    part: dict[str, Any], high: dict[str, Any]
) -> None:
    _, _, actions = contended_card(part, high)
    assert (told(actions), only(actions, Kill)) == ([], [])


def test_a_part_that_cannot_be_put_away_runs_on_and_is_not_asked_for_again_at_once() -> None:
    run, task, _ = contended_card()
    actions = run.do(word(task, f"{NOT_SUSPENDED}no driver"))
    assert (only(actions, Kill), [kind for kind, _ in changes(actions)]) == ([], ["instance_not_suspended_event"])
    assert suspension(run, "/part") is None
    assert refusal(run, "/part") | {"at": ""} == {"what": "suspend", "reason": "no driver", "for": "/high", "at": ""}
    card_offered(run, "O3", (10, 15))
    assert told(run.do(Tick(), after_s=IN_VAIN_S / 2)) == []


def test_a_part_whose_suspension_was_in_vain_is_had_again() -> None:
    run, task, _ = contended_card()
    run.do(word(task, f"{SUSPENDED}..."))
    actions = run.do(Tick(), after_s=IN_VAIN_S)
    assert (told(actions), only(actions, Kill)) == ([(task, "mesos-gpu resume")], [])


GANG = app("/gang", cpus=0.1, mem=32, gpus=2, gang={"size": 2})
"""While it waits, what waits is taken in order."""


def part(app_id: str, gib: int, **changes: Any) -> dict[str, Any]:
    return app(app_id, cpus=0.1, mem=32, gpuShare={"memGiB": gib, **changes})


LOW = part("/a-low", 9)
"""It waits for longer than the one of high priority, and its id is before that one's."""


def launched(actions: Sequence[Action]) -> list[str]:
    return [info["name"].split(".")[0] for launch in only(actions, Launch) for info in launch.task_infos]


def in_line(*waiting: dict[str, Any], parts: Sequence[dict[str, Any]] = (PART,)) -> tuple[Run, list[str]]:
    """Return a run in which apps have parts of a card, others wait, and some give way to one of these; who does."""
    run = Run(settings=SHARED)
    run.subscribe()
    first, tasks = 0, {}
    for number, document in enumerate(parts):
        run.put(document)
        assert launched(card_offered(run, f"P{number}", (first, 15), (2 * number, 24)))
        (task,) = run.tasks(document["id"])
        tasks[task] = document["id"]
        run.do(status(task))
        first += document["gpuShare"]["memGiB"]
    for document in waiting:
        run.put(document)
    assert launched(card_offered(run, "O", (first, 15), (2 * len(parts), 24))) == []
    asked = [task for task, _ in told(run.do(Tick(), after_s=OFFERED_S))]
    assert asked
    return run, asked


@pytest.mark.parametrize("others", [(), (GANG,)])
def test_who_it_was_put_away_for_has_it_though_another_waits_for_longer(others: Sequence[dict[str, Any]]) -> None:
    run, (task,) = in_line(LOW, *others, HIGH)
    run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (10, 25))) == ["high"]


def test_what_is_left_when_it_has_its_part_is_anybodys() -> None:
    run, (task,) = in_line(part("/a-low", 8), HIGH)
    run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (10, 25))) == ["high", "a-low"]


@pytest.mark.parametrize("others", [(), (GANG,)])
def test_what_it_needs_is_kept_until_all_of_it_was_put_away(others: Sequence[dict[str, Any]]) -> None:
    parts = [part(f"/p{number}", 5) | {"preemptible": True} for number in range(3)]
    run, tasks = in_line(LOW, *others, part("/high", 11, highPriority=True), parts=parts)
    assert len(tasks) == 2
    for number, task in enumerate(tasks):
        assert launched(card_offered(run, f"O{number}", (15, 15 + 5 * number))) == []
        run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O9", (15, 25))) == ["high"]


def test_an_offer_of_which_something_is_kept_comes_again_soon() -> None:
    run, (task,) = in_line(LOW, HIGH | {"cpus": 2.0})
    run.do(word(task, f"{SUSPENDED}..."))
    actions = card_offered(run, "O1", (10, 25), cpus=1.0)
    assert launched(actions) == []
    (decline,) = only(actions, Decline)
    assert decline.refuse_s <= 5.0


def test_when_it_is_gone_anybody_has_it() -> None:
    run, (task,) = in_line(LOW, HIGH)
    run.do(word(task, f"{SUSPENDED}..."))
    run.do(RemoveApp("/high", "d"))
    assert launched(card_offered(run, "O1", (10, 25))) == ["a-low"]
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]
    run.do(word(task, f"{NOT_RESUMED}no room"))
    assert suspension(run, "/part") == "suspended"


def test_it_is_kept_no_longer_than_a_suspension_may_be_in_vain() -> None:
    run, (task,) = in_line(LOW, HIGH | {"cpus": 2.0})
    run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (10, 25), cpus=1.0)) == []
    assert told(run.do(Tick(), after_s=IN_VAIN_S)) == [(task, "mesos-gpu resume")]
    assert launched(card_offered(run, "O2", (10, 25), cpus=1.0)) == ["a-low"]


def test_two_for_whom_something_was_put_away_do_not_wait_for_one_another() -> None:
    parts = [part(f"/p{gib}", gib) | {"preemptible": True} for gib in (7, 5, 2)]
    takers = [part(f"/high{gib}", gib, highPriority=True) for gib in (9, 5, 4)]
    run, tasks = in_line(LOW, *takers, parts=parts)
    assert len(tasks) == 3, "each counts on the 2 GiB that are free"
    for task in tasks:
        run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (14, 29))) == ["high9", "high5"]
