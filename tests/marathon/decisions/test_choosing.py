"""Which of several offers an app takes, and when offers are held so that there are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.decisions.choosing import Choice
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.decisions.using import OpenOffer
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.state.actions import Action, Decline, Launch
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import Disconnected, Offered, Rescinded, Tick
from mesos_gpu.marathon.state.state import restored
from mesos_gpu.marathon.store.rows import lasting_of, rows_of, saves_of
from mesos_gpu.placement.policies import BEST, POLICIES
from tests.support.marathon.builders import SETTINGS, Run, app, offer, only, status

WINDOW_S = 0.2
SHARED = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED, offer_window_s=WINDOW_S)
HALF = offer("half", agent="S1", host="h1", gpus=4, cpus=32)
WHOLE = offer("whole", agent="S2", host="h2", gpus=8, cpus=64)
LAST = offer("last", agent="S3", host="h3", gpus=1, cpus=8)
PLAIN = offer("plain", agent="S4", host="h4", cpus=4)


def subscribed(*apps: Mapping[str, Any], settings: Any = SHARED) -> Run:
    run = Run(settings=settings)
    run.subscribe()
    run.put(*apps)
    return run


def where(actions: Sequence[Action]) -> dict[str, str]:
    """Return the offer that each app of these was started on."""
    return {info["name"]: launch.offer_id for launch in only(actions, Launch) for info in launch.task_infos}


@pytest.mark.parametrize(
    ("policy", "taken"), [("first_fit", "whole"), ("spread", "whole"), ("best_fit", "last"), (BEST, "last")]
)
def test_the_flag_says_which_of_several_offers_is_taken(policy: str, taken: str) -> None:
    run = subscribed(app("/a", gpus=1), settings=replace(SHARED, placement_policy=policy))
    assert where(run.do(Offered([WHOLE, HALF, LAST]))) == {"a": taken}


def test_an_apps_label_goes_before_the_flag_and_an_unknown_one_does_not() -> None:
    apps = [
        app("/a", gpus=1, labels={"PLACEMENT_POLICY": "spread"}),
        app("/b", gpus=1, labels={"PLACEMENT_POLICY": "?"}),
    ]
    assert where(subscribed(*apps).do(Offered([HALF, WHOLE, LAST]))) == {"a": "whole", "b": "last"}


@pytest.mark.parametrize("policy", POLICIES)
def test_with_one_offer_there_is_nothing_to_choose(policy: str) -> None:
    run = subscribed(app("/a", gpus=1), settings=replace(SHARED, placement_policy=policy))
    assert where(run.do(Offered([WHOLE]))) == {"a": "whole"}


def test_apps_without_gpus_keep_away_from_what_gpus_need() -> None:
    run = subscribed(app("/web", cpus=4))
    assert where(run.do(Offered([LAST, WHOLE, PLAIN]))) == {"web": "plain"}


def test_where_nobody_offers_gpus_the_first_offer_that_fits_is_taken() -> None:
    run = subscribed(app("/web", cpus=1))
    assert where(run.do(Offered([PLAIN, offer("small", agent="S5", cpus=1)]))) == {"web": "plain"}


def test_an_offer_that_suits_best_but_may_not_be_taken_gives_way_to_the_next() -> None:
    run = subscribed(app("/a", gpus=1, constraints=[["hostname", "UNLIKE", "h3"]]))
    actions = run.do(Offered([WHOLE, HALF, LAST]))
    assert where(actions) == {"a": "half"}
    assert {each for decline in only(actions, Decline) for each in decline.offer_ids} == {"whole", "last"}


def test_models_that_constraints_ask_for_are_kept_for_those_that_ask() -> None:
    picky = app("/picky", gpus=1, constraints=[["gpu_model", "IS", "A100"]], instances=4)
    offers = [
        offer("fine", agent="S1", host="h1", gpus=2, cpus=16, attributes={"gpu_model": "A100"}),
        offer("plain", agent="S2", host="h2", gpus=2, cpus=16, attributes={"gpu_model": "T4"}),
    ]
    run = subscribed(app("/a", gpus=1), picky)
    launched = only(run.do(Offered(offers)), Launch)
    assert {launch.offer_id: sorted(info["name"] for info in launch.task_infos) for launch in launched} == {
        "fine": ["picky", "picky"],
        "plain": ["a"],
    }


def test_a_model_that_nobody_offers_is_waited_for() -> None:
    run = subscribed(app("/a", gpus=1, constraints=[["gpu_model", "LIKE", "H.*"]]))
    offers = [replace_attributes(each) for each in (WHOLE, HALF)]
    assert where(run.do(Offered(offers))) == {}
    assert run.state.queue["/a"] is not None


def replace_attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    return {**document, "attributes": [{"name": "gpu_model", "type": "TEXT", "text": {"value": "T4"}}]}


def test_no_more_start_on_one_offer_than_may() -> None:
    run = subscribed(app("/a", gpus=1, instances=6), settings=replace(SHARED, max_instances_per_offer=2))
    launched = {launch.offer_id: launch for launch in only(run.do(Offered([WHOLE, HALF])), Launch)}
    assert {name: len(launch.task_infos) for name, launch in launched.items()} == {"whole": 2, "half": 2}
    # What is left of both is wanted again at once.
    assert {launch.refuse_s for launch in launched.values()} == {0.0}


def test_no_more_start_than_there_are_launch_tokens() -> None:
    run = subscribed(app("/a", gpus=1, instances=6), settings=replace(SHARED, launch_tokens=3))
    assert sum(len(launch.task_infos) for launch in only(run.do(Offered([WHOLE, HALF])), Launch)) == 3


def busy(*known: str) -> Run:
    """Return a scheduler with a task that runs, which knows agents, and an app with GPUs that waits."""
    run = subscribed(app("/first", gpus=1))
    run.do(Offered([offer(f"O-{agent}", agent=agent, host=agent, gpus=8) for agent in known]))
    run.run_all("/first")
    run.put(app("/a", gpus=1))
    return run


def test_the_first_app_on_an_idle_cluster_waits_for_no_other_offer() -> None:
    run = subscribed(app("/a", gpus=1))
    assert where(run.do(Offered([WHOLE]))) == {"a": "whole"}


def test_offers_are_held_until_their_time_is_over_and_the_best_is_taken() -> None:
    run = busy("S1", "S2", "S3")
    assert run.do(Offered([WHOLE])) == []
    assert next_tick_s(run.state, run.settings, run.moment) == pytest.approx(run.now_s + WINDOW_S)
    assert run.do(Offered([LAST]), after_s=0.1) == []
    assert run.do(Tick(), after_s=0.05) == []
    assert where(run.do(Tick(), after_s=0.06)) == {"a": "last"}
    assert run.state.held == ()


def test_offers_are_used_as_soon_as_every_known_agent_has_made_one() -> None:
    run = busy("S1", "S2")
    assert run.do(Offered([WHOLE])) == []
    assert where(run.do(Offered([offer("less", agent="S1", host="h1", gpus=2, cpus=8)]), after_s=0.01)) == {"a": "less"}


def test_offers_are_not_held_for_those_that_would_not_choose() -> None:
    run = busy("S1", "S2", "S3")
    run.put(app("/a", gpus=1, labels={"PLACEMENT_POLICY": "first_fit"}), force=True)
    run.do(Offered([WHOLE]))
    assert run.state.held == ()
    without = subscribed(app("/first", gpus=1), settings=replace(SHARED, offer_window_s=0.0))
    without.do(Offered([HALF, WHOLE]))
    without.put(app("/a", gpus=1))
    assert where(without.do(Offered([LAST]))) == {"a": "last"}


def test_held_offers_are_void_when_the_master_is_gone() -> None:
    run = busy("S1", "S2", "S3")
    run.do(Offered([WHOLE]))
    run.do(Disconnected())
    assert (run.state.held, run.state.held_until_s) == ((), None)
    run.subscribe()
    run.do(Offered([WHOLE]))
    run.subscribe()
    assert run.do(Tick(), after_s=1.0) == [] or run.state.held == ()


def test_an_offer_that_is_rescinded_is_not_chosen_any_more() -> None:
    run = busy("S1", "S2", "S3")
    run.do(Offered([WHOLE]))
    run.do(Offered([LAST]), after_s=0.01)
    assert run.do(Rescinded("last")) == []
    assert where(run.do(Tick(), after_s=1.0)) == {"a": "whole"}
    assert run.do(Rescinded("whole")) == [], "one that is used already"
    alone = busy("S1", "S2", "S3")
    alone.do(Offered([WHOLE]))
    alone.do(Rescinded("whole"))
    assert (alone.state.held, alone.state.held_until_s) == ((), None)


def test_apps_with_volumes_go_where_they_always_did() -> None:
    volume = {"containerPath": "data", "mode": "RW", "persistent": {"size": 1}}
    run = subscribed(app("/db", gpus=1, container={"type": "MESOS", "volumes": [volume]}))
    launches = only(run.do(Offered([WHOLE, LAST])), Launch)
    assert [launch.offer_id for launch in launches] == ["whole"]


PAIRED = {"gpu_nvlink": "0-1/2-3"}


def cards(*indices: int) -> Any:
    value = ",".join(map(str, indices))
    return {"labels": {"labels": [{"key": "gpu.cards", "value": value}]}}


def pairs(*gpus: int) -> list[Any]:
    """Offers of machines with two pairs each, of so many GPUs."""
    return [
        offer(f"O{at}", agent=f"S{at}", host=f"h{at}", gpus=count, cpus=32, attributes=PAIRED)
        for at, count in enumerate(gpus)
    ]


def test_of_offers_alike_the_one_is_taken_in_which_two_gpus_share_nvlink() -> None:
    plain = offer("plain", agent="S8", host="h8", gpus=4, cpus=32)
    for document in (app("/a", gpus=2), app("/a", gpus=2, priority=3)):
        assert where(subscribed(document).do(Offered([plain, *pairs(4)]))) == {"a": "O0"}
    gang = app("/a", gpus=2, gang={"size": 2})
    launched = only(subscribed(gang).do(Offered([plain, *pairs(4, 4)])), Launch)
    assert {launch.offer_id for launch in launched} == {"O0", "O1"}
    first = app("/a", gpus=2, labels={"PLACEMENT_POLICY": "first_fit"})
    assert where(subscribed(first).do(Offered([plain, *pairs(4)]))) == {"a": "plain"}


@pytest.mark.parametrize(("held", "taken"), [((0, 2), "O1"), ((0, 1), "O0")])
def test_which_cards_our_own_tasks_have_says_which_are_left(held: tuple[int, int], taken: str) -> None:
    """Two GPUs of each of two machines are offered: of the second one a pair, of the first it depends."""
    other = app("/other", gpus=2, constraints=[["hostname", "IS", "h1"]])
    run = subscribed(app("/one", gpus=1, instances=2), other, settings=replace(SHARED, offer_window_s=0.0))
    run.do(Offered(pairs(4)))
    run.do(Offered([pairs(0, 4)[1]]))
    for task_id, card in zip(run.tasks("/one"), held, strict=True):
        run.do(status(task_id, **cards(card)))
    (other_id,) = run.tasks("/other")
    run.do(status(other_id, agent_id={"value": "S1"}, **cards(0, 1)))
    run.put(app("/a", gpus=2))
    assert where(run.do(Offered(pairs(2, 2)))) == {"a": taken}


def test_what_a_task_has_is_kept_and_known_after_a_restart() -> None:
    run = subscribed(app("/one", gpus=2))
    run.do(Offered(pairs(4)))
    (task_id,) = run.tasks("/one")
    run.do(status(task_id, **cards(0, 2)))
    run.do(status(task_id, message="GPU 0 is unhealthy"))
    again = lasting_of([row for save in saves_of(run.state.lasting) for row in rows_of(save)])
    (instance,) = restored(again).instances.values()
    assert instance.task is not None
    assert instance.task.whole_cards == (0, 2)


def test_of_sizes_asked_for_equally_often_the_first_that_came_count_first() -> None:
    run = subscribed(*(app(f"/a{at}", gpus=1, cpus=at + 1) for at in range(20)))
    draft = Draft(run.state, run.moment, SHARED)
    opened = [OpenOffer(draft, Offer.from_json(each)) for each in (HALF, WHOLE)]
    typical = Choice(draft, opened).mix(shared=False).typical()
    assert [size.cpus_milli // 1000 for size in typical.parts] == list(range(1, 20))


def test_those_that_ask_for_the_same_are_one_size_of_the_mix() -> None:
    run = subscribed(app("/a", gpus=1, instances=3), app("/b", gpus=1), app("/c", gpus=2))
    draft = Draft(run.state, run.moment, SHARED)
    mix = Choice(draft, [OpenOffer(draft, Offer.from_json(each)) for each in (HALF, WHOLE)]).mix(shared=False)
    assert sorted((size.gpus, part) for size, part in mix.typical().parts.items()) == [(1, 0.8), (2, 0.2)]
