"""Who has more of a card's memory than its part: told first, ended when it continues. Pure.

Time in excess is added up, and forgotten once a container has kept to its part for as long as it may exceed it: who
frees its memory for a moment whenever somebody looks gains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

LONGEST_STEP_S = 5.0
"""No more than this is held against a container between two readings: who looks may have been stopped meanwhile."""

Place: TypeAlias = tuple[str, int]
"""A container, and the index of a card."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a container has of a card's memory now, and what its part is, in MiB."""

    used_mib: int
    limit_mib: int

    @property
    def too_much(self) -> bool:
        """Return whether it has more than its part."""
        return self.used_mib > self.limit_mib


@dataclass(frozen=True, slots=True)
class Excess:
    """What is to be done about a container: tell it (`ends` is false), or end it."""

    container_id: str
    card: int
    holding: Holding
    ends: bool
    left_s: float
    """How long it may go on so."""

    @property
    def message(self) -> str:
        """Return it in words for its owner."""
        what = f"uses {self.holding.used_mib} MiB of the memory of GPU {self.card}, and its part is"
        so = "it was ended" if self.ends else f"it is ended unless it frees the rest within {self.left_s:g} s"
        return f"GPU memory: the task {what} {self.holding.limit_mib} MiB; {so}"


@dataclass(slots=True)
class _Account:
    over_s: float = 0.0
    within_s: float = 0.0
    told: bool = False
    ended: bool = False


@dataclass(slots=True)
class MemoryWatch:
    """Remembers who had too much and for how long; `grace_s` is how long that may be."""

    grace_s: float
    _accounts: dict[Place, _Account] = field(default_factory=dict)
    _looked_s: float | None = None

    def look(self, now_s: float, holdings: Mapping[Place, Holding]) -> list[Excess]:
        """Return whom to tell, and whom to end, each once. One that is not in `holdings` is forgotten."""
        passed_s = 0.0 if self._looked_s is None else min(LONGEST_STEP_S, max(0.0, now_s - self._looked_s))
        self._looked_s = now_s
        self._accounts = {place: account for place, account in self._accounts.items() if place in holdings}
        found = []
        for place, holding in sorted(holdings.items()):
            account = self._accounts.get(place)
            if account is None:
                if not holding.too_much:
                    continue
                account = self._accounts[place] = _Account()
            elif holding.too_much:
                account.over_s, account.within_s = account.over_s + passed_s, 0.0
            else:
                account.within_s += passed_s
                if account.within_s >= self.grace_s:
                    del self._accounts[place]
                continue
            excess = self._decide(place, holding, account)
            if excess is not None:
                found.append(excess)
        return found

    def _decide(self, place: Place, holding: Holding, account: _Account) -> Excess | None:
        left_s = max(0.0, self.grace_s - account.over_s)
        ends = account.told and not left_s  # told first, also without a grace
        if account.ended or (account.told and not ends):
            return None
        account.told, account.ended = True, ends
        return Excess(*place, holding, ends, round(left_s, 1))
