"""Those that wait and ask for the very same, as lines: of a thousand in one line an offer is held against one. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Mapping
from heapq import heapify, heappop, heappush

from msgspec import Struct, field

from mesos_gpu.marathon.state.turns import Turn


class Lines(Struct, frozen=True):
    """Instances by what they have in common (`RunSpec.alike`), each line in the order in which they began to wait."""

    by_kind: Mapping[str, tuple[Turn, ...]] = field(default_factory=dict)

    def with_turn(self, kind: str, turn: Turn) -> Lines:
        """Return the lines with one more who waits."""
        line = self.by_kind.get(kind, ())
        at = bisect_left(line, turn)
        return Lines({**self.by_kind, kind: (*line[:at], turn, *line[at:])})

    def without(self, kind: str, turn: Turn) -> Lines:
        """Return the lines without one. Raises KeyError, or ValueError, where it is not in that line."""
        line = self.by_kind[kind]
        at = bisect_left(line, turn)
        if line[at : at + 1] != (turn,):
            raise ValueError(f"{turn} does not wait in this line")
        left = (*line[:at], *line[at + 1 :])
        others = {name: others for name, others in self.by_kind.items() if name != kind}
        return Lines({**self.by_kind, kind: left} if left else others)

    def in_turn(self) -> Generator[Turn, bool, None]:
        """Yield who is next of all, and take whether that one has found a place: if not, nobody of its line will."""
        heads = [(line[0], kind, 0) for kind, line in self.by_kind.items()]
        heapify(heads)
        while heads:
            turn, kind, at = heappop(heads)
            placed = yield turn
            line = self.by_kind[kind]
            if placed and at + 1 < len(line):
                heappush(heads, (line[at + 1], kind, at + 1))

    @property
    def last(self) -> Turn:
        """Return who came last of all."""
        return max(line[-1] for line in self.by_kind.values())
