"""Why an app waits that waits in order: for a gang to fit, or behind another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mesos_gpu.marathon.why.request import Request

LEAST_GANG = 2


def order_words(queued: Mapping[str, Any]) -> str:
    """Return in a few words how near a queue's entry is to its start; empty where no order was asked for."""
    order = queued.get("order") or {}
    words = []
    size, fits = int(order.get("members") or 1), int(order.get("membersThatFit") or 0)
    if size > 1:
        words.append(f"waiting for a gang: {fits} of {size} members have a place")
    if order.get("behind"):
        words.append(f"behind {order['behind']}, which comes first")
    elif order.get("startsBy"):
        words.append(f"starts by {order['startsBy']} at the latest")
    return ", ".join(words)


def gang_without_room(request: Request, slots: int) -> tuple[str, list[str]]:
    """Return a headline and remedies for a gang that the agents, were they empty, have too few `slots` for."""
    members = request.spec.gang_size
    places = f"the agents have room for {slots} of its {members} members, were they empty, and none starts alone"
    remedies = []
    if request.one_per_host:
        places += " (each is on a machine of its own)"
        remedies.append(f"{request.updated('gang.onePerHost=false')} lets several members onto one machine")
    if slots >= LEAST_GANG:
        remedies.append(f"{_smaller(request, slots)} would fit")
    return f"{request.id}: {places}.", [*remedies, "add an agent that has room for one"]


def _smaller(request: Request, size: int) -> str:
    return request.updated(f"gang.size={size}", f"instances={size}")


def waits_in_order(request: Request, queued: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return a headline and remedies for an app that waits in order; None for one of which that says nothing."""
    order = queued.get("order") or {}
    words = order_words(queued)
    if not words:
        return None
    size, fits = int(order.get("members") or 1), int(order.get("membersThatFit") or 0)
    remedies = []
    if order.get("behind"):
        first = order["behind"]
        remedies.append(f"a maxRuntimeSeconds that ends before {first} will start lets it go first, where both can be")
        remedies.append(f"{request.updated('priority=N')}, with an N above that of {first}, has it come first")
    elif "startsBy" in order and order["startsBy"] is None:
        words += ", machines are kept for it, and what runs there says no time (maxRuntimeSeconds)"
    if LEAST_GANG <= fits < size:
        remedies.append(f"{_smaller(request, fits)} starts it with what is there")
    return f"{request.id}: {words}.", remedies
