"""Cards that tasks share, one line for each part, and what is said to change them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.marathon.model.task_ids import app_of

POLICIES = ("fair", "preemptive", "weighted", "fixed", "weak", "native")
"""By number."""


@dataclass(frozen=True, slots=True)
class ShareLine:
    """One part of a card, or a card of which nobody has a part: then all that is of a part is None."""

    agent: str
    card: int
    uuid: str
    policy: str
    max_inst: int
    free_weight: int
    prio_ratio: int
    memory_mib: int
    level: str
    container: str | None = None
    task: str | None = None
    app: str | None = None
    weight: int | None = None
    high_priority: bool | None = None
    part_mib: int | None = None
    used_mib: int | None = None
    given: float | None = None
    """Which part of the card it is to have now, 0 to 1."""
    used_s: float | None = None
    frozen_s: float | None = None

    @property
    def holder(self) -> str:
        """Return who has it, in a word."""
        return self.app or self.task or self.container or "---"

    def document(self) -> dict[str, Any]:
        """Return it for programs; what is not known is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def share_lines(agent: str, cards: Sequence[Mapping[str, Any]]) -> list[ShareLine]:
    """Return what an agent's /gpu_shares has, by card."""
    lines = []
    for card in sorted(cards, key=lambda card: int(card["index"])):
        number = int(card["policy"])
        blank: dict[str, Any] = {
            "agent": agent,
            "card": int(card["index"]),
            "uuid": str(card["uuid"]),
            "policy": POLICIES[number] if 0 <= number < len(POLICIES) else str(number),
            "max_inst": int(card["max_inst"]),
            "free_weight": int(card["free_weight"]),
            "prio_ratio": int(card["prio_ratio"]),
            "memory_mib": int(card["memory_mib"]),
            "level": str(card.get("memory_level", "advisory")),
        }
        for one in card["containers"]:
            task = str(one["task_id"]) if one.get("task_id") else None
            lines.append(
                ShareLine(
                    **{**blank, "level": str(one.get("memory_level", blank["level"]))},
                    container=str(one["container_id"]),
                    task=task,
                    app=None if task is None else app_of(task),
                    weight=int(one["weight"]),
                    high_priority=bool(one["high_priority"]),
                    part_mib=int(one["memory_mib"]),
                    used_mib=one.get("memory_used_mib"),
                    given=one.get("part"),
                    used_s=one.get("used_s"),
                    frozen_s=one.get("frozen_s"),
                )
            )
        if not card["containers"]:
            lines.append(ShareLine(**blank))
    return lines


def policy_number(word: str) -> int:
    """Return the number of a policy, given by name or number. Raises BadInput."""
    if word.isdecimal() and int(word) < len(POLICIES):
        return int(word)
    if word.lower() in POLICIES:
        return POLICIES.index(word.lower())
    names = ", ".join(f"{number} {name}" for number, name in enumerate(POLICIES))
    raise BadInput(f"'{word}' is not a policy: {names}")


def _begins(line: ShareLine, word: str) -> bool:
    """Return whether an id begins so; a number is a card's, and no beginning."""
    names = (line.container, line.task)
    return not word.isdecimal() and any(name is not None and name.startswith(word) for name in names)


def target_of(lines: Sequence[ShareLine], word: str) -> tuple[int | None, str | None]:
    """Return the card, or the container, that a word means: a card's index or UUID, or a container, task or app.

    The beginning of a container's or task's id will do. Raises NotFound, BadInput when it means several.
    """
    cards = {line.card for line in lines if word in (str(line.card), line.uuid)}
    if cards:
        return cards.pop(), None
    exact = [line for line in lines if word in (line.container, line.task, line.app, f"/{word}")]
    exact = exact or [line for line in lines if line.app == f"/{word}"]
    found = exact or [line for line in lines if _begins(line, word)]
    containers = sorted({str(line.container) for line in found})
    if len(containers) == 1:
        return None, containers[0]
    if containers:
        raise BadInput(f"'{word}' means {len(containers)} containers: {', '.join(containers)}; name one of them")
    here = ", ".join(sorted({str(line.card) for line in lines})) or "none"
    holders = ", ".join(sorted({line.holder for line in lines if line.container})) or "none"
    raise NotFound(f"no shared card and no task with a part of one is called '{word}'; cards: {here}; tasks: {holders}")
