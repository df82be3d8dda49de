"""The sums that allocation is decided by, kept in step with what each agent adds to them. In thousandths, by name.

What the cluster has, what roles hold of it (the tree of shares), what they consume of their quota, and what is left
that counts towards guarantees. An agent that changes costs what has changed of it, not its size or the cluster's.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from mesos_gpu.master.allocation.eligibility import Key, Supply, quantities
from mesos_gpu.master.allocation.sorter import ShareTree, add_to
from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.master.model.quota import countable, top_level
from mesos_gpu.master.model.shared_volumes import Token, tokens
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resources import Resources

_NONE: Quantities = {}


class Part(Struct, frozen=True):
    """What one client holds of an agent."""

    resources: Resources | None
    """Of what the sums here were made; None once more was added to them."""
    held: Quantities
    """Without what is shared."""
    counted: Quantities
    """What of it counts towards quota."""
    shared: dict[Token, dict[str, int]]


NOTHING = Part(None, _NONE, _NONE, {})


class Books(Struct):
    """What one agent adds to the sums."""

    of: Resources | None = None
    """The agent's total that `total` and `reserved` were made of."""
    total: Quantities = field(default_factory=dict)
    reserved: dict[Role, dict[str, int]] = field(default_factory=dict)
    """By top-level role."""
    parts: dict[Key, Part] = field(default_factory=dict)
    headroom: Quantities = field(default_factory=dict)
    free: tuple[Resources | None, Quantities] = (None, _NONE)
    """What was free of it when it was entered last, and what of that counts towards quota."""
    known: Part = NOTHING
    """What was made last of what a client holds: the same once an offer was declined."""
    given: Part = NOTHING
    """What was made of what was given last: the same when it is given again."""


class Totals:
    """Those of all agents."""

    def __init__(self, tree: ShareTree) -> None:
        self.tree = tree
        """Who holds what."""
        self.total: dict[str, int] = {}
        self.consumed: dict[Role, dict[str, int]] = {}
        """By top-level role: what is reserved for it and below, and what it holds unreserved."""
        self.headroom: dict[str, int] = {}
        """What is free of active agents and counts towards quota."""

    def enter(self, books: Books, supply: Supply, held: Mapping[Key, Resources]) -> None:
        """Take into the books of an agent, and into the sums, what it is now.

        `held` is what each (role, framework id) uses of it or is offered. What is the same object as before has not
        changed, and costs nothing.
        """
        if supply.total is not books.of:
            self._scale(books, supply.total)
        for key, resources in held.items():
            part = books.parts.get(key)
            if part is None or part.resources is not resources:
                self._hold(supply.agent_id, books, key, resources)
        for key in [key for key in books.parts if key not in held] if len(books.parts) != len(held) else ():
            self._hold(supply.agent_id, books, key, None)
        if books.free[0] is not supply.free:
            books.free = supply.free, _counted(supply.free)
        headroom = books.free[1] if supply.active else _NONE
        if headroom != books.headroom:
            add_to(self.headroom, _difference(books.headroom, headroom))
            books.headroom = headroom

    def forget(self, books: Books) -> None:
        """Take all of an agent that goes out of the sums."""
        gone = Supply(AgentId(""), Resources(), Resources(), active=False)
        self.enter(books, gone, {})

    def give(self, agent_id: AgentId, books: Books, key: Key, offered: Resources) -> None:
        """Add what a client is given of an agent (unallocated) to the agent's books and to the sums."""
        if books.given.resources is not offered:
            books.given = _part(agent_id, offered)
        new, old = books.given, books.parts.get(key, NOTHING)
        self.tree.charge(*key, new.held)
        self._share(key, {token: amounts for token, amounts in new.shared.items() if token not in old.shared}, 1)
        self._consume(top_level(key[0]), new.counted)
        together = _sum(old.held, new.held), _sum(old.counted, new.counted), {**new.shared, **old.shared}
        books.parts[key] = Part(None, *together)
        taken = {name: -amount for name, amount in new.counted.items()}
        add_to(self.headroom, taken)
        books.headroom = _sum(books.headroom, taken)

    def _scale(self, books: Books, total: Resources) -> None:
        """An agent's total is another."""
        now = quantities(total)
        changed = _difference(books.total, now)
        if changed:
            add_to(self.total, changed)
            self.tree.set_total(self.total)
        reserved: dict[Role, dict[str, int]] = {}
        for resource in total:
            if resource.reservations and isinstance(resource.amount, int):
                add_to(reserved.setdefault(top_level(resource.role), {}), {resource.name: resource.amount})
        for top in books.reserved.keys() | reserved.keys():
            self._consume(top, _difference(books.reserved.get(top, _NONE), reserved.get(top, _NONE)))
        books.of, books.total, books.reserved = total, now, reserved

    def _hold(self, agent_id: AgentId, books: Books, key: Key, resources: Resources | None) -> None:
        """A client holds something else of an agent, or with None nothing any more."""
        old = books.parts.get(key, NOTHING)
        new = NOTHING
        if resources is not None:
            new = books.known if books.known.resources is resources else _part(agent_id, resources)
            books.known = new
        self.tree.charge(*key, _difference(old.held, new.held))
        if old.shared or new.shared:
            self._share(key, {token: amounts for token, amounts in new.shared.items() if token not in old.shared}, 1)
            self._share(key, {token: amounts for token, amounts in old.shared.items() if token not in new.shared}, -1)
        self._consume(top_level(key[0]), _difference(old.counted, new.counted))
        if resources is None:
            del books.parts[key]
        else:
            books.parts[key] = new

    def _share(self, key: Key, volumes: Mapping[Token, Quantities], by: int) -> None:
        for token, amounts in volumes.items():
            self.tree.share_in(*key, token, amounts, by)

    def _consume(self, top: Role, change: Quantities) -> None:
        if change:
            consumed = self.consumed.setdefault(top, {})
            add_to(consumed, change)
            if not consumed:
                del self.consumed[top]


def _part(agent_id: AgentId, resources: Resources) -> Part:
    for resource in resources:
        if resource.reservations or resource.other:
            held = quantities(resources.nonshared())
            return Part(resources, held, _counted(resources), tokens(agent_id, resources.unallocated()))
    held = quantities(resources)
    return Part(resources, held, held, {})


def _counted(resources: Resources) -> dict[str, int]:
    return quantities(resource for resource in resources if countable(resource))


def _sum(amounts: Quantities, more: Quantities) -> dict[str, int]:
    together = dict(amounts)
    add_to(together, more)
    return together


def _difference(old: Quantities, new: Quantities) -> dict[str, int]:
    changed = {name: amount - old.get(name, 0) for name, amount in new.items() if amount != old.get(name, 0)}
    for name, amount in old.items():
        if name not in new:
            changed[name] = -amount
    return changed
