"""A task's part of shared GPUs: whether it can be given, and what its container is to have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from mesos_gpu.agent.launching.variables import read_variables
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import NOTHING, Resources
from mesos_gpu.mesos.shares.cgpu import MEM_CONTAINER, ShareAsk, disagreement, read_ask
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard, level_of, parts, problem
from mesos_gpu.mesos.shares.levels import LABEL_MEMORY, PROMISES, Level, shortfall


def refusal(
    cards: Mapping[int, SharedCard],
    info: Mapping[str, Any],
    *,
    running: bool = False,
    require: Level = Level.ADVISORY,
) -> str | None:
    """Return why a task (a TaskInfo) cannot have the part of `cards` that it was given, or says that it wants.

    `require`: what its memory must be kept from others by, at least. `running`: it is to join an executor that runs,
    whose container cannot be given a part any more.
    """
    resources = Resources.from_json(info.get("resources", []))
    try:
        ask = asked(info)
    except BadInput as error:
        return str(error)
    taken = parts(resources)
    words = problem(resources, cards, 1 if ask is None else ask.cards) or disagreement(ask, taken, cards)
    if words is None and taken:
        words = shortfall(require, taken[0].card, level_of(taken, cards))
    if words is None and taken and running:
        return (
            "The executor runs already and cannot be given a part of a GPU: launch the task with an executor of its own"
        )
    return words


def asked(info: Mapping[str, Any]) -> ShareAsk | None:
    """Return what the variables of a task, or those of its executor, ask for. Raises BadInput."""
    command = info.get("command") or (info.get("executor") or {}).get("command") or {}
    environment = read_variables(command)
    if environment.get(MEM_CONTAINER, "") == "" and not parts(Resources.from_json(info.get("resources", []))):
        return None
    return read_ask(environment)


def said(cards: Mapping[int, SharedCard], info: Mapping[str, Any], state: str) -> Document:
    """Return what the status of a task with a part of `cards` has in it about that: labels, and words once it runs."""
    whole = Resources.from_json(info.get("resources", [])) if cards else NOTHING
    taken = [part for part in parts(whole) if part.card in cards]
    if not taken:
        return {}
    level = level_of(taken, cards)
    amounts = [(part, cards[part.card].memory_of(part.mem_units)) for part in taken]
    labels = {
        LABEL_MEMORY: level.word,
        "gpu.share.cards": ",".join(str(part.card) for part in taken),
        "gpu.share.memory_mib": ",".join(str(mib) for _, mib in amounts),
        "gpu.share.weight": str(max(part.weight for part in taken)),
    }
    found: Document = {"labels": {"labels": [{"key": key, "value": value} for key, value in labels.items()]}}
    if state == "TASK_RUNNING":
        what = ", ".join(f"{mib} of {cards[part.card].memory_mib} MiB of GPU {part.card}" for part, mib in amounts)
        found["message"] = f"Shares {what}; capped {PROMISES[level].cap} ({level.word})"
    return found


def with_share(cards: Mapping[int, SharedCard], info: Mapping[str, Any], status: TaskStatus) -> TaskStatus:
    """Return an executor's status of a task with what is to be said of its part; its own words go first."""
    own = said(cards, info, status["state"])
    if not own:
        return status
    labels = [*own["labels"]["labels"], *(status.get("labels") or {}).get("labels", [])]
    return cast(TaskStatus, {**own, **status, "labels": {"labels": labels}})


def share_of(infos: Iterable[Mapping[str, Any]], *, group: bool = False) -> Share | None:
    """Return what the container of these tasks has of shared cards: the sum; None when that is nothing.

    `group`: they are nested in it. It has high priority when one of them has. None of them has a `refusal`.
    """
    found: dict[int, CardPart] = {}
    high = False
    for info in infos:
        for part in parts(Resources.from_json(info.get("resources", []))):
            before = found.get(part.card, CardPart(part.card, 0, 0))
            found[part.card] = CardPart(part.card, before.mem_units + part.mem_units, before.weight + part.weight)
            ask = asked(info)
            high = high or (ask is not None and ask.high_priority)
    return Share(tuple(sorted(found.values())), high, group) if found else None
