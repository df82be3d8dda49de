"""The search for the smallest change: the smallest steps first, until the instance starts. Pure.

What a way is, and whether an instance starts after it, differs: smallest.py matches the offer of one machine, and
`marathon.simulation` plays all decisions on a copy of the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

from mesos_gpu.marathon.why.change import Change, Step


class Way(Protocol):
    """Things as they are after some steps."""

    @property
    def starts(self) -> bool:
        """Whether the instance starts."""

    @property
    def change(self) -> Change:
        """The steps, and what else ends by them."""

    def following(self) -> Iterable[tuple[tuple[Any, ...], Step]]:
        """The steps that can follow, each with an order (`Change.order`) that no change that begins so is below."""

    def after(self, step: Step) -> Way | None:
        """The way after one more step; None if it is refused."""


def smallest_of(ways: Iterable[Way], tries: int) -> Change | None:
    """Return the smallest change after which an instance starts. After so many tries the smallest so far counts.

    Steps only make a change larger, so that the first ones that start are the smallest.
    """
    best: Change | None = None
    numbers = count()
    heap: list[tuple[tuple[Any, ...], int, Way, Step | None]] = []
    for way in ways:
        heappush(heap, (way.change.order, next(numbers), way, None))
    while heap and (best is None or heap[0][0] < best.order):
        _, _, way, step = heappop(heap)
        if step is not None:
            if tries <= 0:
                break
            tries -= 1
            after = way.after(step)
            if after is None:
                continue
            way = after
        if way.starts:
            best = way.change if best is None or way.change.order < best.order else best
            continue
        for least, following in way.following():
            heappush(heap, (least, next(numbers), way, following))
    return best
