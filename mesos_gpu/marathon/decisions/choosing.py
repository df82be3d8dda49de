"""Which of several offers an instance takes: the policies of `mesos_gpu.placement` over the offers at hand.

docs/do/placement.md says it in words. With one offer there is nothing to choose, and Marathon's own order holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mesos_gpu.marathon.decisions.using import OpenOffer, Ready
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.placing import POLICY_LABEL, demand, machine, model
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import OfferId
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
    return draft.settings.placement_policy if spec.gpus or gpus_offered else "first_fit"


def worth_waiting(draft: Draft, documents: Sequence[OfferDocument], ready: Ready) -> bool:
    """Return whether offers are held for a moment, as others may come that suit better.

    Not on an idle cluster, nor when every agent that is known has offered, nor when nothing that waits would choose.
    """
    if draft.settings.offer_window_s <= 0 or len(draft.instances) == len(draft.waiting):
        return False
    if {document["agent_id"]["value"] for document in documents} >= draft.agents:
        return False
    return any(spec.gpus and policy_of(draft, spec) != "first_fit" for spec in ready.specs.values())


class Choice:
    """Places instances on the best of the offers at hand."""

    def __init__(self, draft: Draft, offers: Sequence[OpenOffer]) -> None:
        self._draft = draft
        self._offers = {each.offer.id: each for each in offers}
        self._models: Mapping[str, Offer] = {model(each.offer): each.offer for each in offers}
        self._gpus_offered = any(each.left.gpus for each in offers)
        self._fleets: dict[str, Fleet] = {}

    def place(self, ready: Ready) -> None:
        """Start what has a place, one of each app in turn. What has none stays in `ready`."""
        if len(self._offers) < 2:
            return
        apps = [app_id for app_id in ready if self._chooses(app_id)]
        unfit: dict[str, set[OfferId]] = {app_id: set() for app_id in apps}
        while apps and self._draft.tokens.left:
            apps = [app_id for app_id in apps if self._place_one(app_id, ready, unfit[app_id])]

    def _chooses(self, app_id: str) -> bool:
        spec = self._draft.app(app_id)
        if spec is None or spec.resident:
            return False
        return POLICIES[policy_of(self._draft, spec, gpus_offered=self._gpus_offered)].rank is not Rank.ORDER

    def _place_one(self, app_id: str, ready: Ready, unfit: set[OfferId]) -> bool:
        """Start one instance of an app; return whether another may be tried. `unfit` learns what does not suit it."""
        spec = self._draft.app(app_id)
        if spec is None or not self._draft.tokens.left:
            return False
        wish, fleet = demand(spec, self._models.values()), self._fleet(policy_of(self._draft, spec))
        full = {offer_id for offer_id, each in self._offers.items() if each.full}
        while (place := fleet.best(wish, unfit | full)) is not None:
            offer_id = OfferId(place.machine)
            if self._offers[offer_id].try_app(app_id, spec, ready, tell=False):
                for known in self._fleets.values():
                    known.change(place.machine, known.machine(place.machine).without(wish, place.cards))
                return app_id in ready
            unfit.add(offer_id)
        return False

    def _fleet(self, policy: str) -> Fleet:
        if policy not in self._fleets:
            machines = {str(name): machine(each.offer, each.left) for name, each in self._offers.items()}
            # Not before there is a choice: numpy takes 0.1 s to start, and most Marathons of a box never need it.
            from mesos_gpu.placement.fleet import Fleet

            self._fleets[policy] = Fleet(machines, POLICIES[policy], self._mix())
        return self._fleets[policy]

    def _mix(self) -> Mix:
        """Return the mix of what runs and waits now."""
        mix = Mix()
        draft = self._draft
        for app_id in {*draft.versions, *draft.members, *draft.waiting_apps()}:
            spec = draft.app(app_id)
            if spec is not None and spec.gpus:
                mix.saw(demand(spec, self._models.values()), len(draft.members.of(app_id)))
        return mix
