"""Ranges of user numbers: each live container has its own, and none is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesos_gpu.container.spec.id_pool import IdPool, Owner, check_others, cut, subordinate
from mesos_gpu.container.spec.user_namespace import FEWEST, LAST_ID, IdRange, Numbers
from mesos_gpu.errors import BadInput, ContainerError
from tests.support.golden import Golden

FIRST = 1879048192
FIRSTS = (FIRST, FIRST + 7)


def pool(places: int, each: int = FEWEST, first: int = FIRST) -> IdPool:
    return cut(IdRange(first, (places + 1) * each), each)


@given(
    first=st.integers(FEWEST, 1 << 30), places=st.integers(1, 50), times=st.integers(1, 3), rest=st.integers(0, 9999)
)
def test_every_container_has_numbers_of_its_own_and_none_has_those_on_disk(
    first: int, places: int, times: int, rest: int
) -> None:
    whole = IdRange(first, (places + 1) * times * FEWEST + rest)
    ids = cut(whole, times * FEWEST)
    assert ids.places == places
    held: list[IdRange] = []
    for _ in range(places):
        numbers = ids.take(held)
        assert numbers.disk == ids.disk == IdRange(first, times * FEWEST)
        assert numbers.running.count == times * FEWEST
        assert numbers.running.first % FEWEST == first % FEWEST
        assert numbers.running.first in whole
        assert numbers.running.first + numbers.running.count - 1 in whole
        assert not any(numbers.running.overlaps(other) for other in (*held, ids.disk))
        held.append(numbers.running)
    with pytest.raises(ContainerError):
        ids.take(held)
    assert ids.take(held[1:]) == Numbers(held[0], ids.disk)


@given(count=st.integers(FEWEST, 2 * FEWEST - 1))
def test_where_one_range_fits_alone_all_share_it(count: int) -> None:
    ids = cut(IdRange(FIRST, count), FEWEST)
    assert ids.shared
    assert ids.places is None
    shared = Numbers(ids.whole, ids.whole)
    assert ids.take([]) == ids.take([ids.whole]) == ids.take([ids.whole] * 1000) == shared


@given(
    ids=st.builds(pool, st.integers(1, 20)),
    strangers=st.lists(st.builds(IdRange, st.integers(FEWEST, LAST_ID >> 1), st.integers(FEWEST, 1 << 21)), max_size=5),
)
def test_what_was_given_under_other_flags_is_given_to_nobody(ids: IdPool, strangers: list[IdRange]) -> None:
    try:
        found = ids.take(strangers).running
    except ContainerError:
        places = [IdRange(FIRST + n * FEWEST, FEWEST) for n in range(1, 21)][: ids.places]
        assert all(any(place.overlaps(other) for other in strangers) for place in places)
    else:
        assert not any(found.overlaps(other) for other in strangers)


@pytest.mark.parametrize(
    ("first", "count", "each"), [(FIRST, 4 * FEWEST, FEWEST), (FIRST, FEWEST, FEWEST)], ids=["several", "one"]
)
def test_a_pool_says_how_many_containers_it_has_numbers_for(first: int, count: int, each: int, golden: Golden) -> None:
    assert cut(IdRange(first, count), each).words() == golden


@pytest.mark.parametrize("each", [1000, 100000, 0, 1 << 20])
def test_what_cannot_be_cut_is_refused(each: int, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        cut(IdRange(FIRST, 4 * FEWEST), each)
    assert str(refused.value) == golden


class Histories(RuleBasedStateMachine):
    """Containers come, are nested, end, hang half taken away; agents die and start again with other flags.

    `records` are what is on disk, which is all that a new agent knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool(4)
        self.records: dict[str, IdRange] = {}
        self.made = 0

    @rule()
    def one_is_launched(self) -> None:
        held = set(self.records.values())
        try:
            numbers = self.pool.take(self.records.values())
        except ContainerError:
            places = self.pool.places
            assert places is not None
            assert sum(any(self.at(n).overlaps(one) for one in held) for n in range(1, places + 1)) == places
            return
        assert self.pool.shared or not any(numbers.running.overlaps(one) for one in held)
        self.made += 1
        self.records[f"c{self.made}"] = numbers.running

    def at(self, place: int) -> IdRange:
        return IdRange(self.pool.whole.first + place * self.pool.each, self.pool.each)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def one_is_nested(self, data: st.DataObject) -> None:
        parent = data.draw(st.sampled_from(sorted(self.records)))
        self.made += 1
        self.records[f"{parent}.n{self.made}"] = self.records[parent]

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def one_is_gone_with_all_in_it(self, data: st.DataObject) -> None:
        ended = data.draw(st.sampled_from(sorted(self.records)))
        self.records = {name: ids for name, ids in self.records.items() if not f"{name}.".startswith(f"{ended}.")}

    @rule(
        places=st.integers(0, 5), each=st.sampled_from([FEWEST, 2 * FEWEST]), first=st.sampled_from([FIRST, FIRST + 7])
    )
    def the_agent_starts_again_with_other_flags(self, places: int, each: int, first: int) -> None:
        self.pool = pool(places, each, first)

    @rule()
    def all_end_and_everything_is_there_again(self) -> None:
        self.records = {}
        places = self.pool.places
        for _ in range(places or 1):
            self.records[f"again{len(self.records)}"] = self.pool.take(self.records.values()).running
        assert len(set(self.records.values())) == len(self.records)
        self.records = {}

    @invariant()
    def those_that_overlap_are_nested_or_were_told_to_share(self) -> None:
        for name, ids in self.records.items():
            for other, theirs in self.records.items():
                if name.partition(".")[0] != other.partition(".")[0] and ids.overlaps(theirs):
                    assert ids == theirs or self.shared_once(ids, theirs)

    def shared_once(self, ids: IdRange, theirs: IdRange) -> bool:
        """Return whether one of two was shared by all, as of a pool for one range, which gives it to whoever comes."""
        return any(one.first in FIRSTS for one in (ids, theirs))


TestHistories = Histories.TestCase


SUBUID = """alice:100000:65536
mesos-gpu:1879048192:16777216
1001:200000:65536

bob:300000:65536
bob:400000:65536
bad:x
"""
GPU = Owner("mesos-gpu", 998)


def test_subordinate_numbers_are_found_by_name_and_by_number() -> None:
    assert subordinate(GPU, GPU, SUBUID, SUBUID) == IdRange(1879048192, 16777216)
    assert subordinate(Owner("carol", 1001), Owner("carol", 1001), SUBUID, SUBUID) == IdRange(200000, 65536)
    assert subordinate(GPU, Owner("gpus"), SUBUID, "gpus:1879048192:16777216") == IdRange(1879048192, 16777216)


def test_numbers_that_are_subordinate_to_somebody_else_are_refused() -> None:
    for first in (100_000, 165_535, 34_465):
        with pytest.raises(BadInput, match="alice"):
            check_others(IdRange(first, 65536), [GPU], SUBUID, "")
        with pytest.raises(BadInput, match="alice"):
            check_others(IdRange(first, 65536), [GPU], "", SUBUID)
    check_others(IdRange(165_536, 65536 // 2), [GPU], SUBUID, SUBUID)
    check_others(IdRange(1_879_048_192, 65536), [GPU], SUBUID, SUBUID)
    check_others(IdRange(200_000, 65536), [Owner("carol", 1001)], SUBUID, SUBUID)
    with pytest.raises(BadInput, match="mesos-gpu"):
        check_others(IdRange(1_879_048_192, 65536), [Owner("bob")], SUBUID, SUBUID)


@pytest.mark.parametrize(
    ("user", "group", "subgid"),
    [
        (Owner("dora"), Owner("dora"), SUBUID),
        (GPU, Owner("dora"), SUBUID),
        (GPU, GPU, ""),
        (Owner("bob"), Owner("bob"), SUBUID),
        (GPU, GPU, "mesos-gpu:1:65536"),
        (Owner("bad"), Owner("bad"), SUBUID),
    ],
)
def test_what_is_missing_or_wrong_in_the_files_is_said(user: Owner, group: Owner, subgid: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        subordinate(user, group, SUBUID, subgid)
    assert str(refused.value) == golden
