"""Containers that were suspended with what they had on GPUs, and what follows from each step and each crash. Pure.

A suspended container holds no GPU: the pool of the agent alone says who has which. What is on record here is how many
it is to have again, and how far a suspension or its end has come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.errors import BadInput, Conflict, NotFound
from mesos_gpu.mesos.ids import ContainerId


class Phase(Enum):
    """How far it has come; what is not on record runs."""

    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"


class Step(Enum):
    """What happens to a container."""

    SUSPEND = "suspend"
    PUT_AWAY = "put away"
    """Its memory was copied to the host's, and its GPUs are given back."""
    KEPT = "kept"
    """It could not be put away, and runs on."""
    RESUME = "resume"
    BACK = "back"
    REMAINED = "remained"
    """It could not be brought back, and remains as it was."""
    ENDED = "ended"


NEXT: Mapping[tuple[Phase | None, Step], Phase | None] = {
    (None, Step.SUSPEND): Phase.SUSPENDING,
    (Phase.SUSPENDING, Step.PUT_AWAY): Phase.SUSPENDED,
    (Phase.SUSPENDING, Step.KEPT): None,
    (Phase.SUSPENDED, Step.RESUME): Phase.RESUMING,
    (Phase.RESUMING, Step.BACK): None,
    (Phase.RESUMING, Step.REMAINED): Phase.SUSPENDED,
    (None, Step.ENDED): None,
    (Phase.SUSPENDING, Step.ENDED): None,
    (Phase.SUSPENDED, Step.ENDED): None,
    (Phase.RESUMING, Step.ENDED): None,
}
"""An absent pair is refused."""


class Suspension(Struct, frozen=True):
    """The GPUs that a container had, by UUID, and how far its suspension has come."""

    gpus: tuple[str, ...]
    phase: Phase


Book = Mapping[ContainerId, Suspension]


def stepped(book: Book, container: ContainerId, step: Step, gpus: Sequence[str] = ()) -> Book:
    """Return the book after a step; with SUSPEND `gpus` are those that it has.

    Raises BadInput for a container without a GPU, Conflict, NotFound for a step that cannot be now.
    """
    after = next_suspension(book.get(container), container, step, gpus)
    rest = {name: one for name, one in book.items() if name != container}
    return rest if after is None else {**rest, container: after}


def next_suspension(
    now: Suspension | None, container: ContainerId, step: Step, gpus: Sequence[str] = ()
) -> Suspension | None:
    """Return the suspension of one container after a step, None if it runs then. Raises as `stepped` does."""
    before = None if now is None else now.phase
    if (before, step) not in NEXT:
        if now is None:
            raise NotFound(f"container {container} is not suspended")
        raise Conflict(f"container {container} is {now.phase.value}: {step.value} cannot be now")
    if step is Step.SUSPEND and not gpus:
        raise BadInput(f"container {container} has no whole GPU: there is nothing to put away")
    after = NEXT[before, step]
    if after is None:
        return None
    return Suspension(tuple(gpus), after) if now is None else replace(now, phase=after)


def after_crash(phase: Phase, *, holds: bool) -> Step:
    """Return what is to be done about a container that an agent before this one was at; `holds`: it has its GPUs.

    GPUs are given back when all was put away, and taken before anything is brought back. So who holds none has all
    put away; who holds them is to run, whatever of it was put away.
    """
    if phase is Phase.SUSPENDED:
        return Step.BACK if holds else Step.REMAINED
    if holds:
        return Step.KEPT if phase is Phase.SUSPENDING else Step.BACK
    return Step.PUT_AWAY if phase is Phase.SUSPENDING else Step.REMAINED


def moves(was: Sequence[str], now: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return which GPU takes the place of which, by UUID: itself where it can. Source: CUcheckpointGpuPair.

    CUDA wants every one that was there before named.
    """
    others = iter(sorted(set(now) - set(was)))
    return tuple((uuid, uuid if uuid in now else next(others)) for uuid in was)
