"""Offers where an order was asked for: gangs, priorities, who gives way. `mesos_gpu.queueing` decides; here it is done.

docs/do/gangs.md says it in words. What is kept for the first that waits is kept by holding its offers for a while
(--gang_offer_hold), then giving all back at once: so they come again together, and others had their turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mesos_gpu.marathon.decisions import suspending
from mesos_gpu.marathon.decisions.choosing import holders, policy_of
from mesos_gpu.marathon.decisions.giving_way import Parts, give_way, parts_held
from mesos_gpu.marathon.decisions.using import OpenOffer, Ready, matched, placed_instances, task_of
from mesos_gpu.marathon.definitions.ports import PortWish, take_ports
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching import queue_requests, share_scheduling
from mesos_gpu.marathon.matching.constraints import all_fulfilled
from mesos_gpu.marathon.matching.matching import Match, Pool, Refusal, accepted_roles, pool_of
from mesos_gpu.marathon.matching.nvlink import with_links
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.placement_demand import MODEL, demand, machine, model
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.marathon.model.instances import ASKED, INACTIVE, Instance, Phase, Task
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.given_back import SETTLE_S, GivenBack
from mesos_gpu.marathon.state.queue_entry import Place
from mesos_gpu.marathon.state.seen import Seen
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.placement.demand import Demand, Machine
from mesos_gpu.queueing.decide import Decision, Start, decide
from mesos_gpu.queueing.places import PREFERENCES, Preference, fewest_first
from mesos_gpu.queueing.promise import Promise
from mesos_gpu.queueing.values import Ask, Running, rank_of, with_ended

_IDLE = INACTIVE | {Phase.UNREACHABLE}
"""In these an instance has no task that surely holds something."""
_MASTER_PORT = PortWish(None, 0, "master", "tcp", ())

Found = list[tuple[OpenOffer, Instance, Match]]


class _Suited(NamedTuple):
    """The machines to which those may go who ask for the same, and why they may not go to others that are at hand."""

    names: frozenset[str]
    refusals: list[tuple[str, tuple[Reason, ...]]]


class Look:
    """One look at what waits, with the offers at hand. `away`: offers that were given back, of other agents.

    Agents that are refused in a role come in it when offers are asked for; the others come by themselves. A machine
    at hand in another role is not what somebody can start on, but soon will be.
    """

    def __init__(self, draft: Draft, opened: Sequence[OpenOffer], ready: Ready, away: GivenBack) -> None:
        self._draft, self._ready = draft, ready
        self._open = {str(each.offer.id): each for each in opened}
        self._offers: dict[str, Offer] = {name: each.offer for name, each in self._open.items()}
        self._away = {f"{offer.id} given back": offer for offer in away.offers}
        self._offers |= self._away
        self._away_in, self._lately = away.still_refused, away.lately
        self._called_over: dict[str, None] = {}
        self.meant: dict[str, Role] = {}
        """Which offers somebody is to have soon, and in which role."""
        self._names = {str(offer.agent_id): name for name, offer in reversed(self._offers.items())}
        self._models = {model(offer): offer for offer in self._offers.values()}
        self._unfit: dict[str, set[str]] = {}
        self._pools: dict[tuple[str, tuple[Role, ...]], tuple[Resources, Pool]] = {}
        """What may be taken by offer and roles, beside what of it was made."""
        self._shares: Mapping[str, float] = {}
        self._demands: dict[str, Demand] = {}
        """By what all have in common who ask for the same (`RunSpec.alike`)."""
        self._suited: dict[str, _Suited] = {}
        """By the same, until something starts."""
        self._there: dict[str, list[Task]] = {}
        """The tasks on each agent, and those that have ended there a moment ago; until something starts."""
        self._parts: dict[AgentId, Parts] | None = None
        """What of shared cards the tasks on each agent have, once somebody asks for parts; until something starts."""

    def carry_out(self) -> Decision:
        """Start who is to start, and ask for the end of what gives way."""
        draft = self._draft
        settled = not draft.revive_due and draft.revived_s + SETTLE_S <= draft.now_s
        promised = next((app_id for app_id, place in draft.places.items() if place.at_s is not None), None)
        while True:
            # The tasks come first: they tell which part of everything each role has.
            tasks = self._running()
            self._suited, self._there, self._parts = {}, {}, None
            for task in self._tasks():
                self._there.setdefault(str(task.agent_id), []).append(task)
            free = self._free(tasks)
            asked = [found for app_id in self._ready if (found := self._ask(app_id, free, tasks)) is not None]
            decision = decide(asked, free, tasks, draft.now_s, self._prefer, taking=settled, promised=promised)
            if not self._in_vain(decision.promise) and not any(self._refused(start) for start in decision.starts):
                break
        self._note(decision, asked)
        if decision.promise is not None:
            give_way(draft, decision.gives_way, decision.promise.ask.id)
            first = draft.app(decision.promise.ask.id)
            if first is not None:
                self.meant = dict.fromkeys(decision.promise.members, Role(first.document["role"])) | self.meant
        coming = ((self._offers[name].agent_id, role) for name, role in self.meant.items() if name in self._offers)
        draft.calls = draft.calls.started() if decision.starts else draft.calls
        if not self._away_in.isdisjoint(coming) and draft.calls.due(draft.now_s):
            draft.revive_due, draft.calls = True, draft.calls.made(draft.now_s)
        return decision

    def _left(self, name: str) -> Resources:
        """Return what is left of an offer at hand, or was of one that was given back."""
        return self._open[name].left if name in self._open else self._offers[name].resources

    def _in_role(self, name: str, spec: RunSpec) -> Offer:
        """Return an offer as it will come in an app's role."""
        offer, role = self._offers[name], spec.document["role"]
        return offer if offer.role == role else replace(offer, role=Role(role))

    def _ask(self, app_id: str, free: Mapping[str, Machine], tasks: Sequence[Running]) -> Ask | None:
        draft, spec = self._draft, self._ready.specs[app_id]
        if spec.resident or len(self._ready[app_id]) < spec.gang_size:
            return None
        settings = draft.settings
        since_s = draft.instances[self._ready[app_id].first].since_s
        share = self._shares.get(str(spec.document["role"]), 0.0)
        rank = rank_of(
            since_s, spec.priority, share, aging_s=settings.priority_aging_s, fair_s=settings.priority_aging_s / 2
        )
        found = queue_requests.ask(spec, len(self._ready[app_id]), rank, self._demand(spec), self._where(spec, free))
        together = self._together(spec, found, free, tasks) if queue_requests.clusters(spec) else None
        return found if together is None else replace(found, machines=together)

    def _together(
        self, spec: RunSpec, asked: Ask, free: Mapping[str, Machine], tasks: Sequence[Running]
    ) -> frozenset[str]:
        """Return the machines of one value: that with room now, once what ends has, or when all has ended that may."""
        places: dict[str, Task | Offer] = {agent_id: tasks[-1] for agent_id, tasks in self._there.items()}
        ending = (task for task in tasks if task.ending)
        able = (task for task in tasks if task.ends_s is not None or task.preemptible)
        stages = (free, with_ended(free, ending), with_ended(free, able))
        return queue_requests.one_cluster(spec, asked, stages, {**places, **self._offers})

    def _demand(self, spec: RunSpec) -> Demand:
        alike = spec.alike
        if alike is None:
            return demand(spec, self._models.values())
        known = self._demands.get(alike)
        if known is None:
            known = self._demands[alike] = demand(spec, self._models.values())
        return known

    def _where(self, spec: RunSpec, free: Mapping[str, Machine]) -> frozenset[str]:
        """Return the machines to which an app may go now, or once others have ended there.

        Of those that ask for the same one alone is held against all offers.
        """
        alike = spec.alike
        found = None if alike is None else self._suited.get(alike)
        if found is None:
            found = self._suit(spec, free)
            if alike is not None:
                self._suited[alike] = found
        for name, reasons in found.refusals if self._draft.settings.offer_statistics else ():
            self._open[name].refuse(spec.id, reasons)
        unfit = self._unfit.get(spec.id)
        return found.names - unfit if unfit else found.names

    def _suit(self, spec: RunSpec, free: Mapping[str, Machine]) -> _Suited:
        draft, placed = self._draft, placed_instances(self._draft, spec)
        roles = accepted_roles(spec, draft.settings.roles_behaviour)
        names: set[str] = set()
        refusals: list[tuple[str, tuple[Reason, ...]]] = []
        there = self._there
        for name, offer in self._offers.items():
            at_hand = name in self._open
            if not at_hand and offer.agent_id not in there and not self._as_told(offer, spec, roles, placed):
                continue
            reasons = self._reasons(name, offer, self._left(name), spec, placed, roles)
            if self._passes(name, offer, spec, roles, reasons):
                names.add(name)
            if at_hand and (reasons or offer.role != spec.document["role"]):
                refusals.append((name, reasons or (Reason.UNFULFILLED_ROLE,)))
        constraints = spec.document["constraints"]
        names |= {
            agent_id
            for agent_id, tasks in there.items()
            if agent_id in free
            and any(all_fulfilled(constraints, task, placed, spec.instances, draft.region) for task in tasks)
            and self._may_have_parts(spec, tasks[-1])
        }
        return _Suited(frozenset(names), refusals)

    def _passes(
        self, name: str, offer: Offer, spec: RunSpec, roles: tuple[Role, ...], reasons: tuple[Reason, ...]
    ) -> bool:
        """Return whether an app may go to an offer once tasks have ended there. No end is known to give parts back."""
        if not queue_requests.PASSES.issuperset(reasons):
            return False
        if spec.largest_share is None or Reason.INSUFFICIENT_GPUS not in reasons:
            return True
        return self._has_parts(name, offer, spec, roles)

    def _has_parts(self, name: str, offer: Offer, spec: RunSpec, roles: tuple[Role, ...], members: int = 1) -> bool:
        return share_scheduling.has_shares(
            spec, self._pool(name, offer, self._left(name), roles), offer.attributes, members
        )

    def _may_have_parts(self, spec: RunSpec, there: Task) -> bool:
        if spec.largest_share is None:
            return True
        if self._parts is None:
            self._parts = parts_held(self._draft)
        return share_scheduling.may_have_shares(spec, there.attributes, self._parts.get(there.agent_id, {}))

    def _in_vain(self, kept: Promise | None) -> bool:
        """Return whether members of a gang would not find their parts beside one another on what was given back.

        Those machines are left out then; on offers at hand that shows itself when the gang starts.
        """
        spec = None if kept is None else self._draft.app(kept.ask.id)
        if kept is None or spec is None or spec.largest_share is None:
            return False
        roles = accepted_roles(spec, self._draft.settings.roles_behaviour)
        unfit = {
            name
            for name, members in kept.members.items()
            if name in self._away and not self._has_parts(name, self._away[name], spec, roles, members)
        }
        self._unfit.setdefault(spec.id, set()).update(unfit)
        return bool(unfit)

    def _reasons(
        self,
        name: str,
        offer: Offer,
        left: Resources,
        spec: RunSpec,
        placed: Sequence[Instance],
        roles: tuple[Role, ...],
    ) -> tuple[Reason, ...]:
        """Return why what is left of an offer does not do for an app; nothing when it does.

        Of all that was offered that is kept with the offer, and known when it comes again.
        """
        alike = None if left is not offer.resources or "unavailability" in offer.document else spec.alike
        known = None if alike is None else offer.reasons.get(alike)
        if known is None:
            pool = self._pool(name, offer, left, roles)
            found = matched(self._draft, spec, self._in_role(name, spec), left, placed, pool)
            known = found.reasons if isinstance(found, Refusal) else ()
            if alike is not None:
                offer.reasons[alike] = known
        return known

    def _as_told(self, offer: Offer, spec: RunSpec, roles: tuple[Role, ...], placed: Sequence[Instance]) -> bool:
        """Return whether what an app's own role was offered lately of an agent would do: a quota may leave it less."""
        own = self._lately.get((offer.agent_id, Role(spec.document["role"])))
        if own is None or own is offer:
            return True
        pool = pool_of(own, own.resources, roles)
        return isinstance(matched(self._draft, spec, own, own.resources, placed, pool), Match)

    def _pool(self, name: str, offer: Offer, left: Resources, roles: tuple[Role, ...]) -> Pool:
        """Return what those of some roles may take of an offer, the same for all of them while nothing is taken."""
        known = self._pools.get((name, roles))
        if known is None or known[0] is not left:
            known = self._pools[name, roles] = (left, pool_of(offer, left, roles))
        return known[1]

    def _tasks(self) -> Iterator[Task]:
        """Yield the tasks that there are, and those that have ended a moment ago."""
        yield from (i.task for i in self._draft.instances.values() if i.task is not None)
        yield from (task for task, _, _ in self._draft.freed)

    def _free(self, tasks: Sequence[Running]) -> dict[str, Machine]:
        holding = holders(self._draft, [each.offer for each in self._open.values()])
        free = {
            name: with_links(machine(each.offer, each.left), each.offer, holding) for name, each in self._open.items()
        }
        for name in (*self._away, *self._called_over):
            free[name] = Machine(0, 0, (), model(self._offers[name]))
        for task in tasks:
            if task.machine not in free:
                there = self._there.get(task.machine)
                known = dict(there[-1].attributes).get(MODEL, "") if there else ""
                free[task.machine] = Machine(0, 0, (), known)
        return free

    def _running(self) -> list[Running]:
        draft, names, kills = self._draft, self._names, self._draft.kills
        found, held = [], []
        before, seen = draft.seen, dict[str, Seen]()
        for instance in draft.instances.values():
            task = instance.task
            if task is None or instance.phase in _IDLE:
                continue
            spec = draft.spec_of(instance)
            if spec is None:
                continue
            needed = self._demand(spec)
            held.append((instance.role, needed))
            name = names.get(task.agent_id, task.agent_id)
            ending = not instance.wanted or task.suspension == ASKED or task.id in kills
            known = None if ending else before.get(instance.id)
            if known is None or not known.of(instance, spec, needed):
                gives = suspending.given_back(task, needed)
                runs = queue_requests.running(instance, task, spec, name, gives, now_s=draft.now_s, ending=ending)
                known = Seen(instance, spec, needed, replace(runs, preemptible=False) if task.away else runs)
            if not ending and known.lasts:
                seen[instance.id] = known
            found.append(known.running if known.running.machine == name else known.at(name))
        self._shares, draft.seen = queue_requests.role_shares(held), seen
        for task, spec, _ in draft.freed:
            name = self._names.get(str(task.agent_id), str(task.agent_id))
            found.append(Running(f"was {task.id}", name, self._demand(spec), draft.now_s + 1.0, ending=True))
        for name in (*self._away, *self._called_over):
            offer = self._offers[name]
            there = machine(offer, self._left(name))
            whole = Demand(there.cpus_milli, there.mem_mib, there.whole)
            found.append(Running(f"offer {name}", name, whole, draft.now_s + 1.0, ending=True))
        return found

    def _prefer(self, app_id: str) -> Preference:
        spec = self._draft.app(app_id)
        return fewest_first if spec is None else PREFERENCES.get(policy_of(self._draft, spec), fewest_first)

    def _refused(self, start: Start) -> bool:
        """Start one unit; return whether it could not be, by what only a whole look at an offer shows."""
        draft, spec = self._draft, self._draft.app(start.ask)
        if spec is None or start.ask not in self._ready:
            return False
        over = {name for name in start.members if self._open[name].offer.role != spec.document["role"]}
        if over:
            self._called_over |= dict.fromkeys(sorted(over))
            self.meant |= dict.fromkeys(start.members, Role(spec.document["role"]))
            return True
        most = draft.settings.launch_tokens
        if draft.tokens.left < min(spec.gang_size, most):
            return False  # more may start a moment later
        found = self._match(spec, start)
        if isinstance(found, str):
            self._unfit.setdefault(spec.id, set()).add(found)
            return True
        gangs = self._memberships(spec, found)
        for (each, instance, match), gang in zip(found, gangs, strict=True):
            self._ready[spec.id].leave(instance.id)
            each.take(instance, spec, match, gang)
        if not self._ready[spec.id]:
            del self._ready[spec.id]
        return False

    def _match(self, spec: RunSpec, start: Start) -> Found | str:
        """Return what each member of a unit takes of its offer; the name of an offer that does not do after all."""
        draft, placed = self._draft, placed_instances(self._draft, spec)
        waiting = iter(self._ready[spec.id])
        found: Found = []
        for name, count in start.members.items():
            each = self._open[name]
            left = each.left
            for _ in range(count):
                if each.full and spec.gang_size == 1:
                    return name
                match: Match | Refusal = matched(draft, spec, each.offer, left, placed)
                if isinstance(match, Match) and not found and "gang" in spec.document:
                    match = self._with_master_port(spec, each, match)
                if isinstance(match, Refusal):
                    each.refuse(spec.id, match.reasons)
                    return name
                left -= match.whole
                instance = draft.instances[next(waiting)]
                task = task_of(draft, instance, spec, each.offer, match)
                placed.append(replace(instance, phase=Phase.PROVISIONED, task=task))
                found.append((each, instance, match))
        return found

    def _with_master_port(self, spec: RunSpec, each: OpenOffer, match: Match) -> Match | Refusal:
        """Return a match with a port more, where the others meet member 0; it comes last."""
        roles = accepted_roles(spec, self._draft.settings.roles_behaviour)
        usable = each.offer.usable(roles, each.left - match.whole)
        port = take_ports([_MASTER_PORT], usable, roles, self._draft.pick())
        if port is None:
            return Refusal((Reason.INSUFFICIENT_PORTS,))
        return replace(match, resources=match.resources + port[1], extra_ports=port[0])

    def _memberships(self, spec: RunSpec, found: Found) -> list[Membership | None]:
        if "gang" not in spec.document:
            return [None] * len(found)
        peers = tuple(each.offer.address for each, _, _ in found)
        (port,) = found[0][2].extra_ports
        gang_id = self._draft.new_id()
        return [Membership(gang_id, rank, peers, port or 0, max(1, spec.gpus)) for rank in range(len(peers))]

    def _note(self, decision: Decision, asked: Sequence[Ask]) -> None:
        """Keep for /v2/queue and `why` how near each is that waits."""
        kept, sizes = decision.promise, {ask.id: ask.size for ask in asked}
        self._draft.places = {
            app_id: Place(
                number,
                fits,
                sizes[app_id],
                kept.at_s if kept is not None and kept.ask.id == app_id else None,
                kept.ask.id if kept is not None and kept.ask.id != app_id else None,
            )
            for number, (app_id, fits) in enumerate(decision.fits.items(), 1)
        }
