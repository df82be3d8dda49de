"""The sums that allocation is decided by, kept in step with what each agent adds to them. In thousandths, by name.

What the cluster has, what roles hold of it (the tree of shares), what they consume of their quota, and what is left
that counts towards guarantees. An agent that changes costs its own size, not that of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesos_gpu.master.allocation.eligibility import Key, Supply, quantities
from mesos_gpu.master.allocation.sorter import ShareTree, add_to
from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.master.model.quota import countable, top_level
from mesos_gpu.master.model.shared_volumes import Token, tokens
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resources import Resources


@dataclass(slots=True)
class Books:
    """What one agent adds to the sums."""

    total: dict[str, int]
    held: dict[Key, dict[str, int]]
    """Without what is shared."""
    shared: dict[Key, dict[Token, dict[str, int]]]
    consumed: dict[Role, dict[str, int]]
    """By top-level role: reservations, and what is held unreserved."""
    headroom: dict[str, int]


EMPTY = Books({}, {}, {}, {}, {})
"""Those of an agent that is not there."""


def books_of(supply: Supply, held: Mapping[Key, Resources]) -> Books:
    """Return what an agent adds; `held` is what each (role, framework id) uses of it or is offered."""
    consumed: dict[Role, dict[str, int]] = {}
    for (role, _), resources in held.items():
        add_to(consumed.setdefault(top_level(role), {}), quantities(r for r in resources if countable(r)))
    for resource in supply.total:
        if resource.reservations and isinstance(resource.amount, int):
            add_to(consumed.setdefault(top_level(resource.role), {}), {resource.name: resource.amount})
    return Books(
        quantities(supply.total),
        {key: quantities(resources.nonshared()) for key, resources in held.items()},
        {key: tokens(supply.agent_id, resources) for key, resources in held.items() if resources.shared()},
        consumed,
        quantities(r for r in supply.free if countable(r)) if supply.active else {},
    )


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

    def post(self, old: Books, new: Books) -> None:
        """Take the difference between two states of an agent into the sums."""
        changed = _difference(old.total, new.total)
        if changed:
            add_to(self.total, changed)
            self.tree.set_total(self.total)
        for role, framework_id in old.held.keys() | new.held.keys():
            key = (role, framework_id)
            self.tree.charge(role, framework_id, _difference(old.held.get(key, {}), new.held.get(key, {})))
        for role, framework_id in old.shared.keys() | new.shared.keys():
            before, now = (books.shared.get((role, framework_id), {}) for books in (old, new))
            for token in now.keys() - before.keys():
                self.tree.share_in(role, framework_id, token, now[token], 1)
            for token in before.keys() - now.keys():
                self.tree.share_in(role, framework_id, token, before[token], -1)
        for top in old.consumed.keys() | new.consumed.keys():
            change = _difference(old.consumed.get(top, {}), new.consumed.get(top, {}))
            add_to(self.consumed.setdefault(top, {}), change)
            if not self.consumed[top]:
                del self.consumed[top]
        add_to(self.headroom, _difference(old.headroom, new.headroom))

    def hold(self, agent_id: AgentId, books: Books, key: Key, offered: Resources) -> None:
        """Take what a client is given of an agent (unallocated) into the agent's books and into the sums."""
        role, framework_id = key
        taken, top = quantities(offered.nonshared()), top_level(role)
        unreserved = quantities(r for r in offered if countable(r))
        add_to(books.held.setdefault(key, {}), taken)
        self.tree.charge(role, framework_id, taken)
        for token, amounts in tokens(agent_id, offered).items():
            if token not in books.shared.setdefault(key, {}):
                books.shared[key][token] = amounts
                self.tree.share_in(role, framework_id, token, amounts, 1)
        for consumed in (books.consumed, self.consumed):
            add_to(consumed.setdefault(top, {}), unreserved)
        for headroom in (books.headroom, self.headroom):
            add_to(headroom, {name: -amount for name, amount in unreserved.items()})


def _difference(old: Quantities, new: Quantities) -> dict[str, int]:
    changed = {name: new.get(name, 0) - amount for name, amount in old.items() if new.get(name, 0) != amount}
    changed.update((name, amount) for name, amount in new.items() if name not in old)
    return changed
