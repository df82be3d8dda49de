"""Apps and offers in the words of placement: what one instance asks for, and what an offer has left.

GPUs that are given whole and cards that are shared (`--shared_gpus`) are two pools, as no task can have of both: an
app is held against one of them. Of shared cards a thousandth is one of the memory of the largest card that is offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import fulfilled
from mesos_gpu.marathon.matching.offers import Offer, amounts
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.cgpu import ShareAsk
from mesos_gpu.mesos.shares.gpu_shares import CARDS_ATTRIBUTE, GPU_MEM, GPU_SLICES, CardLabel, read_cards, room_by_card
from mesos_gpu.placement.demand import WHOLE, Demand, Machine

POLICY_LABEL = "PLACEMENT_POLICY"
"""An app's own choice of policy."""
MODEL = "gpu_model"
"""The attribute by which agents tell the model of their GPUs (--gpu_attributes)."""
_OF_ONE_AGENT = ("IS", "LIKE", "UNLIKE", "CLUSTER")
_NONE_OF_THESE = frozenset({"no model that is offered"})


def demand(spec: RunSpec, models: Iterable[Offer] = ()) -> Demand:
    """Return what one instance asks for, with its executor. `models`: an offer of each model of GPU that there is."""
    asked = {name: own + beside for name, own, beside in spec.scalars}
    # What is not a whole MiB counts as one.
    mem = -(-asked["mem"] // 1000)
    return Demand(asked["cpus"], mem, spec.gpus, models=_models(spec, models) if spec.gpus else frozenset())


def in_whole_mib(spec: RunSpec) -> bool:
    """Return whether what one instance asks for is told exactly by its `demand`."""
    return not any((asked + beside) % 1000 for name, asked, beside in spec.scalars if name == "mem")


def machine(offer: Offer, left: Resources) -> Machine:
    """Return what is left of an offer for tasks that have nothing reserved; its GPUs are whole ones."""
    cpus_milli, mem_mib, gpus = offer.amounts if left is offer.resources else amounts(left)
    return Machine(cpus_milli, mem_mib, (WHOLE,) * gpus, model(offer))


def largest_share(spec: RunSpec) -> ShareAsk | None:
    """Return the part of a GPU that one instance asks for; the largest, of a pod's containers. None: it asks for none.

    Which cards the smaller ones get is found when the offer is matched.
    """
    return spec.largest_share


def asks_for_gpus(spec: RunSpec) -> bool:
    """Return whether an instance takes GPUs, or a part of one."""
    return bool(spec.gpus) or spec.largest_share is not None


def share_demand(spec: RunSpec, card_gib: int, models: Iterable[Offer] = ()) -> Demand:
    """Return what one instance asks for where cards are shared; the largest of these has `card_gib`.

    All of the memory of such a card is one GPU. Of parts of several cards the largest counts.
    """
    ask, wanted = largest_share(spec), demand(spec)
    if ask is None:
        return wanted
    suited = _models(spec, models)
    if max(ask.mem_gib) > card_gib:
        return replace(wanted, gpus=1, models=_NONE_OF_THESE)
    if min(ask.mem_gib) == card_gib:
        return replace(wanted, gpus=ask.cards, models=suited)
    share_milli = max(1, min(WHOLE - 1, _of_card(max(ask.mem_gib), card_gib)))
    return replace(wanted, share_milli=share_milli, models=suited)


def shared_machine(offer: Offer, left: Resources, card_gib: int) -> Machine:
    """Return what is left of an offer where cards are shared: the memory of each, in the order of `shared_cards`.

    A card of whose slices none is left has nothing.
    """
    memory, slices = room_by_card(left, GPU_MEM), room_by_card(left, GPU_SLICES)
    free = (memory.get(card, 0) if slices.get(card) else 0 for card in shared_cards(offer))
    cards = tuple(min(WHOLE, _of_card(gib, card_gib)) for gib in free)
    return Machine(left.milli("cpus"), left.milli("mem") // 1000, cards, model(offer))


def shared_cards(offer: Offer) -> tuple[int, ...]:
    """Return the driver's numbers of the cards that an offer's agent shares, in order."""
    return tuple(sorted(_shared(offer)))


def largest_card(offers: Iterable[Offer]) -> int:
    """Return the GiB of the largest card that is shared; 0 where none is."""
    return max((card.mem_units for offer in offers for card in _shared(offer).values()), default=0)


def _shared(offer: Offer) -> Mapping[int, CardLabel]:
    return read_cards(next((text for name, text in offer.attributes if name == CARDS_ATTRIBUTE), ""))


def _of_card(gib: int, card_gib: int) -> int:
    """Return GiB as thousandths of a card. Amounts are told apart, and stay in their order, as cards have fewer GiB."""
    return gib * WHOLE // card_gib


def model(offer: Offer) -> str:
    """Return the model of its GPUs; empty when the agent does not tell."""
    return offer.named.get(MODEL, "")


def _models(spec: RunSpec, offers: Iterable[Offer]) -> frozenset[str]:
    """Return the models that its constraints leave; empty when they leave all."""
    if not spec.document["constraints"]:
        return frozenset()
    models = tuple(offers)
    asked = [c for c in spec.document["constraints"] if c[0] == MODEL and c[1].upper() in _OF_ONE_AGENT]
    asked = [c for c in asked if c[1].upper() != "CLUSTER" or len(c) > 2]
    if not asked or not models:
        return frozenset()
    suited = {model(offer) for offer in models if all(fulfilled(c, offer, (), spec.instances) for c in asked)}
    return frozenset() if len(suited) == len(models) else frozenset(suited) or _NONE_OF_THESE
