"""What a task says about its part of a GPU in the variables of Alibaba Cloud's cGPU. Pure.

Source: "Install and use cGPU on a Docker container", help.aliyun.com (Elastic GPU Service), section on environment
variables; the padding of lists is shown there by examples for four cards: `3,1` are 3, 1, 1 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.shares.gpu_shares import MOST_SLICES, CardPart, SharedCard

MEM_CONTAINER = "ALIYUN_COM_GPU_MEM_CONTAINER"
MEM_DEV = "ALIYUN_COM_GPU_MEM_DEV"
WEIGHT = "ALIYUN_COM_GPU_SCHD_WEIGHT"
HIGH_PRIO = "ALIYUN_COM_GPU_HIGH_PRIO"
DEVICES = "ALIYUN_COM_GPU_VISIBLE_DEVICES"
DISABLE = "CGPU_DISABLE"
NAMES = (MEM_CONTAINER, MEM_DEV, WEIGHT, HIGH_PRIO, DEVICES, DISABLE)


@dataclass(frozen=True, slots=True)
class ShareAsk:
    """The part of one or several cards that a task asks for: `mem_gib` has one entry a card.

    `devices` are the cards by index or UUID, none: any; `card_gib` is how large each must be, None: any size.
    """

    mem_gib: tuple[int, ...]
    weight: int = 1
    high_priority: bool = False
    devices: tuple[str, ...] = ()
    card_gib: int | None = None

    @property
    def cards(self) -> int:
        """Return how many cards it wants a part of."""
        return len(self.mem_gib)

    def variables(self) -> dict[str, str]:
        """Return the ask as variables; reading them gives it again."""
        found = {MEM_CONTAINER: ",".join(map(str, self.mem_gib)), WEIGHT: str(self.weight)}
        if self.high_priority:
            found[HIGH_PRIO] = "1"
        if self.devices:
            found[DEVICES] = ",".join(self.devices)
        if self.card_gib is not None:
            found[MEM_DEV] = str(self.card_gib)
        return found


def read_ask(environment: Mapping[str, str]) -> ShareAsk | None:
    """Return what variables ask for; None when they ask for nothing, or CGPU_DISABLE or a memory of 0 turns it off.

    Raises BadInput, in words, for what cannot be understood.
    """
    if environment.get(DISABLE, "").strip().lower() == "true":
        return None
    text = environment.get(MEM_CONTAINER, "").strip()
    if not text:
        return None
    amounts = [_number(MEM_CONTAINER, part, "such as 6, or 3,1 for several cards") for part in text.split(",")]
    if 0 in amounts:
        first = amounts.index(0)
        if any(amounts[first:]):
            raise BadInput(f"{MEM_CONTAINER}={text} has a 0 before another card's memory: leave out that card")
        return None
    devices = tuple(part.strip() for part in environment.get(DEVICES, "").split(",") if part.strip())
    if "all" in devices:
        raise BadInput(f"{DEVICES}=all: name the cards, or leave it out for any")
    if len(set(devices)) != len(devices):
        raise BadInput(f"{DEVICES} names a card twice: {','.join(devices)}")
    weight = _number(WEIGHT, environment.get(WEIGHT, "").strip() or "1", f"1 to {MOST_SLICES}")
    if not 1 <= weight <= MOST_SLICES:
        raise BadInput(f"{WEIGHT}={weight}: a weight is 1 to {MOST_SLICES}")
    priority = environment.get(HIGH_PRIO, "").strip() or "0"
    if priority not in ("0", "1"):
        raise BadInput(f"{HIGH_PRIO}={priority}: write 0 or 1")
    card = environment.get(MEM_DEV, "").strip()
    return ShareAsk(
        padded(amounts, len(devices) or len(amounts)),
        weight,
        priority == "1",
        devices,
        _number(MEM_DEV, card, "the memory of a card in GiB") if card else None,
    )


def padded(amounts: list[int], cards: int) -> tuple[int, ...]:
    """Return one amount for each card: the last one stands for the cards that follow. Raises BadInput."""
    if len(amounts) > cards:
        raise BadInput(f"memory is given for {len(amounts)} cards, and {cards} are named")
    return tuple(amounts + amounts[-1:] * (cards - len(amounts)))


def disagreement(ask: ShareAsk | None, taken: tuple[CardPart, ...], cards: Mapping[int, SharedCard]) -> str | None:
    """Return why the variables of a task do not fit the units that were taken for it; None when they do.

    `taken` are units of `cards`. A task that was given units and says nothing has what it was given.
    """
    if ask is None:
        return None
    if not taken:
        wants = f"{','.join(map(str, ask.mem_gib))} GiB of a GPU"
        return (
            f"The variables ask for {wants} ({MEM_CONTAINER}), and no part of a GPU was taken for the task: its "
            "framework must accept gpu_mem and gpu_slices of an offer (ours does, Mesosphere's Marathon cannot); "
            f"or set {DISABLE}=true"
        )
    if sorted(ask.mem_gib) != sorted(part.mem_units for part in taken):
        has = ", ".join(f"{part.mem_units} GiB of card {part.card}" for part in taken)
        return f"{MEM_CONTAINER} asks for {','.join(map(str, ask.mem_gib))} GiB, and what was taken is {has}"
    if any(part.weight != ask.weight for part in taken):
        has = ", ".join(f"{part.weight} of card {part.card}" for part in taken)
        return f"{WEIGHT} asks for a weight of {ask.weight}, and the gpu_slices that were taken are {has}"
    for part in taken:
        card = cards[part.card]
        if ask.card_gib is not None and ask.card_gib != card.mem_units:
            return f"{MEM_DEV} asks for cards of {ask.card_gib} GiB, and card {card.index} has {card.mem_units}"
        if ask.devices and not {str(card.index), card.uuid}.intersection(ask.devices):
            return f"{DEVICES} asks for {','.join(ask.devices)}, and units of card {card.index} were taken"
    return None


def _number(name: str, text: str, form: str) -> int:
    if not text.strip().isdecimal():
        raise BadInput(f"{name}={text}: write a whole number, {form}")
    return int(text)
