"""Who is offered what: guarantees first, then fair shares, or chance, over the tree of roles and their frameworks.

Source: Mesos src/master/allocator/mesos/hierarchical.cpp (__allocate). All of an agent's free resources that a role may
have go into one offer, to the framework whose turn it is. Pure: told what changed, `Allocator.cycle` says what follows.

A cycle looks at what changed since the last one, not at the whole cluster. What it left lying was wanted by nobody, or
refused, or held back by quota; so next time only these can be given anything: agents that changed, refusals that ended,
clients that are new or back, and clients that quota held back. A shared volume lies there again after each cycle, and
is offered once more with what else of its agent changes. `benchmarks/full_scan.py` computes the same from scratch, and
a test holds both to the same answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from math import inf

from msgspec import Struct

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
    quantities,
)
from mesos_gpu.master.allocation.random_sorter import Draw, Wanting, chances, order
from mesos_gpu.master.allocation.sorter import ShareTree, add_to
from mesos_gpu.master.allocation.totals import Books, Totals
from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.master.model.quota import Quota, countable, missing, shrink, top_level
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.mesos.resources import NOTHING, Resources


class _Machine(Struct, eq=False):
    """What the allocator keeps of an agent; `number` is its place in line."""

    number: int
    supply: Supply
    free: Resources
    books: Books


class Allocator:
    """The cluster as far as allocation goes, and what changed in it since the last cycle."""

    def __init__(self, rules: Rules, draw: Draw | None = None) -> None:
        """With `draw` chance decides whose turn it is (`--role_sorter=random`), without it shares do (`drf`)."""
        self._rules, self._draw = rules, draw
        self._wanting: Wanting = {}
        self._odds: Mapping[Role, float] = {}
        self.tree = ShareTree(rules.excluded_names)
        self._sums = Totals(self.tree)
        self._quotas: dict[Role, Quota] = {}
        self._guaranteed: dict[Role, Quantities] = {}
        self._missing: dict[Role, Quantities] = {}
        """By how much guarantees are not met, in a cycle: what is consumed only grows in one."""
        self._required: Quantities = {}
        """All of that together."""
        self._machines: dict[AgentId, _Machine] = {}
        self._worth: set[AgentId] = set()
        self._clients: dict[Key, Client] = {}
        self._own_minimums: set[Key] = set()
        self._count = 0
        # Changes since the last cycle.
        self._agents: set[AgentId] = set()
        self._retries: dict[AgentId, set[Key]] = {}
        self._fresh: set[Key] = set()
        self._held_back: set[Key] = set()
        self._line: list[tuple[int, AgentId]] = []
        """A heap of (place, id) of those agents, and of some that have gone."""
        self._lined: set[AgentId] = set()
        self.behind = False
        """Whether the last cycle left agents for the next."""

    # What changes.

    def put_agent(self, supply: Supply, held: Mapping[Key, Resources]) -> None:
        """Enter an agent, or what it is now.

        `held` is what each (role, framework id) uses of it or is offered, allocated to the role or to nobody. What is
        the same object as when the agent was put before costs nothing.
        """
        machine = self._machines.get(supply.agent_id)
        if machine is None:
            self._count += 1
            machine = self._machines[supply.agent_id] = _Machine(self._count, supply, supply.free, Books())
        else:
            machine.supply, machine.free = supply, supply.free
        self._sums.enter(machine.books, supply, held)
        self._weigh(machine)
        self._agents.add(supply.agent_id)
        self._line_up(supply.agent_id)

    def drop_agent(self, agent_id: AgentId) -> None:
        """Forget an agent, and what is held of it."""
        self._sums.forget(self._machines.pop(agent_id).books)
        self._retries.pop(agent_id, None)
        for names in (self._worth, self._agents, self._lined):
            names.discard(agent_id)

    def put_client(self, client: Client) -> None:
        """A framework wants offers for a role, from now on or on other terms; all that is free is looked at for it."""
        self._drop(client.key)
        self._clients[client.key] = client
        self._fresh.add(client.key)
        self.tree.want(client.role, client.framework_id, True)
        if client.min_allocatable is not None:
            self._own_minimums.add(client.key)
            self._reweigh(len(self._own_minimums) == 1)

    def mute_client(self, role: Role, framework_id: FrameworkId) -> None:
        """A framework is still under a role but wants no offers."""
        self._drop((role, framework_id))
        self.tree.want(role, framework_id, False)

    def drop_client(self, role: Role, framework_id: FrameworkId) -> None:
        """A framework is under a role no longer."""
        self._drop((role, framework_id))
        self.tree.leave(role, framework_id)

    def retry(self, agent_id: AgentId, client: Key) -> None:
        """A refusal has ended."""
        if agent_id in self._machines:
            self._retries.setdefault(agent_id, set()).add(client)
            self._line_up(agent_id)

    def set_quotas(self, quotas: Mapping[Role, Quota]) -> None:
        """Replace all quotas; everything that is free is looked at again."""
        self._quotas = dict(quotas)
        self._guaranteed = {role: quota.guarantees for role, quota in quotas.items() if quota.guarantees}
        self._fresh.update(self._clients)

    @property
    def total(self) -> Quantities:
        """Return what all agents have."""
        return self._sums.total

    def free(self, agent_id: AgentId) -> Resources:
        """Return what is free of an agent, as far as is known here. Raises KeyError for one that is not."""
        return self._machines[agent_id].free

    def place(self, agent_id: AgentId) -> float:
        """Return when an agent's turn is among the others; one that is not known yet comes last."""
        return self._machines[agent_id].number if agent_id in self._machines else inf

    # What follows.

    def cycle(self, refused: Refused, most: int | None = None) -> list[Allocation]:
        """Return new allocations, which count as held from now on.

        Of `most` agents, if that is given and nobody has a quota; `behind` tells whether others are left for the next.
        (With quota each agent's free resources decide what may be given of another's.)
        """
        fresh = {key for key in self._fresh | self._held_back if key in self._clients}
        self._fresh, self._held_back = set(), set()
        if not self._clients:
            self._forget_line()
            return []
        for agent_id in self._worth if fresh else ():
            self._retries.setdefault(agent_id, set()).update(fresh)
            self._line_up(agent_id)
        machines, wanted = self._next(None if self._quotas else most)
        self.behind = bool(self._line)
        if not machines:
            return []
        if self._draw is not None:
            self._wanting = _by_role(self._clients)
            self._odds = chances(list(self._wanting), self.tree.weights)
        given: dict[tuple[AgentId, Key], Resources] = {}
        self._missing = {role: self._short(role) for role in self._guaranteed}
        self._required = _added_up(self._missing.values())
        if self._required:
            for machine, keys in zip(machines, wanted, strict=True):
                self._guarantee(machine, keys, refused, given)
        for machine, keys in zip(machines, wanted, strict=True):
            self._share(machine, keys, refused, given)
        for machine in machines:
            self._take_back_shared(machine)
        return [Allocation(self._clients[key], agent_id, resources) for (agent_id, key), resources in given.items()]

    def _line_up(self, agent_id: AgentId) -> None:
        """Have an agent looked at, when it is its turn, in this cycle or a later one."""
        if agent_id not in self._lined:
            self._lined.add(agent_id)
            heappush(self._line, (self._machines[agent_id].number, agent_id))

    def _next(self, most: int | None) -> tuple[list[_Machine], list[set[Key] | None]]:
        """Take those whose turn it is out of the line, `most` of them; with the clients that may want them, or all."""
        machines: list[_Machine] = []
        wanted: list[set[Key] | None] = []
        while self._line and (most is None or len(machines) < most or self._line[0][1] not in self._worth):
            number, agent_id = heappop(self._line)
            if agent_id not in self._machines or self._machines[agent_id].number != number:
                continue  # it has gone, and may have come back
            changed, keys = agent_id in self._agents, self._retries.pop(agent_id, set())
            self._lined.discard(agent_id)
            self._agents.discard(agent_id)
            if agent_id in self._worth:
                machines.append(self._machines[agent_id])
                wanted.append(None if changed else keys)
        return machines, wanted

    def _forget_line(self) -> None:
        self._line.clear()
        self._lined.clear()
        self._agents.clear()
        self._retries.clear()
        self.behind = False

    def _guarantee(
        self,
        machine: _Machine,
        keys: Collection[Key] | None,
        refused: Refused,
        given: dict[tuple[AgentId, Key], Resources],
    ) -> None:
        """First stage: roles whose guarantee is not met take what helps to meet it, and what goes with it."""
        short_of = {role: self._quotas[role] for role, short in self._missing.items() if short}
        if not short_of:
            return
        for client in self._in_order(keys, short_of):
            top = top_level(client.role)
            quota = short_of.get(top)
            if quota is None or not machine.free:
                continue
            consumed = self._sums.consumed.get(top, {})
            short = self._missing[top]
            candidate = self._candidate(machine, client) if short else None
            if candidate is None:
                continue
            scalars = [resource for resource in candidate if countable(resource)]
            towards = shrink(scalars, short, absent=0)
            if not towards:
                continue
            # A role's own reservations and what is not counted come along; of the rest what limit and headroom leave.
            more = Resources(scalars) - Resources(towards)
            taken = quantities(Resources(towards))
            room = {name: limit - consumed.get(name, 0) - taken.get(name, 0) for name, limit in quota.limits.items()}
            rest = shrink(shrink(more, room, absent=None), self._surplus(), absent=None)
            along = [r for r in candidate if not countable(r) and (not r.reservations or r.role == client.role)]
            self._give(machine, client, candidate, Resources([*along, *towards, *rest]), refused, given)

    def _share(
        self,
        machine: _Machine,
        keys: Collection[Key] | None,
        refused: Refused,
        given: dict[tuple[AgentId, Key], Resources],
    ) -> None:
        """Second stage: what is free goes to whoever is furthest below its share."""
        for client in self._in_order(keys):
            if not machine.free:
                return
            candidate = self._candidate(machine, client)
            if candidate is not None:
                offered = self._within_quota(candidate, client) if self._quotas else candidate
                self._give(machine, client, candidate, offered, refused, given)

    def _short(self, role: Role) -> dict[str, int]:
        """Return by how much the guarantee of a role that has one is not met."""
        return missing(self._guaranteed[role], self._sums.consumed.get(role, {}))

    def _in_order(self, keys: Collection[Key] | None, tops: Collection[Role] | None = None) -> Iterator[Client]:
        """Yield clients as it is their turn; of `tops` where only they matter, though others may come, too."""
        if keys is not None and len(keys) <= 1:
            return (self._clients[key] for key in keys if key in self._clients)
        turns = self.tree.clients(tops) if self._draw is None else order(self._wanting, self._odds, self._draw)
        return (self._clients[key] for key in turns if keys is None or key in keys)

    def _candidate(self, machine: _Machine, client: Client) -> Resources | None:
        """Return all of an agent that a client may be offered; None when that is not worth an offer."""
        candidate = available(machine.free, client.role, refinement=client.refinement)
        if not self._allocatable(candidate, client) or not admits(machine.supply, client, self._rules):
            return None
        understood = capable(candidate, client)
        return understood if understood is candidate or self._allocatable(understood, client) else None

    def _within_quota(self, candidate: Resources, client: Client) -> Resources:
        """Return what limits of the role and the guarantees of others leave of it; remember who was held back."""
        top = top_level(client.role)
        quota, consumed = self._quotas.get(top), self._sums.consumed.get(top, {})
        room = {} if quota is None else {n: limit - consumed.get(n, 0) for n, limit in quota.limits.items()}
        surplus = self._surplus()
        if not room and not surplus:
            return candidate
        scalars = [resource for resource in candidate if countable(resource)]
        kept = shrink(shrink(scalars, room, absent=None), surplus, absent=None)
        if kept == scalars:
            return candidate
        self._held_back.add(client.key)
        return Resources([*(resource for resource in candidate if not countable(resource)), *kept])

    def _surplus(self) -> dict[str, int]:
        """Return what may be given of names that are guaranteed to somebody who has not got it yet."""
        headroom = self._sums.headroom
        return {name: max(0, headroom.get(name, 0) - amount) for name, amount in self._required.items()}

    def _give(
        self,
        machine: _Machine,
        client: Client,
        candidate: Resources,
        offered: Resources,
        refused: Refused,
        given: dict[tuple[AgentId, Key], Resources],
    ) -> None:
        if offered is not candidate and not self._allocatable(offered, client):
            return
        agent_id = machine.supply.agent_id
        if refused(client, agent_id, offered):
            return
        machine.free = NOTHING if offered is machine.free else machine.free - offered
        self._sums.give(agent_id, machine.books, client.key, offered)
        if self._missing.get(top := top_level(client.role)):
            self._missing[top] = self._short(top)
            self._required = _added_up(self._missing.values())
        self._weigh(machine)
        self.tree.choose(client.role, client.framework_id)
        given[(agent_id, client.key)] = given.get((agent_id, client.key), NOTHING) + offered

    def _take_back_shared(self, machine: _Machine) -> None:
        """What is shared goes to one client in a cycle, and may go to others in the next."""
        shared = machine.supply.free.shared()
        if shared and machine.free.shared() != shared:
            machine.free = machine.free.nonshared() + shared
            self._weigh(machine)

    def _allocatable(self, candidate: Resources, client: Client) -> bool:
        own = client.min_allocatable
        return allocatable(candidate, self._rules.min_allocatable if own is None else own)

    def _weigh(self, machine: _Machine) -> None:
        minimums = () if self._own_minimums else self._rules.min_allocatable
        if machine.supply.active and allocatable(machine.free, minimums):
            self._worth.add(machine.supply.agent_id)
        else:
            self._worth.discard(machine.supply.agent_id)

    def _drop(self, key: Key) -> None:
        self._clients.pop(key, None)
        if key in self._own_minimums:
            self._own_minimums.remove(key)
            self._reweigh(not self._own_minimums)

    def _reweigh(self, needed: bool) -> None:
        """Look again which agents have anything worth an offer: somebody wants smaller ones, or nobody any more."""
        if needed:
            for machine in self._machines.values():
                self._weigh(machine)


def _by_role(keys: Iterable[Key]) -> dict[Role, list[FrameworkId]]:
    found: dict[Role, list[FrameworkId]] = {}
    for role, framework_id in keys:
        found.setdefault(role, []).append(framework_id)
    return found


def _added_up(parts: Iterable[Quantities]) -> Quantities:
    total: dict[str, int] = {}
    for part in parts:
        add_to(total, part)
    return total
