"""cGPU's six policies: which part of a card each of its containers is to have. Pure.

Source: "cGPU computing power scheduling policies", help.aliyun.com; the numbers are those of /proc/cgpu_km/N/policy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum


class Policy(IntEnum):
    """How containers take turns; the numbers are cGPU's."""

    FAIR = 0
    """A slice each of max_inst; what nobody owns stays empty."""
    PREEMPTIVE = 1
    """Equal parts among those that have work."""
    WEIGHTED = 2
    """Parts by weight among those that have the card open; an idle one keeps its slices."""
    FIXED = 3
    """Weight of max_inst, never more."""
    WEAK = 4
    """Equal parts among those that have work, by freezing only who is ahead."""
    NATIVE = 5
    """The driver decides."""


FIXED_PARTS = (Policy.FAIR, Policy.FIXED)
"""Those in which a part is one of the card, not one among those present."""


@dataclass(frozen=True, slots=True)
class Member:
    """A container of a card. One that is `held` is not frozen now: it is being killed, checked or entered."""

    id: str
    weight: int = 1
    high: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class CardRules:
    """How a card is shared: a slice is `slice_s` long; highs may take `prio_ratio` percent while they have work."""

    policy: Policy = Policy.PREEMPTIVE
    slice_s: float = 0.02
    max_inst: int = 25
    prio_ratio: int = 90

    def effective(self, members: Collection[Member]) -> Policy:
        """Return the policy that counts: preemptive becomes weighted with a weight above 1, as in cGPU."""
        if self.policy is Policy.PREEMPTIVE and any(member.weight > 1 for member in members):
            return Policy.WEIGHTED
        return self.policy


@dataclass(frozen=True, slots=True)
class Plan:
    """Which part each contender is to have, how many slices it has a round, and how long a round is.

    `absolute`: something stays empty, so that parts are of the time that goes by; else they are of what is used.
    """

    parts: Mapping[str, float]
    turns_s: Mapping[str, float]
    round_s: float
    absolute: bool = False


def plan(rules: CardRules, members: Collection[Member], opened: Collection[str], working: Collection[str]) -> Plan:
    """Return what is to be; empty when nobody needs to be frozen: everybody is idle, alone, or left to the driver.

    `opened` are those that have the card open, `working` those that have had work of late.
    """
    policy = rules.effective(members)
    nobody = Plan({}, {}, rules.slice_s)
    if policy is Policy.NATIVE or not working:
        return nobody
    fixed = policy in FIXED_PARTS
    present = working if policy in (Policy.PREEMPTIVE, Policy.WEAK) else {*opened, *working}
    contenders = [member for member in members if fixed or member.id in present]
    if not fixed and len(contenders) < 2:
        return nobody
    weighted = policy in (Policy.WEIGHTED, Policy.FIXED)
    slices = {member.id: member.weight if weighted else 1 for member in contenders}
    owned = sum(slices.values())
    count = max(rules.max_inst, owned) if fixed else owned
    parts = {member.id: slices[member.id] / count for member in contenders}
    parts = _with_priority(rules, contenders, parts, slices, working)
    round_s = rules.slice_s * count
    turns = {one: part * round_s for one, part in parts.items()}
    empty = sum(parts.values()) < 1 - 1e-9 or not parts.keys() <= set(working)
    return Plan(parts, turns, round_s, absolute=empty)


def _with_priority(
    rules: CardRules,
    contenders: Collection[Member],
    parts: Mapping[str, float],
    slices: Mapping[str, int],
    working: Collection[str],
) -> dict[str, float]:
    """Give highs that have work `prio_ratio` of the card, shared among them by slices; others what is left of theirs.

    A high without work takes nothing.
    """
    high = [member.id for member in contenders if member.high and member.id in working]
    others = [member.id for member in contenders if not member.high]
    idle = [member.id for member in contenders if member.high and member.id not in working]
    if not high or not any(one in working for one in others):
        return dict(parts)
    ratio = rules.prio_ratio / 100
    of_high, of_others = sum(slices[one] for one in high), sum(parts[one] for one in others)
    rest = (1 - ratio) * min(1.0, of_others / max(1e-9, 1.0 - sum(parts[one] for one in [*high, *idle])))
    return {
        **{one: ratio * slices[one] / of_high for one in high},
        **{one: rest * parts[one] / of_others for one in others},
    }
