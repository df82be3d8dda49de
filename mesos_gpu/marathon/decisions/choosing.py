"""Which of several offers an instance takes: the policies of `mesos_gpu.placement` over the offers at hand.

docs/do/placement.md says it in words. With one offer there is nothing to choose, and Marathon's own order holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mesos_gpu.marathon.decisions.using import OpenOffer, Ready
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.nvlink import sets_of, with_links
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.placement_demand import (
    POLICY_LABEL,
    asks_for_gpus,
    demand,
    in_whole_mib,
    largest_card,
    largest_share,
    machine,
    model,
    share_demand,
    shared_cards,
    shared_machine,
)
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import OfferId
from mesos_gpu.placement.demand import Demand, Machine, Place
from mesos_gpu.placement.mix import Mix
from mesos_gpu.placement.policies import POLICIES, Rank

if TYPE_CHECKING:
    from mesos_gpu.placement.fleet import Fleet


def policy_of(draft: Draft, spec: RunSpec, *, gpus_offered: bool = True) -> str:
    """Return the name of the policy by which an app is placed.

    Its label decides, else the flag: for apps with GPUs, and for others where they might take what GPUs need.
    """
    label = spec.document["labels"].get(POLICY_LABEL)
    if label in POLICIES:
        return str(label)
    return draft.settings.placement_policy if asks_for_gpus(spec) or gpus_offered else "first_fit"


def worth_waiting(draft: Draft, documents: Sequence[OfferDocument], ready: Ready) -> bool:
    """Return whether offers are held for a moment, as others may come that suit better.

    Not on an idle cluster, nor when every agent that is known has offered, nor when nothing that waits would choose.
    """
    if draft.settings.offer_window_s <= 0 or len(draft.instances) == len(draft.waiting):
        return False
    if {document["agent_id"]["value"] for document in documents} >= draft.agents:
        return False
    return any(asks_for_gpus(spec) and policy_of(draft, spec) != "first_fit" for spec in ready.specs.values())


def holders(draft: Draft, offers: Iterable[Offer]) -> Mapping[str, list[Task]]:
    """Return the tasks that hold GPUs, by agent; nobody is looked for where no offer tells of links."""
    agents = {str(offer.agent_id) for offer in offers if sets_of(offer.attributes)}
    found: dict[str, list[Task]] = {}
    if not agents:
        return found
    for instance in draft.instances.values():
        task = instance.task
        if task is not None and instance.active and not task.away and str(task.agent_id) in agents:
            found.setdefault(str(task.agent_id), []).append(task)
    return found


class _Wanted(Struct, frozen=True):
    """What one instance of an app asks for in a choice, and what it is held against."""

    spec: RunSpec
    shared: bool
    demand: Demand
    fleet: Fleet


class Choice:
    """Places instances on the best of the offers at hand."""

    def __init__(self, draft: Draft, offers: Sequence[OpenOffer]) -> None:
        self._draft = draft
        self._offers = {each.offer.id: each for each in offers}
        self._models: Mapping[str, Offer] = {model(each.offer): each.offer for each in offers}
        self._whole_offered = any(each.left.gpus for each in offers)
        self._card_gib = largest_card(each.offer for each in offers)
        """Of the largest card that is shared; 0: none is."""
        self._fleets: dict[tuple[str, bool], Fleet] = {}
        """By policy, and whether it has the cards that are shared or the GPUs that are given whole."""
        self._nowhere: set[str] = set()
        """What those have in common who have no place here (`RunSpec.alike`): offers only become less."""
        self._full = {each.offer.id for each in offers if each.full}
        """Offers on which no more may be started; it is never one less."""
        self._wanted: dict[str, _Wanted] = {}
        self._exact = True
        """Whether all that was asked for is whole MiB: else a machine may have a part of one more than a fleet says."""

    def place(self, ready: Ready) -> None:
        """Start what has a place, one of each app in turn. What has none stays in `ready`."""
        if len(self._offers) < 2:
            return
        apps = [app_id for app_id in ready if self._chooses(app_id)]
        unfit: dict[str, set[OfferId]] = {app_id: set() for app_id in apps}
        while apps and self._draft.tokens.left:
            apps = [app_id for app_id in apps if self._place_one(app_id, ready, unfit[app_id])]

    @property
    def nowhere(self) -> Collection[str]:
        """Return what those have in common (`RunSpec.alike`) whom surely none of the offers suits."""
        return self._nowhere if self._exact else ()

    def _chooses(self, app_id: str) -> bool:
        spec = self._draft.app(app_id)
        if spec is None or spec.resident:
            return False
        gpus_offered = self._whole_offered or self._card_gib > 0
        return POLICIES[policy_of(self._draft, spec, gpus_offered=gpus_offered)].rank is not Rank.ORDER

    def _place_one(self, app_id: str, ready: Ready, unfit: set[OfferId]) -> bool:
        """Start one instance of an app; return whether another may be tried. `unfit` learns what does not suit it."""
        if not self._draft.tokens.left:
            return False
        wanted = self._wanted.get(app_id)
        if wanted is None:
            spec = self._draft.app(app_id)
            if spec is None or spec.alike in self._nowhere:
                return False
            wanted = self._wanted[app_id] = self._want(spec)
        spec, shared = wanted.spec, wanted.shared
        if spec.alike in self._nowhere:
            return False
        while (place := wanted.fleet.best(wanted.demand, self._beside(unfit))) is not None:
            each = self._offers[OfferId(place.machine)]
            cards = shared_cards(each.offer) if shared and place.cards else ()
            if each.try_app(app_id, spec, ready, tell=False, prefer=[cards[at] for at in place.cards if cards]):
                if each.full:
                    self._full.add(each.offer.id)
                self._took(place, wanted.demand, each, shared=shared)
                return app_id in ready
            unfit.add(each.offer.id)
        if spec.alike is not None:
            self._nowhere.add(spec.alike)
        return False

    def _want(self, spec: RunSpec) -> _Wanted:
        self._exact = self._exact and in_whole_mib(spec)
        shared = self._of_shared(spec)
        fleet = self._fleet(policy_of(self._draft, spec), shared=shared)
        return _Wanted(spec, shared, self._demand(spec, shared=shared), fleet)

    def _beside(self, unfit: set[OfferId]) -> Collection[OfferId]:
        """Return the offers that do not count, of those that do not suit an app and those that are full."""
        return unfit | self._full if unfit and self._full else unfit or self._full

    def _took(self, place: Place, wish: Demand, each: OpenOffer, *, shared: bool) -> None:
        """Have all fleets know what is left of an offer."""
        for (_, of_shared), fleet in self._fleets.items():
            if of_shared:
                fleet.change(place.machine, self._machine(each, shared=True))
            else:
                taken = Demand(wish.cpus_milli, wish.mem_mib) if shared else wish
                left = fleet.machine(place.machine).without(taken, () if shared else place.cards)
                fleet.change(place.machine, left)

    def _of_shared(self, spec: RunSpec) -> bool:
        """Return whether an app is held against the cards that are shared, or against GPUs that are given whole.

        One that asks for neither keeps away from whole GPUs where there are some.
        """
        if asks_for_gpus(spec):
            return largest_share(spec) is not None and self._card_gib > 0
        return self._card_gib > 0 and not self._whole_offered

    def _demand(self, spec: RunSpec, *, shared: bool) -> Demand:
        models = self._models.values()
        return share_demand(spec, self._card_gib, models) if shared else demand(spec, models)

    def _machine(self, each: OpenOffer, *, shared: bool) -> Machine:
        return shared_machine(each.offer, each.left, self._card_gib) if shared else machine(each.offer, each.left)

    def _fleet(self, policy: str, *, shared: bool) -> Fleet:
        kind = policy, shared
        if kind not in self._fleets:
            machines = {str(name): self._machine(each, shared=shared) for name, each in self._offers.items()}
            if not shared:
                tasks = holders(self._draft, [each.offer for each in self._offers.values()])
                machines = {
                    str(name): with_links(machines[str(name)], each.offer, tasks) for name, each in self._offers.items()
                }
            # Not before there is a choice: numpy takes 0.1 s to start, and most Marathons of a box never need it.
            from mesos_gpu.placement.fleet import Fleet

            self._fleets[kind] = Fleet(machines, POLICIES[policy], self.mix(shared=shared))
        return self._fleets[kind]

    def mix(self, *, shared: bool) -> Mix:
        """Return the mix of what runs and waits now, of those that take whole GPUs or of those that take parts."""
        mix, draft = Mix(), self._draft
        known: dict[str, Demand | None] = {}
        # In one order always: of sizes that are asked for equally often the first ones count, and sums depend on it.
        for app_id in dict.fromkeys((*draft.versions, *draft.members, *draft.waiting.apps())):
            spec = draft.app(app_id)
            if spec is None:
                continue
            if (alike := spec.alike) is None or alike not in known:
                counts = asks_for_gpus(spec) and self._of_shared(spec) == shared
                size = self._demand(spec, shared=shared) if counts else None
                if alike is not None:
                    known[alike] = size
            else:
                size = known[alike]
            if size is not None:
                mix.saw(size, len(draft.members.of(app_id)))
        return mix
