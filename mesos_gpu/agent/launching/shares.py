"""A task's part of shared GPUs: whether it can be given, and what its container is to have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.agent.launching.variables import read_variables
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.cgpu import MEM_CONTAINER, ShareAsk, disagreement, read_ask
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard, parts, problem


def refusal(cards: Mapping[int, SharedCard], info: Mapping[str, Any], *, running: bool = False) -> str | None:
    """Return why a task (a TaskInfo) cannot have the part of `cards` that it was given, or says that it wants.

    `running`: it is to join an executor that runs, whose container cannot be given a part any more.
    """
    resources = Resources.from_json(info.get("resources", []))
    try:
        ask = asked(info)
    except BadInput as error:
        return str(error)
    taken = parts(resources)
    words = problem(resources, cards, 1 if ask is None else ask.cards) or disagreement(ask, taken, cards)
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
