"""What is typical follows what came."""

import pytest

from mesos_gpu.placement.demand import Demand
from mesos_gpu.placement.mix import FORGET_AT, Mix

ONE, EIGHT, HALF = Demand(1000, 100, gpus=1), Demand(8000, 100, gpus=8), Demand(500, 50, share_milli=500)


def test_parts_are_of_those_that_ask_for_gpus() -> None:
    mix = Mix()
    for demand in (ONE, ONE, ONE, EIGHT, Demand(4000, 100)):
        mix.saw(demand)
    typical = mix.typical()
    assert typical.parts == {ONE: 0.75, EIGHT: 0.25}
    assert typical.cpus_per_gpu == pytest.approx(1.0)
    assert typical.mem_per_gpu == pytest.approx(400 / 11000)


def test_what_is_rare_is_not_typical() -> None:
    mix = Mix()
    for _ in range(99):
        mix.saw(ONE)
    mix.saw(EIGHT)
    assert list(mix.typical().parts) == [ONE]


def test_nothing_seen_is_no_mix() -> None:
    assert Mix().typical().parts == {}


def test_a_new_look_is_due_when_a_good_part_is_new() -> None:
    mix = Mix()
    assert not mix.due
    mix.saw(ONE)
    assert mix.due
    for _ in range(20):
        mix.saw(ONE)
    mix.typical()
    for _ in range(5):
        mix.saw(HALF)
    assert not mix.due
    for _ in range(5):
        mix.saw(HALF)
    assert mix.due


def test_a_mix_that_changes_is_followed() -> None:
    mix = Mix()
    for _ in range(FORGET_AT):
        mix.saw(ONE)
    for _ in range(FORGET_AT):
        mix.saw(EIGHT)
    assert mix.typical().parts[EIGHT] > 0.7
