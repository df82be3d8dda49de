"""Which ratios have moved since they were kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.kept.figures import Figure

QUARTER = 1.25


@dataclass(frozen=True, slots=True)
class Moved:
    """A ratio that is more than a quarter of what it was away from it."""

    key: str
    what: str
    was: float
    now: float
    worse: bool

    def sentence(self) -> str:
        """Return it in words."""
        word = "worse" if self.worse else "better"
        return f"{word}: {self.key} ({self.what}): ratio {self.was:.3g} -> {self.now:.3g}"


def ratios(figures: Sequence[Figure]) -> dict[str, float]:
    """Return the ratios by key; figures without one are left out, since machines differ in all else."""
    return {one.key: one.ratio for one in figures if one.ratio is not None}


def moved(kept: Mapping[str, float], figures: Sequence[Figure]) -> list[Moved]:
    """Return which ratios are more than a quarter larger than they were, or smaller by as much.

    As much: 1 to 1.25 and 1.25 to 1 are one step, so 0.8 is a quarter away from 1, not 0.75.
    """
    found = []
    for one in figures:
        was = kept.get(one.key)
        if was is None or one.ratio is None or was <= 0 or one.ratio <= 0:
            continue
        if not 1 / QUARTER <= one.ratio / was <= QUARTER:
            worse = (one.ratio > was) == (one.better == "less")
            found.append(Moved(one.key, one.what, was, one.ratio, worse))
    return found


def both(first: Sequence[Moved], second: Sequence[Moved]) -> list[Moved]:
    """Return what moved in the same direction in two runs, as the second has it."""
    before = {one.key: one.worse for one in first}
    return [one for one in second if before.get(one.key) is one.worse]


def not_measured(kept: Mapping[str, float], figures: Sequence[Figure]) -> list[str]:
    """Return the keys that were kept and that this run has no ratio for."""
    return sorted(kept.keys() - ratios(figures).keys())


def not_kept(kept: Mapping[str, float], figures: Sequence[Figure]) -> list[str]:
    """Return the keys of this run that nothing was kept for."""
    return sorted(ratios(figures).keys() - kept.keys())
