"""Which cards of one machine go together: the best connected set, and of those the one that leaves the rest whole.

Cards are positions 0, 1, ... in a table of ties. Nothing here knows what a card is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

from msgspec import Struct

Tie = tuple[int, int]
"""How two cards are connected: NVLinks, then nearness over PCIe; more is better. Nearness may be below 0."""

Ties = Sequence[Sequence[Tie]]
"""By two positions; the same both ways, and of a card with itself nothing that counts."""

ALWAYS_EXACT = 16
"""Among so many cards the best set is found, whatever its size."""
MOST_SETS = 2000
"""Among more cards it is found while there are at most so many sets; else cards are added one by one, which may
miss it."""
MOST_STEPS = 100_000
"""Bounds adding one by one: the number of cards to start from is cut so that there are about as many comparisons."""


def best_set(ties: Ties, count: int) -> tuple[int, ...]:
    """Return the `count` positions that are best connected with each other, lowest first.

    A set is as fast as its weakest pair, so that is compared first, by NVLinks, then nearness. Then all NVLinks of the
    set count, then how near all its pairs are. Of sets as good as each other the one is taken that leaves the rest
    least broken: it has the fewest NVLinks to cards that are not taken, then is farthest from them. Between equals the
    lowest positions win. Raises ValueError when `count` is negative or more than there are.
    """
    size = len(ties)
    if not 0 <= count <= size:
        raise ValueError(f"{count} of {size} cards cannot be chosen")
    if count in (0, size):
        return tuple(range(count))
    worth = _worth(ties)
    if count == 1:
        return (min(range(size), key=worth.apart.__getitem__),)
    if size <= ALWAYS_EXACT or comb(size, count) <= MOST_SETS:
        return _exact(ties, worth, count)
    return _one_by_one(ties, worth, count)


class _Worth(Struct, frozen=True):
    """What sets are compared by once their weakest pairs are alike, as one number: the sum of `pair` over the pairs in
    the set less the sum of `apart` over its cards. Each of the four counts outweighs all that come after it.
    """

    pair: Sequence[Sequence[int]]
    apart: Sequence[int]
    """By card, its ties to all others. Of sets that have the same within, this tells what they have to the rest."""


def _worth(ties: Ties) -> _Worth:
    size = len(ties)
    pairs = [ties[one][other] for one, other in combinations(range(size), 2)]
    lowest = min((nearness for _, nearness in pairs), default=0)
    # A set of a given size has a given number of pairs, so adding the same to each changes no order.
    near = [[tie[1] - lowest for tie in row] for row in ties]
    others = [[other for other in range(size) if other != one] for one in range(size)]
    all_links = [sum(ties[one][other][0] for other in others[one]) for one in range(size)]
    all_near = [sum(near[one][other] for other in others[one]) for one in range(size)]
    links_apart = 1 + sum(all_near)
    nearness = links_apart * (1 + sum(all_links))
    nvlinks = nearness * (1 + sum(all_near))
    return _Worth(
        [[nvlinks * ties[one][other][0] + nearness * near[one][other] for other in range(size)] for one in range(size)],
        [links_apart * all_links[one] + all_near[one] for one in range(size)],
    )


def _exact(ties: Ties, worth: _Worth, count: int) -> tuple[int, ...]:
    size = len(ties)
    weakest = sorted({ties[one][other] for one, other in combinations(range(size), 2)}, reverse=True)
    for bound in weakest:
        joined = [[one != other and ties[one][other] >= bound for other in range(size)] for one in range(size)]
        found = _Search(joined, worth, count).run()
        if found is not None:
            return found
    raise AssertionError("the weakest pair of all bounds every set")


class _Search:
    """The worthiest set in which all are `joined` with each other: all of them, but those that cannot be better.

    Sets come lowest first, and a later one must be better, so of equals the lowest is kept.
    """

    def __init__(self, joined: Sequence[Sequence[bool]], worth: _Worth, count: int) -> None:
        self._joined, self._worth, self._count = joined, worth, count
        self._found: tuple[int, ...] | None = None
        self._most = 0

    def run(self) -> tuple[int, ...] | None:
        """Return it; None when there is no such set."""
        self._grow((), 0, {card: -apart for card, apart in enumerate(self._worth.apart)})
        return self._found

    def _grow(self, chosen: tuple[int, ...], value: int, gains: dict[int, int]) -> None:
        """Look at the sets that begin with `chosen`. `gains`: what each card that may come next would add to it."""
        missing = self._count - len(chosen)
        if not missing:
            if self._found is None or value > self._most:
                self._found, self._most = chosen, value
            return
        pair, joined = self._worth.pair, self._joined
        while len(gains) >= missing:
            if self._found is not None and 2 * value + self._bound(gains, missing) <= 2 * self._most:
                return
            card = next(iter(gains))
            gain = gains.pop(card)
            row, linked = pair[card], joined[card]
            further = {other: added + row[other] for other, added in gains.items() if linked[other]}
            self._grow((*chosen, card), value + gain, further)

    def _bound(self, gains: dict[int, int], missing: int) -> int:
        """Return twice what `missing` of these cards can add at most: each with the best of its pairs among them."""
        if missing == 1:
            return 2 * max(gains.values())
        pair = self._worth.pair
        bounds = []
        for card, gain in gains.items():
            row = pair[card]
            best = sorted([row[other] for other in gains if other != card], reverse=True)
            bounds.append(2 * gain + sum(best[: missing - 1]))
        bounds.sort(reverse=True)
        return sum(bounds[:missing])


def _one_by_one(ties: Ties, worth: _Worth, count: int) -> tuple[int, ...]:
    size = len(ties)
    starts = range(min(size, max(1, MOST_STEPS // (size * count))))
    grown = [_grown(ties, worth, start, count) for start in starts]
    most = max(score for score, _ in grown)
    return min(chosen for score, chosen in grown if score == most)


_Score = tuple[Tie, int]
"""The weakest pair, and the worth of a set."""


def _grown(ties: Ties, worth: _Worth, start: int, count: int) -> tuple[_Score, tuple[int, ...]]:
    """Return the set that comes of adding to `start`, again and again, the card that leaves the set best connected."""
    chosen = [start]
    value = -worth.apart[start]
    # What the set would be with each of the others: kept as it grows, so that a step looks at each of them once.
    outside = {
        card: (ties[card][start], value - worth.apart[card] + worth.pair[card][start])
        for card in range(len(ties))
        if card != start
    }
    score: _Score = ((0, 0), value)
    while len(chosen) < count:
        added = max(outside, key=lambda card: (outside[card], -card))
        before, score = score[1], outside.pop(added)
        chosen.append(added)
        outside = {
            card: (min(score[0], weakest, ties[card][added]), score[1] + reached - before + worth.pair[card][added])
            for card, (weakest, reached) in outside.items()
        }
    return score, tuple(sorted(chosen))
