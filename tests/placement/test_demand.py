"""What a task asks of a machine, and what it leaves."""

import pytest

from mesos_gpu.placement.demand import Demand, Machine
from tests.support.golden import Golden

ROOMY = Machine(8000, 1024, (1000, 500), "T4")


@pytest.mark.parametrize(
    "demand",
    [
        Demand(8000, 1024),
        Demand(1, 1, gpus=1),
        Demand(1, 1, share_milli=500),
        Demand(1, 1, gpus=1, models=frozenset({"A10", "T4"})),
        Demand(1, 1, models=frozenset({"A10"})),
    ],
)
def test_a_task_fits_where_all_that_it_asks_is_free(demand: Demand) -> None:
    assert ROOMY.fits(demand)


@pytest.mark.parametrize(
    "demand",
    [
        Demand(8001, 1),
        Demand(1, 1025),
        Demand(1, 1, gpus=2),
        Demand(1, 1, gpus=1, models=frozenset({"A10"})),
        Demand(1, 1, share_milli=500, models=frozenset({"A10"})),
    ],
)
def test_a_task_does_not_fit_where_one_thing_is_short(demand: Demand) -> None:
    assert not ROOMY.fits(demand)


def test_a_share_needs_one_card_with_that_much_free() -> None:
    assert not Machine(8000, 1024, (400, 400)).fits(Demand(1, 1, share_milli=500))
    assert not Machine(8000, 1024).fits(Demand(1, 1, share_milli=500))


@pytest.mark.parametrize(
    ("demand", "cards"), [(Demand(500, 24, gpus=1), (0,)), (Demand(500, 24, share_milli=300), (1,))]
)
def test_what_is_taken_and_given_back_leaves_the_machine_as_it_was(demand: Demand, cards: tuple[int, ...]) -> None:
    less = ROOMY.without(demand, cards)
    assert less.free_milli == ROOMY.free_milli - demand.gpu_milli
    assert less.with_back(demand, cards) == ROOMY


def test_more_than_there_is_is_not_taken_nor_given_back(golden: Golden) -> None:
    with pytest.raises(ValueError) as refused:
        ROOMY.without(Demand(1, 1, gpus=1), (1,))
    assert str(refused.value) == golden
    with pytest.raises(ValueError) as refused:
        ROOMY.with_back(Demand(1, 1, gpus=1), (0,))
    assert str(refused.value) == golden
    with pytest.raises(ValueError) as refused:
        ROOMY.without(Demand(9000, 1), ())
    assert str(refused.value) == golden


def test_shares_and_whole_gpus_are_not_asked_for_together(golden: Golden) -> None:
    with pytest.raises(ValueError) as refused:
        Demand(1, 1, gpus=1, share_milli=1)
    assert str(refused.value) == golden
    with pytest.raises(ValueError, match="999"):
        Demand(1, 1, share_milli=1000)
