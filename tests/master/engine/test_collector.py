"""What has outlived a look of Python's collector is left alone, until the process has grown."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mesos_gpu.master.engine.collector import SLACK_BYTES, YOUNG, Collector, resident_bytes


class Grown:
    """A process whose size is said."""

    def __init__(self) -> None:
        self.bytes = 2 * SLACK_BYTES

    def __call__(self) -> int:
        return self.bytes


@pytest.fixture
def grown() -> Iterator[Grown]:
    frozen = gc.get_freeze_count()  # of all that the tests of this process are made of
    gc.unfreeze()
    process = Grown()
    collector = Collector(process)
    collector.begin()
    yield process
    collector.end()
    gc.unfreeze()
    if frozen:
        gc.freeze()


def test_what_outlives_a_whole_look_is_left_alone(grown: Grown) -> None:
    mine = [object()]
    gc.collect()
    assert gc.get_freeze_count()
    assert not any(one is mine for one in gc.get_objects()), "it would be looked at again"


def test_a_young_look_changes_nothing(grown: Grown) -> None:
    gc.collect(1)
    assert not gc.get_freeze_count()


def test_when_the_process_has_grown_all_is_looked_at_once_more(grown: Grown) -> None:
    gc.collect()
    grown.bytes = 2 * grown.bytes + SLACK_BYTES + 1
    gc.collect()
    assert not gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count(), "it has not grown since"


def test_python_has_its_own_way_again_at_the_end() -> None:
    before = gc.get_threshold()
    collector = Collector()
    collector.begin()
    assert gc.get_threshold() == (YOUNG, *before[1:])
    collector.end()
    assert gc.get_threshold() == before
    assert collector not in gc.callbacks


def test_resident_bytes_are_those_of_this_process() -> None:
    assert resident_bytes() > 2**20
