"""Whose turn it is on a shared card: a ring with accounts, that time and meters are told to. Pure.

A turn is as long as the part of a round that a container is to have, and what it is owed: the part of what was used
that it did not get, or minus what it had too much. So a container that queues work before it is frozen pays for
it later, and a switch that takes long is made good. Nobody is frozen where nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mesos_gpu.sharing.policies import CardRules, Member, Plan, Policy, plan

MOST_DEBT_S = 10.0
"""No more is held against a container: one endless kernel does not freeze it for the rest of the day."""
LONGEST_FROZEN_S = 5.0
"""Who was frozen for so long has a short turn, whatever it owes: heartbeats and timers go on."""
QUIET_TURNS = 2
"""Turns without any use after which a container counts as idle."""
IDLE_POLL_S = 0.05
"""How often meters are read while nobody waits: longer than that nobody has a card alone."""
_BUSY = 0.6
"""A card that is used for less than this part of a turn was free for who had it."""
_LEAST = 0.2
"""A turn shorter than this part of a slice is not worth a switch."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a meter says of a container: seconds of the card that it has used in all, and whether it has it open.

    `waiting`: the meter can tell that it has work queued.
    """

    used_s: float
    open: bool = True
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """Who may run until when; everybody else of the card is frozen. `owner` is None when nobody has the card alone."""

    thawed: frozenset[str]
    until_s: float
    owner: str | None = None


@dataclass(slots=True)
class _Account:
    read_s: float | None = None
    given_s: float = 0.0
    """What it has used since it came."""
    owed_s: float = 0.0
    open: bool = True
    working: bool = False
    leisurely: bool = False
    """In its last turn the card was free for much of the time."""
    quiet: int = 0
    frozen_since_s: float | None = None
    frozen_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of a container: the part it is to have now, seconds used and frozen, what it is owed."""

    part: float
    used_s: float
    frozen_s: float
    owed_s: float
    working: bool


@dataclass(slots=True)
class Ring:
    """One card. `decide` is asked at each end of a turn and after each change, with the time and what meters say."""

    rules: CardRules = field(default_factory=CardRules)
    _members: dict[str, Member] = field(default_factory=dict)
    _accounts: dict[str, _Account] = field(default_factory=dict)
    _turn: Turn = field(default_factory=lambda: Turn(frozenset(), 0.0))
    _plan: Plan = field(default_factory=lambda: Plan({}, {}, 0.02))
    _now_s: float | None = None
    _spent_s: float = 0.0
    """How long turns of this round have been."""
    _last: str = ""
    """Who had the last turn; "" at a round's begin."""
    _changed: bool = True

    def set_rules(self, rules: CardRules) -> None:
        """Share by other rules from the next `decide` on; debts under others are forgotten."""
        if rules != self.rules:
            self.rules, self._changed = rules, True
            for account in self._accounts.values():
                account.owed_s = 0.0

    def set_members(self, members: Iterable[Member]) -> None:
        """Have exactly these containers from the next `decide` on."""
        new = {member.id: member for member in members}
        if new != self._members:
            self._changed = self._changed or set(new) != set(self._members) or self._weights(new) != self._weights()
            self._members = new
            self._accounts = {one: self._accounts.get(one, _Account()) for one in new}

    @property
    def members(self) -> tuple[Member, ...]:
        """Return its containers."""
        return tuple(self._members.values())

    def figures(self) -> dict[str, Figures]:
        """Return what became of each container as of the last `decide`."""
        return {
            one: Figures(
                self._plan.parts.get(one, 1.0 if not self._plan.parts else 0.0),
                account.given_s,
                account.frozen_s,
                account.owed_s,
                account.working,
            )
            for one, account in self._accounts.items()
        }

    def decide(self, now_s: float, readings: Mapping[str, Reading]) -> Turn:
        """Return whose turn it is now. A turn that is not over continues, unless members or rules have changed."""
        over = now_s >= self._turn.until_s - 1e-9
        self._settle(now_s, readings, over=over)
        working = {one for one, account in self._accounts.items() if account.working}
        opened = {one for one, account in self._accounts.items() if account.open}
        new = plan(self.rules, self._members.values(), opened, working)
        if new.parts.keys() != self._plan.parts.keys():
            over = True
        self._plan = new
        if over or self._changed or (self._turn.owner or next(iter(self._members), "")) not in self._members:
            self._turn = self._next(now_s, working)
        else:
            self._turn = Turn(self._turn.thawed & set(self._members), self._turn.until_s, self._turn.owner)
        self._changed = False
        held = frozenset(one for one, member in self._members.items() if member.held)
        self._turn = Turn(self._turn.thawed | held, self._turn.until_s, self._turn.owner)
        for one, account in self._accounts.items():
            if one in self._turn.thawed:
                account.frozen_since_s = None
            elif account.frozen_since_s is None:
                account.frozen_since_s = now_s
        return self._turn

    def _weights(self, members: Mapping[str, Member] | None = None) -> dict[str, tuple[int, bool]]:
        these = self._members if members is None else members
        return {one: (member.weight, member.high) for one, member in these.items()}

    def _settle(self, now_s: float, readings: Mapping[str, Reading], *, over: bool) -> None:
        """Book what was used since the last time, and what each was to have of it."""
        passed_s = 0.0 if self._now_s is None else max(0.0, now_s - self._now_s)
        self._now_s = now_s
        used: dict[str, float] = {}
        for one, account in self._accounts.items():
            reading = readings.get(one)
            if reading is None:
                used[one] = 0.0
                continue
            before = reading.used_s if account.read_s is None else account.read_s
            used[one] = max(0.0, reading.used_s - before)
            account.read_s, account.open = reading.used_s, reading.open
            account.given_s += used[one]
            if account.frozen_since_s is not None:
                account.frozen_s += passed_s
        free = sum(used.values()) < passed_s * _BUSY
        owner = self._accounts.get(self._turn.owner or "")
        if over and owner is not None:
            owner.leisurely = free
        for one, account in self._accounts.items():
            waits = one in readings and readings[one].waiting
            self._look(one, account, works=waits or used[one] > 0, over=over and free)
        self._book(passed_s, used)

    def _look(self, one: str, account: _Account, *, works: bool, over: bool) -> None:
        """Return whether it has work: it does, or had a whole turn for it while the card was free, and did nothing."""
        if works:
            account.working, account.quiet = True, 0
        elif over and one in self._turn.thawed and self._turn.owner in (None, one):
            account.quiet += 1
            if account.quiet >= QUIET_TURNS:
                account.working = False

    def _book(self, passed_s: float, used: Mapping[str, float]) -> None:
        parts, total = self._plan.parts, sum(used.values())
        for one, account in self._accounts.items():
            part = parts.get(one, 0.0)
            due = part * (passed_s if self._plan.absolute else total)
            if parts:
                account.owed_s += due - used[one]
            # Who leaves the card free in its own turn has no claim to what it did not use.
            most = self._plan.turns_s.get(one, 0.0) if account.leisurely else MOST_DEBT_S
            most = most if account.working else 0.0
            account.owed_s = max(-MOST_DEBT_S, min(most, account.owed_s))
            if not parts:
                account.owed_s = 0.0  # nobody waits: what is used is nobody's loss
        present = [self._accounts[one] for one in parts if one in self._accounts]
        if present and not self._plan.absolute:
            # Where claims lapsed, all may be in debt: to whom? They start again from the least.
            least_debt_s = min(0.0, max(account.owed_s for account in present))
            for account in present:
                account.owed_s -= least_debt_s

    def _next(self, now_s: float, working: set[str]) -> Turn:
        everybody = frozenset(self._members)
        if not self._plan.parts:
            self._spent_s, self._last = 0.0, ""
            wait = IDLE_POLL_S if self.rules.policy is not Policy.NATIVE else 10 * IDLE_POLL_S
            return Turn(everybody, now_s + max(wait, 0.0))
        idle = frozenset(everybody - working)
        if self.rules.effective(self._members.values()) is Policy.WEAK:
            return Turn(
                frozenset(one for one in everybody if not self._is_ahead(one)) | idle, now_s + self.rules.slice_s
            )
        least = self.rules.slice_s * _LEAST
        late = [one for one in self._plan.parts if self._frozen_for(one, now_s) > LONGEST_FROZEN_S]
        if late:
            return self._turn_of(late[0], max(least, self._length(late[0])), now_s, idle)
        order = list(self._plan.parts)
        at = order.index(self._last) + 1 if self._last in order else 0
        for one in order[at:]:
            if self._length(one) >= least:
                return self._turn_of(one, self._length(one), now_s, idle)
        gap = self._plan.round_s - self._spent_s
        self._spent_s, self._last = 0.0, ""
        if self._plan.absolute and gap > least:
            return Turn(idle, now_s + gap, "")
        for one in order:
            if self._length(one) >= least:
                return self._turn_of(one, self._length(one), now_s, idle)
        if self._plan.absolute:
            return Turn(idle, now_s + self.rules.slice_s, "")
        most = max(order, key=lambda one: self._accounts[one].owed_s)
        return self._turn_of(most, self.rules.slice_s, now_s, idle)

    def _turn_of(self, one: str, length_s: float, now_s: float, idle: frozenset[str]) -> Turn:
        self._last = one
        self._spent_s += length_s
        return Turn(idle | {one}, now_s + length_s, one)

    def _length(self, one: str) -> float:
        turn_s = self._plan.turns_s[one]
        return min(3 * turn_s, max(0.0, turn_s + self._accounts[one].owed_s))

    def _is_ahead(self, one: str) -> bool:
        """Return whether it has had two slices more than its part; who is frozen for that waits until it is one."""
        was_frozen = one not in self._turn.thawed
        return self._accounts[one].owed_s < -(1 if was_frozen else 2) * self.rules.slice_s

    def _frozen_for(self, one: str, now_s: float) -> float:
        since_s = self._accounts[one].frozen_since_s
        return 0.0 if since_s is None else now_s - since_s
