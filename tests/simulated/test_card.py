"""One card in virtual time: kernels one after another in a context, contexts in turns, and nobody's work lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.simulated.card import RECENT, SAMPLE_NS, SAMPLES, SLICE_NS, Card

MS = 1_000_000


def card_of(*contexts: int) -> Card:
    card = Card()
    for context in contexts:
        card.open(context, pid=context, owner=f"c{context}")
    return card


def test_kernels_of_a_context_are_done_one_after_another() -> None:
    card = card_of(1)
    card.submit(1, 10, 5 * MS, 0)
    card.submit(1, 11, 3 * MS, 0)
    assert card.next_ns() == 5 * MS
    assert card.advance(4 * MS) == []
    assert card.advance(6 * MS) == [(10, 5 * MS)]
    assert card.next_ns() == 8 * MS
    assert card.advance(100 * MS) == [(11, 8 * MS)]
    assert card.next_ns() is None


def test_contexts_take_turns_and_long_kernels_are_interrupted() -> None:
    card = card_of(1, 2)
    card.submit(1, 10, 100 * MS, 0)
    card.submit(2, 20, 5 * MS, 0)
    assert card.next_ns() == SLICE_NS
    # 2 has its 5 ms in slices of 2, each after one of 1.
    assert card.advance(50 * MS) == [(20, 11 * MS)]
    assert card.advance(200 * MS) == [(10, 105 * MS)]
    assert card.used_ns == {"c1": 100 * MS, "c2": 5 * MS}


def test_work_that_comes_to_an_idle_card_begins_then() -> None:
    card = card_of(1)
    card.submit(1, 10, MS, 0)
    card.advance(50 * MS)
    card.submit(1, 11, MS, 50 * MS)
    assert card.advance(60 * MS) == [(11, 51 * MS)]


def test_what_takes_no_time_is_done_when_its_turn_comes() -> None:
    card = card_of(1, 2)
    card.submit(1, 10, 0, 7)
    card.submit(2, 20, 0, 7)
    assert card.advance(7) == [(10, 7), (20, 7)]


def test_a_context_that_ends_takes_its_work_with_it() -> None:
    card = card_of(1, 2, 3)
    for context in (1, 2):
        card.submit(context, context * 10, 10 * MS, 0)
    card.advance(MS)
    assert card.close(1) == [10]
    assert card.close(3) == []
    assert card.close(2) == [20]
    assert (card.next_ns(), card.waiting()) == (None, set())


def test_use_is_told_by_process_over_the_last_second() -> None:
    card = card_of(1, 2)
    card.submit(1, 10, 10 * SAMPLE_NS, 0)
    card.advance(10 * SAMPLE_NS)
    assert card.busy_percent(10 * SAMPLE_NS) == 100
    assert card.percent_by_pid(10 * SAMPLE_NS) == {1: 100}
    card.submit(2, 20, 5 * SAMPLE_NS, 10 * SAMPLE_NS)
    card.advance(20 * SAMPLE_NS)
    assert (card.busy_percent(20 * SAMPLE_NS), card.percent_by_pid(20 * SAMPLE_NS)) == (50, {2: 50})
    assert card.samples(13 * SAMPLE_NS) == [(14 * SAMPLE_NS, 2, 100), (15 * SAMPLE_NS, 2, 100)]
    assert card.busy_percent((20 + RECENT) * SAMPLE_NS) == 0


def test_old_samples_are_forgotten() -> None:
    card = card_of(1)
    card.submit(1, 10, 4 * SAMPLES * SAMPLE_NS, 0)
    card.advance(4 * SAMPLES * SAMPLE_NS)
    assert len(card.samples(0)) == SAMPLES


STEPS = st.lists(
    st.tuples(st.sampled_from("sat"), st.integers(1, 4), st.integers(0, 9 * MS)),
    max_size=60,
)


@given(STEPS)
def test_no_work_is_lost_and_a_busy_card_is_never_idle(steps: Sequence[tuple[str, int, int]]) -> None:
    card = card_of(1, 2, 3, 4)
    now_ns, ticket = 0, 0
    queued: dict[int, list[tuple[int, int]]] = {1: [], 2: [], 3: [], 4: []}
    done: list[tuple[int, int]] = []
    given_ns = 0
    for kind, context, amount in steps:
        if kind == "s":
            ticket += 1
            card.submit(context, ticket, amount, now_ns)
            queued[context].append((ticket, amount))
            given_ns += amount
        else:
            now_ns += amount
            done += card.advance(now_ns)
    done += card.advance(now_ns + given_ns)
    assert card.next_ns() is None
    assert sorted(ticket for ticket, _ in done) == sorted(one for each in queued.values() for one, _ in each)
    for context, asked in queued.items():
        tickets = [one for one, _ in asked]
        assert [one for one, _ in done if one in tickets] == tickets
        assert card.used_ns.get(f"c{context}", 0) == sum(amount for _, amount in asked)
    assert [at for _, at in done] == sorted(at for _, at in done)


@pytest.mark.parametrize("processes", [1, 3])
def test_who_has_more_processes_has_more_of_the_card(processes: int) -> None:
    # As on a real one, which gives turns to contexts and knows no containers: the reason for freezing.
    card = Card()
    card.open(1, 1, "one")
    for context in range(2, 2 + processes):
        card.open(context, context, "many")
    for context in range(1, 2 + processes):
        card.submit(context, context, 10_000 * MS, 0)
    card.advance(1200 * MS)
    assert card.used_ns["many"] == pytest.approx(processes * card.used_ns["one"], abs=SLICE_NS * processes)
