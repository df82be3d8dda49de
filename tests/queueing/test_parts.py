"""Who gives up parts of shared GPUs: the fewest whose suspension lets a task of high priority start."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.queueing.parts import PartAsk, Sharer, fits, who_is_suspended


def test_nobody_is_suspended_where_it_fits_or_where_that_is_in_vain() -> None:
    small = Sharer("small", "m", {0: (4, 1)})
    assert who_is_suspended(PartAsk((6,), 1), {"m": {0: (6, 1)}}, [small]) == ()
    assert who_is_suspended(PartAsk((6,), 1), {"m": {0: (1, 1)}}, [small]) == ()
    assert who_is_suspended(PartAsk((6,), 3), {"m": {0: (6, 1)}}, [small]) == (), "slices count, too"
    assert who_is_suspended(PartAsk((6,), 2), {"m": {0: (6, 1)}}, [small]) == ("small",)


def test_the_smallest_one_that_is_enough_goes_and_of_equal_ones_the_youngest() -> None:
    tasks = [
        Sharer("large", "m", {0: (9, 1)}),
        Sharer("old", "m", {0: (5, 1)}, since_s=1.0),
        Sharer("young", "m", {0: (5, 1)}, since_s=2.0),
        Sharer("elsewhere", "other", {0: (5, 1)}, since_s=3.0),
        Sharer("other card", "m", {1: (5, 1)}, since_s=4.0),
    ]
    assert who_is_suspended(PartAsk((5,), 1), {"m": {0: (0, 0)}}, tasks) == ("young",)
    assert who_is_suspended(PartAsk((10,), 1), {"m": {0: (0, 0)}}, tasks) == ("large", "young")
    assert who_is_suspended(PartAsk((5, 5), 1), {"m": {0: (0, 0), 1: (0, 0)}}, tasks) == ("large", "other card")


AMOUNT = st.tuples(st.integers(0, 6), st.integers(0, 3))
SHARERS = st.lists(
    st.tuples(st.sampled_from(["m", "n"]), st.dictionaries(st.integers(0, 1), AMOUNT, min_size=1)), max_size=5
)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=2),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from(["m", "n"]), st.dictionaries(st.integers(0, 1), AMOUNT, min_size=1)),
    SHARERS,
)
def test_who_goes_is_enough_and_nobody_goes_needlessly(
    amounts: list[int],
    weight: int,
    rooms: dict[str, dict[int, tuple[int, int]]],
    drawn: list[tuple[str, dict[int, tuple[int, int]]]],
) -> None:
    ask = PartAsk(tuple(amounts), weight)
    tasks = [Sharer(str(number), machine, parts) for number, (machine, parts) in enumerate(drawn)]

    def enough(machine: str, gone: tuple[Sharer, ...]) -> bool:
        room = dict(rooms[machine])
        for one in gone:
            for card, (memory, slices) in one.parts.items():
                if card in room:
                    room[card] = (room[card][0] + memory, room[card][1] + slices)
        return fits(ask, room)

    chosen = tuple(task for task in tasks if task.unit in who_is_suspended(ask, rooms, tasks))
    here = {machine: [task for task in tasks if task.machine == machine] for machine in rooms}
    if any(enough(machine, ()) for machine in rooms):
        assert chosen == ()
    elif chosen:
        (machine,) = {task.machine for task in chosen}
        assert enough(machine, chosen)
        assert not any(enough(machine, tuple(t for t in chosen if t is not one)) for one in chosen)
    else:
        ways = (
            way
            for one, found in here.items()
            for count in range(len(found) + 1)
            for way in combinations(found, count)
            if enough(one, way)
        )
        assert next(ways, None) is None, "somebody could have made room"
