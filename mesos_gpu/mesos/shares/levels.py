"""How a task is kept to its part of a card's memory: the levels that there are, and what each promises. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """A way to keep tasks to their memory; the higher, the stronger."""

    ADVISORY = 0
    WATCHER = 1
    MPS = 2
    CGROUP = 3
    MIG = 4

    @property
    def word(self) -> str:
        """Return its name as flags, labels and tables have it."""
        return self.name.lower()


LABEL_MEMORY = "gpu.share.memory"
"""The label of a task's status that names the level."""
WORDS = tuple(level.word for level in Level)


@dataclass(frozen=True, slots=True)
class Promise:
    """What may be relied on: how memory is capped, whether it holds against a hostile task, what it needs.

    `shown`: what a program in the container takes for the size of the card.
    """

    cap: str
    hostile: str
    live: str
    shown: str
    needs: str


PROMISES = {
    Level.MIG: Promise(
        "by the hardware", "yes", "no: another instance", "the instance",
        "a card in MIG mode; instances are given whole",
    ),
    Level.CGROUP: Promise(
        "by the driver: an allocation beyond it fails", "yes", "yes", "its part", "driver 615, cgroup version 2, root"
    ),
    Level.MPS: Promise(
        "by MPS, for each process", "no: variables can be cleared", "for new processes", "the whole card",
        "an MPS daemon for each card (`--gpu_share_mps_dir`)",
    ),
    Level.WATCHER: Promise(
        "after the fact: told at once, ended when it continues", "it is ended", "yes", "the whole card",
        "a driver that tells the memory of each process",
    ),
    Level.ADVISORY: Promise("not at all", "no", "yes", "the whole card", "nothing"),
}  # fmt: skip
"""Strongest first, as the documentation shows them."""


def level_named(word: str) -> Level:
    """Return the level of that name. Raises ValueError naming those that there are."""
    if word not in WORDS:
        raise ValueError(f"'{word}' is not a level: {', '.join(reversed(WORDS))}")
    return Level[word.upper()]


def strongest(present: Iterable[Level]) -> Level:
    """Return the strongest level of those that a card has; advisory is always there."""
    return max([Level.ADVISORY, *present])


def weakest(levels: Collection[Level]) -> Level:
    """Return what holds for a container with parts of several cards."""
    return min(levels, default=Level.ADVISORY)


def shortfall(required: Level, card: int, there: Level) -> str | None:
    """Return why an agent that requires a level cannot give a part of this card; None when it can."""
    if there >= required:
        return None
    advice = (
        "ask for a whole MIG instance (gpus)"
        if required is Level.MIG
        else f"it would need {PROMISES[required].needs}; or the agent's operator allows less"
    )
    return (
        f"This agent keeps tasks to their GPU memory by '{required.word}' or better (--gpu_share_require), and for "
        f"card {card} there is '{there.word}': {advice}"
    )


def table() -> str:
    """Return the promises as a table in Markdown, the strongest level first."""
    lines = ["| level | memory is capped | against a hostile task | changed while it runs | a program sees | needs |"]
    lines.append("|" + "---|" * 6)
    for level, says in PROMISES.items():
        cells = (f"`{level.word}`", says.cap, says.hostile, says.live, says.shown, says.needs)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
