"""The allocator without memory: what `master/allocation/allocator.py` decides, computed from scratch.

It sorts all roles and frameworks anew for each agent and looks at each agent in each cycle. The baseline of
`benchmarks/master.py`, and what a test holds the real allocator to. It shares with it only what a single agent and a
single client are: no sum and no order is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesos_gpu.master.allocation.allocator_feed import clients_of, holdings_of, supply_of
from mesos_gpu.master.allocation.eligibility import (
    Allocation,
    Client,
    Key,
    Refused,
    Rules,
    Supply,
    admits,
    allocatable,
    available,
    capable,
    dominant_share,
    quantities,
)
from mesos_gpu.master.model.quota import Quota, countable, missing, shrink, top_level
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resources import Resources

Path = tuple[str, ...]
Held = dict[str, dict[Key, Resources]]


class FullScan:
    """One cycle over all there is."""

    def __init__(
        self,
        supplies: Sequence[Supply],
        clients: Sequence[Client],
        held: Mapping[str, Mapping[Key, Resources]],
        rules: Rules,
        *,
        quotas: Mapping[str, Quota] | None = None,
        weights: Mapping[str, float] | None = None,
        turns: Mapping[Path, int] | None = None,
    ) -> None:
        """`held` is by agent; `turns` is how often each node of the tree was chosen before."""
        self.supplies, self.clients, self.rules = supplies, clients, rules
        self.held: Held = {agent_id: dict(parts) for agent_id, parts in held.items()}
        self.quotas, self.weights = dict(quotas or {}), dict(weights or {})
        self.turns = dict(turns or {})
        self.free = {supply.agent_id: supply.free for supply in supplies}
        self.total = quantities(r for supply in supplies for r in supply.total)
        self.sums: dict[Path, dict[str, int]] = {}
        self.met: set[tuple[Path, str, object]] = set()
        for agent_id, parts in self.held.items():
            for (role, framework_id), resources in parts.items():
                self._sum(agent_id, self.path(role, framework_id), resources)

    def cycle(self, refused: Refused) -> list[Allocation]:
        given: dict[tuple[str, Key], Allocation] = {}
        own = any(client.min_allocatable is not None for client in self.clients)
        active = [supply for supply in self.supplies if supply.active]
        for stage in (self._guarantee, self._share):
            for supply in active:
                if not own and not allocatable(self.free[supply.agent_id], self.rules.min_allocatable):
                    continue
                for client in self.in_order():
                    offered = stage(supply, client)
                    if offered is None or not self._worth(offered, client):
                        continue
                    if refused(client, supply.agent_id, offered):
                        continue
                    self._take(supply.agent_id, client, offered)
                    before = given.get((supply.agent_id, client.key))
                    together = offered if before is None else before.resources + offered
                    given[(supply.agent_id, client.key)] = Allocation(client, supply.agent_id, together)
        return list(given.values())

    def in_order(self) -> list[Client]:
        def rank(client: Client) -> list[tuple[float, int, str]]:
            path = self.path(client.role, client.framework_id)
            keys = []
            for end in range(1, len(path) + 1):
                part = path[:end]
                share = dominant_share(self.sums.get(part, {}), self.total, self.rules.excluded_names)
                keys.append((share / self.weights.get("/".join(part), 1.0), self.turns.get(part, 0), part[-1]))
            return keys

        return sorted(self.clients, key=rank)

    @staticmethod
    def path(role: str, framework_id: str) -> Path:
        return (*role.split("/"), ".", framework_id)

    def _guarantee(self, supply: Supply, client: Client) -> Resources | None:
        top = top_level(client.role)
        quota = self.quotas.get(top)
        candidate = self._candidate(supply, client)
        if quota is None or candidate is None:
            return None
        consumed = self._consumed(top)
        short = missing(quota.guarantees, consumed)
        scalars = Resources(r for r in candidate if countable(r))
        towards = Resources(shrink(scalars, short, absent=0))
        if not short or not towards:
            return None
        room = {
            name: limit - consumed.get(name, 0) - quantities(towards).get(name, 0)
            for name, limit in quota.limits.items()
        }
        rest = shrink(shrink(scalars - towards, room, absent=None), self._surplus(), absent=None)
        along = [r for r in candidate if not countable(r) and (not r.reservations or r.role == client.role)]
        return Resources([*along, *towards, *rest])

    def _share(self, supply: Supply, client: Client) -> Resources | None:
        candidate = self._candidate(supply, client)
        if candidate is None:
            return None
        top = top_level(client.role)
        limits = self.quotas[top].limits if top in self.quotas else {}
        room = {name: limit - self._consumed(top).get(name, 0) for name, limit in limits.items()}
        scalars = [r for r in candidate if countable(r)]
        kept = shrink(shrink(scalars, room, absent=None), self._surplus(), absent=None)
        return Resources([*(r for r in candidate if not countable(r)), *kept])

    def _candidate(self, supply: Supply, client: Client) -> Resources | None:
        candidate = available(self.free[supply.agent_id], client.role, refinement=client.refinement)
        if not self._worth(candidate, client) or not admits(supply, client, self.rules):
            return None
        return capable(candidate, client)

    def _worth(self, offered: Resources, client: Client) -> bool:
        own = client.min_allocatable
        return allocatable(offered, self.rules.min_allocatable if own is None else own)

    def _take(self, agent_id: str, client: Client, offered: Resources) -> None:
        self.free[agent_id] = self.free[agent_id] - offered
        parts = self.held.setdefault(agent_id, {})
        parts[client.key] = parts.get(client.key, Resources()) + offered
        path = self.path(client.role, client.framework_id)
        self._sum(agent_id, path, offered)
        for end in range(1, len(path) + 1):
            self.turns[path[:end]] = self.turns.get(path[:end], 0) + 1

    def _sum(self, agent_id: str, path: Path, resources: Resources) -> None:
        for end in range(1, len(path) + 1):
            node = self.sums.setdefault(path[:end], {})
            # What is shared counts once for all below a node.
            new = [r for r in resources if not r.shared or (path[:end], agent_id, r.key) not in self.met]
            self.met.update((path[:end], agent_id, r.key) for r in resources if r.shared)
            for name, amount in quantities(new).items():
                node[name] = node.get(name, 0) + amount

    def _consumed(self, top: str) -> dict[str, int]:
        unreserved = (
            r
            for parts in self.held.values()
            for (role, _), resources in parts.items()
            if top_level(role) == top
            for r in resources
            if countable(r)
        )
        reserved = (r for s in self.supplies for r in s.total if r.reservations and top_level(r.role) == top)
        return quantities([*unreserved, *reserved])

    def _surplus(self) -> dict[str, int]:
        if not any(quota.guarantees for quota in self.quotas.values()):
            return {}
        required: dict[str, int] = {}
        for top, quota in self.quotas.items():
            for name, amount in missing(quota.guarantees, self._consumed(top)).items():
                required[name] = required.get(name, 0) + amount
        free = quantities(r for s in self.supplies if s.active for r in self.free[s.agent_id] if countable(r))
        return {name: max(0, free.get(name, 0) - amount) for name, amount in required.items()}


def decided(state: MasterState) -> list[Allocation]:
    """Return what a master is to offer now, by looking at everything; tell its allocator of the agents first.

    An agent that left and came back between two cycles keeps its turn there, though it is the last in the books.
    """

    def refused(client: Client, agent_id: str, candidate: Resources) -> bool:
        return state.filters.blocks(client.framework_id, client.role, agent_id, candidate)

    return FullScan(
        [
            supply_of(agent)
            for agent in sorted(state.agents.values(), key=lambda a: state.allocator_feed.allocator.place(a.id))
        ],
        [client for framework in state.frameworks.values() for client in clients_of(framework)],
        {agent.id: holdings_of(agent) for agent in state.agents.values()},
        state.settings.rules,
        quotas=state.policy.quotas,
        weights=state.policy.weights,
        turns=state.allocator_feed.allocator.tree.turns(),
    ).cycle(refused)
