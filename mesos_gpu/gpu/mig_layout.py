"""Which MIG instances are made and destroyed so that a GPU is divided as wished; none that is used is touched. Pure.

Sources: NVIDIA Multi-Instance GPU User Guide, "Partitioning" (profiles and their placements); nvml.h,
`nvmlGpuInstancePlacement_t`: an instance takes `size` memory slices from `start` on, and no two overlap.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any, Protocol

from mesos_gpu.errors import BadInput, Conflict

_WORD = re.compile(r"(?:(\d+)\s*x\s*)?(\d+g\.\d+gb(?:[+.-][\w.]+)*)(?::(\d+))?", re.IGNORECASE)


@dataclass(frozen=True)
class MigProfile:
    """A kind of instance that a GPU can hold. `starts`: the first slices it may begin at; it takes `size` of them.

    `most`: so many of it at a time. `id` is what NVML creates it by.
    """

    name: str
    id: int
    size: int
    starts: tuple[int, ...]
    most: int


@dataclass(frozen=True, order=True)
class Placed:
    """An instance of a profile at its place."""

    start: int
    size: int
    profile: str

    @property
    def slices(self) -> int:
        """Return the slices that it takes, as bits."""
        return ((1 << self.size) - 1) << self.start


@dataclass(frozen=True)
class Instance:
    """An instance that is there. `used`: a container holds it, or a process runs on it."""

    place: Placed
    id: int = -1
    used: str | None = None
    """By whom, in words."""
    uuid: str = ""
    """Of its MIG device; none while it has no compute instance."""


@dataclass(frozen=True)
class MigPlan:
    """What is to be done: destroy first, then create; all else stays as it is."""

    keep: tuple[Instance, ...]
    destroy: tuple[Instance, ...]
    create: tuple[Placed, ...]
    beyond: tuple[Instance, ...] = field(default=())
    """Of those kept: not wished for, but in use."""


class MigCard(Protocol):
    """A GPU in MIG mode while it is divided."""

    @property
    def uuid(self) -> str:
        """Return that of the whole GPU."""

    @property
    def model(self) -> str:
        """Return the name of the GPU."""

    @property
    def profiles(self) -> Sequence[MigProfile]:
        """Return the profiles that it has, with their places."""

    def instances(self) -> Sequence[Instance]:
        """Return the instances that are there, and by whom each is used. Raises DeviceError."""

    def create(self, place: Placed) -> None:
        """Make an instance there, of which all computes. All or nothing. Raises DeviceError."""

    def destroy(self, instance: Instance) -> None:
        """End an instance. Raises Conflict when something has begun to use it, DeviceError."""


Wanted = Mapping[str, int]


def read_wanted(text: str) -> dict[str, int]:
    """Return how many of each profile are wished for: `3g.20gb,2x1g.5gb`, `1g.5gb:2`, `none`. Raises BadInput."""
    if text.strip().lower() in ("none", ""):
        return {}
    wanted: Counter[str] = Counter()
    for word in text.split(","):
        match = _WORD.fullmatch(word.strip())
        if match is None:
            raise BadInput(
                f"'{word.strip()}' is not a MIG profile: write names such as 1g.5gb, 2x1g.5gb or 3g.20gb with commas"
            )
        wanted[match[2].lower()] += int(match[1] or 1) * int(match[3] or 1)
    return dict(wanted)


def plan(profiles: Sequence[MigProfile], there: Sequence[Instance], wanted: Wanted) -> MigPlan:
    """Return the plan that leaves every used instance where it is, destroys the fewest idle ones, and makes the rest.

    What is used counts as one of those wished for; where it is not wished for, it stays besides. Exact: if any division
    of the GPU has all that is wished for beside what is used, this finds one with the fewest destroyed.
    Raises BadInput for profiles that the GPU does not have, or that never fit it together; Conflict when what is used
    is in the way, naming the fewest instances whose end would help.
    """
    known = {profile.name.lower(): profile for profile in profiles}
    asked = {name.lower(): count for name, count in wanted.items() if count}
    missing = sorted(set(asked) - set(known))
    if missing:
        raise BadInput(f"this GPU has no profile {', '.join(missing)}; it has {', '.join(sorted(known)) or 'none'}")
    used = tuple(sorted((one for one in there if one.used is not None), key=_by_place))
    found = _divide(known, used, there, asked)
    if found is not None:
        return found
    room = _Room(known)
    if not room.has(asked, ()):
        raise BadInput(
            f"{words(asked)} do not fit this GPU together; what fits is a division such as {_largest(known)}"
        )
    for size in range(1, len(used) + 1):
        for ended in combinations(used, size):
            if room.has(asked, tuple(one for one in used if one not in ended)):
                names = "; ".join(f"{one.place.profile} at {one.place.start}, used by {one.used}" for one in ended)
                raise Conflict(
                    f"{words(asked)} need the place of what is in use: {names}. End that first, or wait for it"
                )
    raise AssertionError("with nothing in use a division was found")


def words(wanted: Wanted) -> str:
    """Return what is wished for as people write it."""
    return ",".join(f"{count}x{name}" if count > 1 else name for name, count in sorted(wanted.items())) or "none"


def plan_shown(made: MigPlan) -> dict[str, Any]:
    """Return a plan as JSON."""
    return {
        "keep": [{**_shown(one.place), "used_by": one.used or ""} for one in made.keep],
        "destroy": [_shown(one.place) for one in made.destroy],
        "create": [_shown(place) for place in made.create],
        "beyond": [_shown(one.place) for one in made.beyond],
    }


def _shown(place: Placed) -> dict[str, Any]:
    return {"profile": place.profile, "start": place.start, "size": place.size}


def states(profiles: Sequence[MigProfile]) -> Iterator[frozenset[Placed]]:
    """Yield every division that the GPU can have, the empty one first."""
    known = {profile.name: profile for profile in profiles}
    places = sorted(_places(known.values()))

    def more(begun: tuple[Placed, ...], at: int, taken: int, left: Mapping[str, int]) -> Iterator[frozenset[Placed]]:
        yield frozenset(begun)
        for index in range(at, len(places)):
            place = places[index]
            if place.slices & taken or not left[place.profile]:
                continue
            fewer = {**left, place.profile: left[place.profile] - 1}
            yield from more((*begun, place), index + 1, taken | place.slices, fewer)

    yield from more((), 0, 0, {name: profile.most for name, profile in known.items()})


def _end(profile: MigProfile) -> int:
    return max(profile.starts) + profile.size


def _by_place(instance: Instance) -> Placed:
    return instance.place


def _places(profiles: Iterable[MigProfile]) -> Iterator[Placed]:
    for profile in profiles:
        for start in profile.starts:
            yield Placed(start, profile.size, profile.name)


def _divide(
    known: Mapping[str, MigProfile], used: Sequence[Instance], there: Sequence[Instance], asked: Wanted
) -> MigPlan | None:
    """Return the best plan, or None when no division has it all."""
    held = Counter(one.place.profile.lower() for one in used)
    left = _to_place(known, used, asked)
    if left is None:
        return None
    idle = {one.place: one for one in there if one not in used}
    best = _best(known, *left, frozenset(idle))
    if best is None:
        return None
    chosen = set(best)
    over = held - Counter(asked)
    beyond = []
    for one in reversed(used):
        if over[one.place.profile.lower()] > 0:
            over[one.place.profile.lower()] -= 1
            beyond.append(one)
    return MigPlan(
        keep=tuple(sorted((*used, *(idle[place] for place in chosen if place in idle)), key=_by_place)),
        destroy=tuple(sorted((one for place, one in idle.items() if place not in chosen), key=_by_place)),
        create=tuple(sorted(chosen - set(idle))),
        beyond=tuple(sorted(beyond, key=_by_place)),
    )


Left = tuple[tuple[str, int], ...]
"""How many of each profile have no place yet."""


def _to_place(known: Mapping[str, MigProfile], used: Sequence[Instance], asked: Wanted) -> tuple[Left, int] | None:
    """Return what is to be placed beside what is used, the widest first, and the slices that are taken.

    None when the numbers alone say that it cannot be.
    """
    held = Counter(one.place.profile.lower() for one in used)
    left = [(name, count - held[name]) for name, count in asked.items() if count > held[name]]
    if any(count + held[name] > known[name].most for name, count in left):
        return None
    taken = sum(one.place.slices for one in used)
    needed = sum(known[name].size * count for name, count in left)
    if needed > max(map(_end, known.values())) - taken.bit_count():
        return None
    # Of the widest there are the fewest places: fewer ways are tried in vain.
    return tuple(sorted(left, key=lambda one: (-known[one[0]].size, one))), taken


class _Room:
    """Whether instances find room. What was tried is remembered: refusals ask for much that is alike."""

    def __init__(self, known: Mapping[str, MigProfile]) -> None:
        self._known = known
        self._options = {name: tuple(place.slices for place in _places([one])) for name, one in known.items()}
        self._tried: dict[tuple[Left, int, int], bool] = {}

    def has(self, asked: Wanted, used: Sequence[Instance]) -> bool:
        """Return whether some division has all that is asked for beside what is used."""
        left = _to_place(self._known, used, asked)
        return left is not None and self._fits(*left, 0)

    def _fits(self, left: Left, taken: int, first: int) -> bool:
        if not left:
            return True
        key = left, taken, first
        if key not in self._tried:
            (name, count), *others = left
            rest = ((name, count - 1), *others) if count > 1 else tuple(others)
            self._tried[key] = any(
                not slices & taken and self._fits(rest, taken | slices, first + at + 1 if count > 1 else 0)
                for at, slices in enumerate(self._options[name][first:])
            )
        return self._tried[key]


def _best(
    known: Mapping[str, MigProfile], to_place: Left, taken: int, idle: frozenset[Placed]
) -> tuple[Placed, ...] | None:
    """Return places for all of `to_place` in free slices that keep the most of what is idle there already."""
    options = {name: tuple(_places([known[name]])) for name, _ in to_place}

    @cache
    def rest(left: Left, taken: int, first: int) -> tuple[int, tuple[Placed, ...]] | None:
        if not left:
            return 0, ()
        (name, count), *others = left
        best: tuple[int, tuple[Placed, ...]] | None = None
        for index in range(first, len(options[name])):
            place = options[name][index]
            if place.slices & taken:
                continue
            if count > 1:
                further = rest(((name, count - 1), *others), taken | place.slices, index + 1)
            else:
                further = rest(tuple(others), taken | place.slices, 0)
            if further is None:
                continue
            kept = further[0] + (place in idle)
            if best is None or kept > best[0]:
                best = kept, (place, *further[1])
        return best

    found = rest(to_place, taken, 0)
    return None if found is None else found[1]


def _largest(known: Mapping[str, MigProfile]) -> str:
    """Return a full division in words, for advice: as many as there may be of the smallest profile."""
    smallest = min(known.values(), key=lambda profile: (profile.size, -profile.most, profile.name))
    return words({smallest.name: smallest.most})
