"""The table of an executor's stages."""

from __future__ import annotations

import itertools

import pytest

from mesos_gpu.agent.model.executors import NEXT_STAGE, IllegalTurn, Stage, Turn, next_stage


@pytest.mark.parametrize(("stage", "turn"), list(itertools.product(Stage, Turn)))
def test_every_pair_is_in_the_table_or_refused(stage: Stage, turn: Turn) -> None:
    if (stage, turn) in NEXT_STAGE:
        assert next_stage(stage, turn) is NEXT_STAGE[stage, turn]
    else:
        with pytest.raises(IllegalTurn, match=turn.value):
            next_stage(stage, turn)


def test_what_ends_never_begins_again() -> None:
    for (stage, _), after in NEXT_STAGE.items():
        if stage in (Stage.TERMINATING, Stage.TERMINATED):
            assert after in (Stage.TERMINATING, Stage.TERMINATED)
    assert {after for (stage, turn), after in NEXT_STAGE.items() if turn is Turn.ENDED} == {Stage.TERMINATED}
