"""What schedulers are told of a machine's GPUs beside their number: which share NVLink, and which of them a task has.

Pure. Both pass through any master: an attribute of the agent, and a label of the task's first TASK_RUNNING.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mesos_gpu.mesos.resource import Document

LINKS_ATTRIBUTE = "gpu_nvlink"
CARDS_LABEL = "gpu.cards"
_MOST_SETS = 64
"""More sets than this are not told: machines that are sold have 6 at most."""
_SET = re.compile(r"\d{1,3}(?:-\d{1,3})+")

Sets = tuple[frozenset[int], ...]
"""Sets of GPUs, by their index, in which every two share NVLink."""


def links_text(sets: Iterable[Collection[int]]) -> str:
    """Return sets as the attribute has them: `0-1-2-3/4-5-6-7/0-4/...`, the largest first.

    Mesos' grammar of attributes (src/common/attributes.cpp, values.cpp) reads this as text, so that an operator can say
    it of a machine by --attributes, too.
    """
    ordered = sorted((sorted(some) for some in sets), key=lambda some: (-len(some), some))
    return "/".join("-".join(map(str, some)) for some in ordered[:_MOST_SETS])


def read_links(text: str) -> Sets:
    """Return what `links_text` wrote; what is not of that form is left out."""
    found = (frozenset(map(int, part.split("-"))) for part in text.split("/")[:_MOST_SETS] if _SET.fullmatch(part))
    return tuple(some for some in found if len(some) > 1)


def peers(sets: Sets, card: int | None) -> tuple[int, ...]:
    """Return the GPUs with which one shares NVLink, by index."""
    return tuple(sorted({other for some in sets if card in some for other in some if other != card}))


def cards_label(cards: Iterable[int]) -> Document:
    """Return the label that says which whole GPUs a task has, by index."""
    return {"key": CARDS_LABEL, "value": ",".join(map(str, sorted(cards)))}


def labelled_cards(status: Mapping[str, Any]) -> tuple[int, ...]:
    """Return which whole GPUs the label of a status says that its task has; none where there is no such label."""
    for label in (status.get("labels") or {}).get("labels", ()):
        if label["key"] == CARDS_LABEL and re.fullmatch(r"\d{1,3}(?:,\d{1,3})*", str(label.get("value", ""))):
            return tuple(map(int, label["value"].split(",")))
    return ()
