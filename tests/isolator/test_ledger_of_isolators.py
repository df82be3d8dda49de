"""Random histories of the ledger, played by real isolators: theirs is the same after each event."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isolator.isolator_world import IsolatorWorld
from tests.isolator.ledger_histories import play
from tests.support.histories import examples


@settings(max_examples=examples(200))
@given(st.integers(0, 1 << 32))
def test_isolators_have_the_ledger_of_any_history(seed: int) -> None:
    play(Random(seed), kind=IsolatorWorld, killed=False)
