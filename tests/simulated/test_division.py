"""Simulated cards in MIG mode: where instances may be, whose they are, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.gpu.mig_layout import Placed, states
from mesos_gpu.gpu.mig_models import MODELS, profiles_of
from mesos_gpu.gpu.simulated_mig import played
from mesos_gpu.simulated.desk import Desk
from mesos_gpu.simulated.division import Division, Divisions, NvmlCode, instance_of, minors, part_of, read, shown
from mesos_gpu.simulated.machine import Code, Machine, Peer, Refused

GIB = 1 << 30
A30 = MODELS["A30"]
PROFILES = played(A30)
NAMED = {one.name: one for one in PROFILES}
REACHABLE = set(states(A30))


def made(division: Division) -> frozenset[Placed]:
    found = division.instances.values()
    return frozenset(Placed(one.start, one.size, division.profiles[one.profile].name) for one in found)


@given(st.lists(st.tuples(st.sampled_from(PROFILES), st.integers(0, 4), st.booleans()), max_size=12))
def test_a_card_is_always_in_a_state_that_the_model_can_be_in(steps: list[tuple[object, int, bool]]) -> None:
    division = Division(24 * GIB, PROFILES)
    for at, (profile, number, create) in enumerate(steps):
        before = made(division)
        try:
            if create:
                division.create(profile.id, number, f"MIG-{at}")  # type: ignore[attr-defined]
            else:
                division.destroy(number)
        except Refused:
            assert made(division) == before
        assert made(division) in REACHABLE
        assert len({one.number for one in division.instances.values()}) == len(division.instances)
        assert read(shown(division)) == division.instances
        assert dict(instance_of(division.line(slot)) for slot in division.instances) == division.instances


def test_what_cannot_be_is_refused_with_nvmls_number() -> None:
    division = Division(24 * GIB, PROFILES)
    assert division.create(NAMED["2g.12gb"].id, 0, "MIG-a") == 0
    assert division.bytes_of(0) == 12 * GIB

    def refused(step: Callable[[], object]) -> NvmlCode:
        with pytest.raises(Refused) as caught:
            step()
        return NvmlCode(caught.value.code)

    assert refused(lambda: division.create(NAMED["1g.6gb"].id, 1, "b")) is NvmlCode.INSUFFICIENT_RESOURCES
    assert refused(lambda: division.create(NAMED["2g.12gb"].id, 1, "b")) is NvmlCode.INVALID_ARGUMENT
    assert refused(lambda: division.create(99, 0, "b")) is NvmlCode.NOT_SUPPORTED
    assert refused(lambda: division.destroy(5)) is NvmlCode.NOT_FOUND
    division.compute(0)
    assert refused(lambda: division.compute(0)) is NvmlCode.INSUFFICIENT_RESOURCES
    assert refused(lambda: division.destroy(0)) is NvmlCode.IN_USE
    assert refused(lambda: division.end_compute(0, used=True)) is NvmlCode.IN_USE


class Talk:
    """Card 0 divided, card 1 not; a client in no container, one in a container with the first instance, one without."""

    def __init__(self) -> None:
        machine = Machine({0: 24 * GIB, 1: 24 * GIB})
        self.divisions = Divisions(machine, {0: PROFILES})
        self.desk = Desk(machine, self.divisions)
        self.desk.come(1, Peer(10), None, lambda card: True)
        first = minors(0, 1)[0]
        for number, has in ((2, {first}), (3, set())):
            peer = Peer(10 * number, f"c{number}", frozenset({f"/c{number}"}), inner=5, namespace=number)
            self.desk.come(number, peer, None, lambda card: card == 0, has.__contains__)
        for start, name in ((0, "2g.12gb"), (2, "1g.6gb")):
            slot = self.say(1, f"mig-create 0 {NAMED[name].id} {start} MIG-{start}")
            self.say(1, f"mig-compute 0 {slot}")

    def say(self, number: int, words: str, now_ns: int = 0) -> str:
        ((to, answer),) = self.desk.hear(number, f"{words}\n".encode(), now_ns)
        assert to == number
        return answer.decode().strip().removeprefix("ok").strip()


def test_a_container_has_its_instance_and_sees_no_other() -> None:
    talk = Talk()
    assert [line.split(":")[7] for line in talk.say(1, "mig 0").split()] == ["MIG-0", "MIG-2"]
    assert [line.split(":")[7] for line in talk.say(2, "mig 0").split()] == ["MIG-0"]
    assert talk.say(3, "mig 0") == ""
    context = talk.say(2, "context 0")
    assert talk.say(2, f"left {context}").split()[:2] == [str(12 * GIB)] * 2
    assert talk.say(2, f"alloc {context} {13 * GIB}") == f"err {Code.OUT_OF_MEMORY}"
    talk.say(2, f"alloc {context} {2 * GIB}")
    assert talk.say(3, "context 0") == f"err {Code.INVALID_DEVICE}"
    assert talk.say(2, "context 0.1") == f"err {Code.INVALID_DEVICE}"
    assert talk.say(1, "card 0").split()[1:3] == [str(2 * GIB), str(24 * GIB)]
    assert talk.say(1, "card 0.0").split()[1:3] == [str(2 * GIB), str(12 * GIB)]
    assert talk.say(1, "processes 0.0").split(":")[:2] == ["20", str(2 * GIB)]
    assert talk.say(1, "processes 0").split(":")[:2] == ["20", str(2 * GIB)]
    assert talk.say(1, "processes 0.1") == talk.say(3, "processes 0") == ""
    assert talk.say(2, "mig-create 0 14 3 MIG-3") == f"err {Code.NOT_PERMITTED}"
    assert talk.say(1, "mig 1") == f"err {NvmlCode.NOT_SUPPORTED}"


def test_an_instance_that_something_runs_on_is_not_ended() -> None:
    talk = Talk()
    talk.say(2, "context 0")
    assert talk.say(1, "mig-end 0 0") == f"err {NvmlCode.IN_USE}"
    talk.desk.go(2, 0)
    assert talk.say(1, "mig-end 0 0") == ""
    assert talk.say(1, "mig-destroy 0 0") == ""
    assert part_of(0, 1) not in talk.divisions.parts(0)


def test_instances_do_not_take_each_others_time() -> None:
    talk = Talk()
    mine, other = talk.say(2, "context 0"), talk.say(1, "context 0.1")
    for client, context in ((2, mine), (1, other)):
        talk.say(client, f"launch {context} 0 10000000")
    answers = talk.desk.hear(2, f"sync {mine}\n".encode(), 0) + talk.desk.hear(1, f"sync {other}\n".encode(), 0)
    assert answers == []
    assert {number for number, _ in talk.desk.tick(10_000_000)} == {1, 2}


def test_what_was_there_before_is_there_again() -> None:
    talk = Talk()
    kept = {card: read(shown(division)) for card, division in talk.divisions.cards.items()}
    machine = Machine({0: 24 * GIB})
    again = Divisions(machine, {0: PROFILES}, kept)
    assert shown(again.cards[0]) == shown(talk.divisions.cards[0])
    assert machine.sizes[part_of(0, 1)] == 12 * GIB


@pytest.mark.parametrize(
    ("name", "memory_mib", "model"),
    [
        ("NVIDIA A100-SXM4-40GB", None, "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", 81920, "A100-80GB"),
        ("NVIDIA A100", 81251, "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100-80GB"),
        ("NVIDIA H200", 143771, "H200-141GB"),
        ("NVIDIA A30", 24576, "A30"),
        ("Tesla T4", 15109, None),
        ("NVIDIA A100", 16384, None),
    ],
)
def test_a_model_is_known_by_its_name_and_memory(name: str, memory_mib: int | None, model: str | None) -> None:
    assert profiles_of(name, memory_mib) == (() if model is None else MODELS[model])


def test_what_is_told_of_all_cards_has_the_instances_of_those_that_are_divided() -> None:
    talk = Talk()
    context = talk.say(2, "context 0")
    talk.say(2, f"alloc {context} {GIB}")
    ((_, answer),) = talk.desk.hear(1, b"figures\n", 0)
    cards = json.loads(answer)["cards"]
    assert cards.keys() == {"0", "1"}
    assert (cards["0"]["used"], [one["bytes"] for one in cards["0"]["processes"]]) == (GIB, [GIB])
    assert [one["name"] for one in cards["0"]["mig"].values()] == ["2g.12gb", "1g.6gb"]
    assert cards["1"]["mig"] is None
    assert talk.say(1, "samples 0 0") == ""
    assert talk.say(1, "mig-nothing 0 0") == f"err {Code.INVALID_VALUE}"
