"""What schedulers are told of a machine's GPUs beside their number."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.model.resources import parse_attributes
from mesos_gpu.mesos.shares.gpu_links import cards_label, labelled_cards, links_text, read_links

SETS = st.lists(st.frozensets(st.integers(0, 255), min_size=2, max_size=8), max_size=6, unique=True)


def test_the_largest_sets_come_first() -> None:
    assert links_text([{4, 0}, {3, 2, 1, 0}, {7, 6, 5, 4}]) == "0-1-2-3/4-5-6-7/0-4"


@given(SETS)
def test_what_is_told_is_read_and_is_text_in_mesos_grammar(sets: list[frozenset[int]]) -> None:
    text = links_text(sets)
    assert set(read_links(text)) == set(sets)
    if sets:
        assert parse_attributes(f"gpu_nvlink:{text}") == [
            {"name": "gpu_nvlink", "type": "TEXT", "text": {"value": text}}
        ]


@pytest.mark.parametrize("text", ["", "0", "0/1", "0-0", "a-b", "0-1-", "-1-2", "1000-1001", "yes"])
def test_what_is_of_no_such_form_says_nothing(text: str) -> None:
    assert read_links(text) == ()


def test_of_a_great_many_sets_the_largest_are_told() -> None:
    sets = [frozenset((one, one + 1)) for one in range(200)] + [frozenset((0, 1, 2))]
    assert len(read_links(links_text(sets))) == 64
    assert read_links(links_text(sets))[0] == {0, 1, 2}


def test_a_label_says_which_cards_a_task_has() -> None:
    status = {"labels": {"labels": [{"key": "other", "value": "1"}, cards_label((3, 0))]}}
    assert labelled_cards(status) == (0, 3)


@pytest.mark.parametrize("value", ["", "GPU-1", "0,", "0, 1", "-1", "1000"])
def test_another_label_says_nothing(value: str) -> None:
    assert labelled_cards({"labels": {"labels": [{"key": "gpu.cards", "value": value}]}}) == ()
    none: list[dict[str, Any]] = [{}, {"labels": {}}, {"labels": {"labels": [{"key": "gpu.cards"}]}}]
    assert [labelled_cards(status) for status in none] == [(), (), ()]
