"""Units in the place of those of suspended tasks: a master gives no card twice, whatever is suspended and resumed."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.displaced import free_of, places_again, with_displaced
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard, offered, parts, units

CARDS = {index: SharedCard(index, f"GPU-{index}", 4096, 5) for index in (2, 3)}
LIKE = {2: [2, 3], 3: [2, 3]}
FLAGS = Resources.parse(offered(list(CARDS.values())))
NOTHING = Resources()


def part(card: int, mem: int, weight: int = 1) -> CardPart:
    return CardPart(card, mem, weight)


def text(*numbers: str) -> Resources:
    return Resources.parse(f"gpu_mem:[{numbers[0]}];gpu_slices:[{numbers[1]}]")


def now(live: Resources, away: Resources = NOTHING, *shares: Share) -> Resources:
    return with_displaced(
        FLAGS, CARDS.values(), live=live, kept=Resources(), over=Resources(), away=away, displaced=shares
    )


def test_without_a_suspended_task_all_is_as_the_flags_say() -> None:
    assert now(Resources()) == FLAGS
    assert now(text("2000-2002", "2004-2004")) == FLAGS


def test_what_a_suspended_task_gave_back_is_offered_by_other_numbers_of_its_card() -> None:
    booked = text("2000-2002", "2000-2001")
    found = now(booked, booked, Share((), booked=(part(2, 3, 2),)))
    assert found == text("2000-2006,3000-3003", "2000-2006,3000-3004")
    assert parts(found - booked) == (part(2, 4, 5), part(3, 4, 5))


def test_a_task_that_was_moved_takes_of_its_new_card_and_leaves_its_old_one() -> None:
    booked = text("2000-2002", "2000-2001")
    found = now(booked, booked, Share((part(3, 3, 2),), booked=(part(2, 3, 2),)))
    assert parts(found - booked) == (part(2, 4, 5), part(3, 1, 3))


def test_numbers_that_others_were_given_meanwhile_stay_theirs() -> None:
    booked, other = text("2000-2001", "2000-2001"), text("2004-2005", "2005-2006")
    found = now(booked + other)  # the first has its card again
    assert found.contains(booked + other)
    assert found - booked - other == text("3000-3003", "2002-2002,3000-3004")


def test_what_is_reserved_or_has_just_ended_stays_among_what_there_is() -> None:
    live, other = text("2000-2003", "2000-2000"), text("2006-2006", "2001-2001")
    for more in ({"kept": other, "over": NOTHING}, {"kept": NOTHING, "over": other}):
        found = with_displaced(FLAGS, CARDS.values(), live=live, away=live, displaced=[Share((), booked=())], **more)
        assert found.contains(live + other)
        assert [len(positions) for positions in units(found - live, "gpu_mem").values()] == [4, 4]


def test_of_what_a_suspended_task_had_that_has_ended_no_more_stays_than_nobody_has_of_the_card() -> None:
    over = text("2000-2002", "2000-2001")
    for taken, left in (
        ("2003-2006", "3000-3003"),
        ("2003-2004", "2000-2001,3000-3003"),
        ("2003-2003", "2000-2002,3000-3003"),
    ):
        live = text(taken, "2002-2002")
        found = with_displaced(FLAGS, CARDS.values(), live=live, kept=NOTHING, over=over, away=NOTHING, displaced=[])
        assert found - live == text(left, "2000-2001,2003-2004,3000-3004")
    # What is reserved is there all the same, and leaves less for others.
    found = with_displaced(FLAGS, CARDS.values(), live=NOTHING, kept=over, over=over, away=NOTHING, displaced=[])
    assert found == FLAGS


def test_what_a_container_holds_for_a_task_that_has_ended_is_not_offered() -> None:
    live = text("2000-2000", "2000-2000")
    found = with_displaced(
        FLAGS, CARDS.values(), live=live, kept=NOTHING, over=NOTHING, away=NOTHING, displaced=[], lingering=[part(2, 2)]
    )
    assert parts(found - live) == (part(2, 1, 3), part(3, 4, 5))


def test_parts_come_back_where_they_were_else_on_the_fullest_card_like_it() -> None:
    asked = (part(2, 3, 2),)
    free = {2: (3, 2), 3: (4, 5)}
    assert places_again(asked, CARDS, free, LIKE) == asked
    assert places_again(asked, CARDS, {**free, 2: (3, 1)}, LIKE) == (part(3, 3, 2),)
    assert places_again(asked, CARDS, {3: (4, 5)}, {2: [2], 3: [3]}) is None
    assert places_again(asked, CARDS, {}, LIKE) is None
    both = (part(2, 3), part(3, 1))
    assert places_again(both, CARDS, {2: (1, 5), 3: (4, 5)}, LIKE) == (part(3, 3), part(2, 1))


@dataclass
class World:
    """A master that counts by numbers, and an agent whose isolator counts what containers have."""

    total: Resources = FLAGS
    tasks: dict[int, Resources] = field(default_factory=dict)
    shares: dict[int, Share] = field(default_factory=dict)

    def advertise(self) -> None:
        displaced = {one: share for one, share in self.shares.items() if share.booked}
        away = sum((self.tasks[one] for one in displaced), Resources())
        live = sum(self.tasks.values(), Resources())
        self.total = with_displaced(
            self.total,
            CARDS.values(),
            live=live,
            kept=Resources(),
            over=Resources(),
            away=away,
            displaced=displaced.values(),
        )

    def launch(self, number: int, card: int, mem: int, weight: int) -> None:
        free = self.total - sum(self.tasks.values(), Resources())
        memory, slices = units(free, "gpu_mem").get(card, []), units(free, "gpu_slices").get(card, [])
        if number in self.tasks or len(memory) < mem or len(slices) < weight:
            return
        numbers = [
            ",".join(f"{card * 1000 + at}-{card * 1000 + at}" for at in found)
            for found in (memory[-mem:], slices[:weight])
        ]
        self.tasks[number] = text(*numbers)
        self.shares[number] = Share((part(card, mem, weight),))

    def step(self, what: str, number: int, card: int, mem: int, weight: int) -> None:
        share = self.shares.get(number)
        if what == "launch":
            self.launch(number, card, mem, weight)
        elif share is None:
            return
        elif what == "end":
            del self.shares[number], self.tasks[number]
        elif what == "suspend":
            self.shares[number] = share.moved(())
        elif not share.parts:
            others = [other for one, other in self.shares.items() if one != number]
            again = places_again(share.asked, CARDS, free_of(CARDS.values(), others), LIKE)
            self.shares[number] = share if again is None else share.moved(again)
        self.advertise()

    def look(self) -> None:
        used = sum(self.tasks.values(), Resources())
        assert self.total.contains(used)
        free = self.total - used
        for card, (memory, slices) in free_of(CARDS.values(), self.shares.values()).items():
            assert memory >= 0 <= slices, "a card is given twice"
            offered_now = [len(units(free, name).get(card, [])) for name in ("gpu_mem", "gpu_slices")]
            assert offered_now == [memory, slices], "what is offered is what nobody has"


STEPS = st.tuples(
    st.sampled_from(["launch", "launch", "suspend", "resume", "end"]),
    st.integers(0, 4),
    st.sampled_from([2, 3]),
    st.integers(1, 3),
    st.integers(1, 3),
)


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=25))
def test_at_every_moment_as_much_is_offered_as_nobody_has(steps: list[tuple[str, int, int, int, int]]) -> None:
    world = World()
    for step in steps:
        world.step(*step)
        world.look()
    for number in list(world.tasks):
        world.step("end", number, 2, 1, 1)
    assert world.total == FLAGS, "after the last of them numbers are as the flags say"
