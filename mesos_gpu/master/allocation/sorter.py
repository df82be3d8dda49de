"""Who is furthest below its fair share: a tree of roles with weights at each level, frameworks as its leaves.

Source: Mesos src/master/allocator/mesos/sorter/drf/sorter.cpp. What a node holds is what all below it hold; its share
is the largest part of any counted scalar of the cluster, divided by its weight. Siblings go in order of share, then of
how often they were chosen, then of name. A role's own frameworks stand under a node `.` beside its sub-roles.

Each change costs the depth of its path, not the size of the tree: a node's children are kept in order. A node that
changed is put in its place when the order is next asked for, once for all that changed of it meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterator

from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.mesos.ids import FrameworkId, Role

"""Thousandths by name, scalars only."""
_Key = tuple[float, int, str]
OWN = "."
"""The child that holds a role's own frameworks."""
DEFAULT_WEIGHT = 1.0


class _Node:
    """`held` is of all below it; `wanting` counts leaves below that want offers; `order` has the children with any.

    `shared` counts the leaves below that hold a shared thing, by thing.
    """

    __slots__ = (
        "children",
        "chosen",
        "held",
        "key",
        "member",
        "name",
        "order",
        "parent",
        "shared",
        "wanting",
        "weight",
    )

    def __init__(self, name: str, parent: _Node | None, weight: float = DEFAULT_WEIGHT) -> None:
        self.name, self.parent, self.weight = name, parent, weight
        self.children: dict[str, _Node] = {}
        self.held: dict[str, int] = {}
        self.shared: dict[Hashable, int] = {}
        self.chosen = 0
        self.wanting = 0
        self.member = False
        self.key: _Key = (0.0, 0, name)
        self.order: list[_Key] = []


class ShareTree:
    """Roles and their frameworks, in the order in which they are offered things."""

    def __init__(self, excluded: frozenset[str] = frozenset()) -> None:
        """`excluded` names do not count for shares (`--fair_sharing_excluded_resource_names`)."""
        self._excluded = excluded
        self._total: dict[str, int] = {}
        self.weights: dict[Role, float] = {}
        """By role, of those that were given one."""
        self._root = _Node("", None)
        self._leaves: dict[tuple[Role, FrameworkId], _Node] = {}
        self._moved: dict[_Node, None] = {}
        """Nodes that may stand in the wrong place among their siblings."""
        self._rescaled = False
        """Whether all of them may."""

    def set_total(self, total: Quantities) -> None:
        """Say what the cluster has; shares are parts of that."""
        counted = {name: amount for name, amount in total.items() if amount > 0 and name not in self._excluded}
        if counted != self._total:
            self._total = counted
            self._rescaled = True

    def set_weight(self, role: Role, weight: float) -> None:
        """Give a role a weight: with twice the weight it is due twice as much."""
        self.weights[role] = weight
        node = self._find(role.split("/"))
        if node is not None:
            node.weight = weight
            self._moved[node] = None

    def want(self, role: Role, framework_id: FrameworkId, wanting: bool) -> None:
        """Enter a framework under a role, wanting offers or not."""
        leaf = self._leaf(role, framework_id)
        leaf.member = True
        change = int(wanting) - leaf.wanting
        if change:
            node: _Node | None = leaf
            while node is not None:
                node.wanting += change
                self._moved[node] = None
                node = node.parent

    def leave(self, role: Role, framework_id: FrameworkId) -> None:
        """A framework is no longer under a role; what it still holds there continues to count."""
        leaf = self._find([*role.split("/"), OWN, framework_id])
        if leaf is not None:
            self.want(role, framework_id, False)
            leaf.member = False
            self._prune(role, leaf)

    def charge(self, role: Role, framework_id: FrameworkId, change: Quantities) -> None:
        """Add to what a framework holds under a role, or with negative amounts take away."""
        if not change:
            return
        leaf = self._leaf(role, framework_id)
        moved = self._moved
        node: _Node | None = leaf
        while node is not None:
            add_to(node.held, change)
            moved[node] = None
            node = node.parent
        self._prune(role, leaf)

    def share_in(self, role: Role, framework_id: FrameworkId, thing: Hashable, amounts: Quantities, by: int) -> None:
        """A framework begins (`by` 1) or ceases (-1) to hold a shared thing, which counts once for all below a node."""
        leaf = self._leaf(role, framework_id)
        node: _Node | None = leaf
        while node is not None:
            holders = node.shared.get(thing, 0) + by
            if holders == int(by > 0):
                add_to(node.held, amounts, by)
                self._moved[node] = None
            if holders:
                node.shared[thing] = holders
            else:
                del node.shared[thing]
            node = node.parent
        self._prune(role, leaf)

    def choose(self, role: Role, framework_id: FrameworkId) -> None:
        """Count that it was its turn: equals take turns."""
        node: _Node | None = self._leaf(role, framework_id)
        while node is not None:
            node.chosen += 1
            self._moved[node] = None
            node = node.parent

    def clients(self, tops: Collection[Role] | None = None) -> Iterator[tuple[Role, FrameworkId]]:
        """Yield (role, framework id) of those who want offers, the one furthest below its share first.

        With `tops`, of these top-level roles and those below them alone, in the same order. Shares may change
        meanwhile; among siblings the order is that of when the first of them was reached.
        """
        return self._walk(self._root, "", tops)

    def share(self, role: Role) -> float:
        """Return the dominant share of a role and all below it, without its weight."""
        node = self._find(role.split("/"))
        return 0.0 if node is None else self._dominant(node)

    def held(self, role: Role) -> dict[str, int]:
        """Return what a role and all below it hold."""
        node = self._find(role.split("/"))
        return {} if node is None else dict(node.held)

    def turns(self) -> dict[tuple[str, ...], int]:
        """Return how often each node was chosen, by path; for those who compute the order from scratch."""
        found: dict[tuple[str, ...], int] = {}

        def visit(node: _Node, path: tuple[str, ...]) -> None:
            for child in node.children.values():
                below = (*path, child.name)
                found[below] = child.chosen
                visit(child, below)

        visit(self._root, ())
        return found

    def _walk(self, node: _Node, path: str, among: Collection[str] | None = None) -> Iterator[tuple[Role, FrameworkId]]:
        for _, _, name in self._ordered(node):
            child = node.children.get(name)
            if child is None or not child.wanting or not (among is None or name in among):
                continue
            if name == OWN:
                for _, _, framework_id in self._ordered(child):
                    yield Role(path), FrameworkId(framework_id)
            else:
                yield from self._walk(child, f"{path}/{name}" if path else name)

    def _find(self, path: list[str]) -> _Node | None:
        node: _Node | None = self._root
        for name in path:
            if node is None:
                return None
            node = node.children.get(name)
        return node

    def _ordered(self, node: _Node) -> tuple[_Key, ...]:
        """Return the children that want offers as it is their turn now."""
        if self._rescaled:
            self._rekey_below(self._root)
        elif self._moved:
            for moved in self._moved:
                self._rekey(moved)
        self._rescaled = False
        self._moved.clear()
        return tuple(node.order)

    def _leaf(self, role: Role, framework_id: FrameworkId) -> _Node:
        leaf = self._leaves.get((role, framework_id))
        if leaf is None:
            leaf = self._leaves[(role, framework_id)] = self._made(role, framework_id)
        return leaf

    def _made(self, role: Role, framework_id: FrameworkId) -> _Node:
        node, path = self._root, ""
        for name in [*role.split("/"), OWN, framework_id]:
            path = f"{path}/{name}" if path else name
            child = node.children.get(name)
            if child is None:
                child = node.children[name] = _Node(name, node, self.weights.get(Role(path), DEFAULT_WEIGHT))
            node = child
        return node

    def _prune(self, role: Role, leaf: _Node) -> None:
        """Take out a leaf that means nothing any more, and the branch that it alone stood on."""
        node = leaf
        while node.parent is not None and not (node.member or node.held or node.children):
            if node is leaf:
                del self._leaves[(role, FrameworkId(leaf.name))]
            self._unlist(node)
            self._moved.pop(node, None)
            del node.parent.children[node.name]
            node = node.parent

    def _dominant(self, node: _Node) -> float:
        most, total = 0.0, self._total
        for name, amount in node.held.items():
            if name in total and (share := amount / total[name]) > most:
                most = share
        return most

    def _rekey(self, node: _Node) -> None:
        if node.parent is None:
            return
        key: _Key = (self._dominant(node) / node.weight, node.chosen, node.name)
        order = node.parent.order
        at = bisect_left(order, node.key)
        listed = at < len(order) and order[at] == node.key
        if listed and (key != node.key or not node.wanting):
            del order[at]
            listed = False
        node.key = key
        if node.wanting and not listed:
            insort(order, key)

    def _unlist(self, node: _Node) -> None:
        if node.parent is not None:
            order = node.parent.order
            at = bisect_left(order, node.key)
            if at < len(order) and order[at] == node.key:
                del order[at]

    def _rekey_below(self, node: _Node) -> None:
        for child in node.children.values():
            child.key = (self._dominant(child) / child.weight, child.chosen, child.name)
            self._rekey_below(child)
        node.order = sorted(child.key for child in node.children.values() if child.wanting)


def add_to(sums: dict[str, int], change: Quantities, times: int = 1) -> None:
    """Add amounts to sums; a name of which nothing is left is removed."""
    for name, amount in change.items():
        left = sums.get(name, 0) + times * amount
        if left:
            sums[name] = left
        else:
            sums.pop(name, None)
