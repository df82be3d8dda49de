"""Levels of keeping tasks to their GPU memory: the order, the words, and the table in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mesos_gpu.mesos.shares.levels import PROMISES, WORDS, Level, level_named, shortfall, strongest, table, weakest

DOCS = Path(__file__).parents[3] / "docs"


def test_the_strongest_that_is_there_is_chosen_and_the_weakest_card_counts() -> None:
    assert strongest([]) is Level.ADVISORY
    assert strongest([Level.WATCHER, Level.CGROUP, Level.MPS]) is Level.CGROUP
    assert weakest([Level.CGROUP, Level.WATCHER]) is Level.WATCHER
    assert weakest([]) is Level.ADVISORY
    assert list(PROMISES) == sorted(Level, reverse=True)


def test_names_are_read_and_others_refused() -> None:
    assert [level_named(word) for word in WORDS] == list(Level)
    with pytest.raises(ValueError, match=r"'hard'.*mig, cgroup, mps, watcher, advisory"):
        level_named("hard")


@pytest.mark.parametrize("required", Level)
@pytest.mark.parametrize("there", Level)
def test_less_than_required_is_refused_in_words(required: Level, there: Level) -> None:
    words = shortfall(required, 2, there)
    assert (words is None) == (there >= required)
    if words is not None:
        assert re.search(rf"'{required.word}'.* 2 .*'{there.word}'", words)


def test_the_documentation_has_the_table() -> None:
    (page,) = [path for path in DOCS.rglob("sharing.md") if "# One GPU" in path.read_text()]
    assert table() in page.read_text()
