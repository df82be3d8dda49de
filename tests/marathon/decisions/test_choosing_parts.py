"""Apps that ask for a part of a GPU: which machine they take, and which card of it, by the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.state.actions import Action, Launch
from mesos_gpu.marathon.state.events import Offered
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import CardPart, parts
from mesos_gpu.placement.policies import BEST
from tests.support.marathon.builders import SETTINGS, Run, app, offer, only, ranges, status

SHARED = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED, offer_window_s=0.2)


def shares(name: str, *free_gib: int, card_gib: int = 10, **changes: Any) -> dict[str, Any]:
    """Return an offer of an agent with shared cards, of which so much is free."""
    labels = ",".join(f"{card}=GPU-{name}{card}/{card_gib}" for card in range(len(free_gib)))
    free = [(card * 1000, card * 1000 + gib - 1) for card, gib in enumerate(free_gib) if gib]
    slices = [(card * 1000, card * 1000 + 24) for card in range(len(free_gib))]
    return offer(
        name,
        agent=f"S-{name}",
        host=f"h-{name}",
        attributes={"gpu_shared_cards": labels},
        extra=[ranges("gpu_mem", *free), ranges("gpu_slices", *slices)],
        **{"cpus": 32.0, **changes},
    )


def part(app_id: str, gib: int | list[int], **changes: Any) -> dict[str, Any]:
    return app(app_id, gpuShare={"memGiB": gib, **changes.pop("share", {})}, **changes)


def where(actions: Sequence[Action]) -> dict[str, list[tuple[str, tuple[CardPart, ...]]]]:
    """Return of each app which offers its tasks took, and which parts of cards."""
    found: dict[str, list[tuple[str, tuple[CardPart, ...]]]] = {}
    for launch in only(actions, Launch):
        for info in launch.task_infos:
            taken = parts(Resources.from_json(info["resources"]))
            found.setdefault(info["name"], []).append((launch.offer_id, taken))
    return found


def placed(offers: Sequence[Mapping[str, Any]], *apps: Mapping[str, Any], policy: str = BEST) -> Any:
    run = Run(settings=replace(SHARED, placement_policy=policy))
    run.subscribe()
    run.put(*apps)
    return where(run.do(Offered(list(offers))))


@pytest.mark.parametrize(("policy", "taken"), [("spread", "empty"), ("best_fit", "full"), (BEST, "full")])
def test_the_policy_says_which_machine(policy: str, taken: str) -> None:
    ((name, _),) = placed([shares("empty", 10, 10), shares("full", 0, 4)], part("/a", 4), policy=policy)["a"]
    assert name == taken


OTHERS = part("/others", 3, instances=9, constraints=[["hostname", "IS", "elsewhere"]])
"""They wait, and are the mix."""


def test_a_remainder_that_others_can_use_is_left_for_them() -> None:
    # Of 6 GiB 4 leave 2, of no use to those who want 3, and two had room there; of 7 they leave 3, where two had, too.
    ((name, taken),) = placed([shares("six", 6), shares("seven", 7)], part("/a", 4), OTHERS)["a"]
    assert (name, taken) == ("seven", (CardPart(0, 4, 1),))


def test_of_a_machines_cards_the_policy_chooses_too() -> None:
    offers = [shares("a", 6, 7), shares("full", 0, 0)]
    assert placed(offers, part("/a", 4), OTHERS)["a"] == [("a", (CardPart(1, 4, 1),))]
    # By itself Marathon takes of the fullest card that has room.
    assert placed(offers, part("/a", 4), OTHERS, policy="first_fit")["a"] == [("a", (CardPart(0, 4, 1),))]


def test_cards_of_another_size_count_by_their_gib() -> None:
    offers = [shares("small", 16, card_gib=16), shares("large", 20, card_gib=80)]
    ((name, _),) = placed(offers, part("/a", 16))["a"]
    assert name == "small"
    ((name, _),) = placed(offers, part("/a", 17))["a"]
    assert name == "large"


def test_whole_shared_cards_are_asked_for_by_all_of_their_memory() -> None:
    asked = part("/a", 10, share={"cards": 2, "weight": 25})
    ((name, taken),) = placed([shares("broken", 10, 9, 9), shares("whole", 10, 3, 10)], asked)["a"]
    assert (name, taken) == ("whole", (CardPart(0, 10, 25), CardPart(2, 10, 25)))


def test_more_than_a_card_has_is_waited_for() -> None:
    assert placed([shares("a", 10), shares("b", 10)], part("/a", 11)) == {}


def test_a_card_without_slices_has_nothing() -> None:
    spent = shares("spent", 10, 10)
    spent["resources"] = [each for each in spent["resources"] if each["name"] != "gpu_slices"]
    ((name, _),) = placed([spent, shares("other", 10, 10)], part("/a", 3))["a"]
    assert name == "other"


def test_whole_gpus_and_parts_are_two_pools_of_one_machine() -> None:
    both = shares("both", 10, gpus=2, cpus=10)
    found = placed([both, shares("other", 10, gpus=1, cpus=1)], part("/p", 5, cpus=5), app("/w", gpus=1, cpus=5))
    assert {name: [offer_id for offer_id, _ in tasks] for name, tasks in found.items()} == {
        "p": ["both"],
        "w": ["both"],
    }


def test_apps_without_gpus_keep_away_from_what_parts_need() -> None:
    ((name, _),) = placed([shares("a", 10), offer("plain", agent="S9", host="h9", cpus=4)], app("/web", cpus=4))["web"]
    assert name == "plain"


def test_offers_are_held_for_parts_as_for_whole_gpus() -> None:
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(part("/first", 1))
    run.do(Offered([shares("a", 10), shares("b", 10)]))
    (task_id,) = run.tasks("/first")
    run.do(status(task_id))
    run.put(part("/a", 4))
    assert where(run.do(Offered([shares("a2", 9)]))) == {}
    assert run.state.held
