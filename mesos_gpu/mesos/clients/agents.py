"""Agents as a master's /slaves shows them, as values: how each is, what it has, and what of that is taken. Pure.

Source: reference of Mesos' endpoint /slaves (src/master/http.cpp).
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.errors import BadInput, NotFound

Amounts = Mapping[str, float]
"""Scalars by name: cpus, gpus, mem and disk in MB."""

SCALARS = ("cpus", "gpus", "mem", "disk")
UNRESERVED = "*"


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent. `total`, `used` and `offered` are amounts by role, `*` for what is not reserved.

    The master tells what is used by role only when it is asked for one agent; `exact` says that it was, or that
    nothing is reserved so that it makes no difference.
    """

    id: str
    hostname: str
    address: str
    active: bool = True
    state: str = "active"
    """active, draining, drained, deactivated, or inactive (not connected)."""
    version: str = ""
    registered_s: float | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    region: str | None = None
    zone: str | None = None
    total: Mapping[str, Amounts] = field(default_factory=dict)
    used: Mapping[str, Amounts] = field(default_factory=dict)
    offered: Mapping[str, Amounts] = field(default_factory=dict)
    ports: str = ""
    """The ports it has in all, as the master writes them: `[31000-32000]`."""
    exact: bool = True

    @property
    def takes_tasks(self) -> bool:
        """Return whether it is connected, and nobody has said that it is to get no more tasks."""
        return self.active and self.state == "active"

    @property
    def gpus(self) -> int:
        """Return how many GPUs it has to offer, whatever their role."""
        return int(self.amount("total", "gpus"))

    def amount(self, what: str, name: str, roles: Iterable[str] | None = None) -> float:
        """Return how much of a scalar is `total`, `used`, `offered` or `free`, of some roles or of all."""
        if what == "free":
            taken = self.amount("used", name, roles) + self.amount("offered", name, roles)
            left = self.amount("total", name, roles) - taken
            if roles is not None and not self.exact:
                left = min(left, self.amount("free", name))
            return max(0.0, round(left, 3))
        by_role: Mapping[str, Amounts] = getattr(self, what)
        held = by_role.values() if roles is None else [by_role[role] for role in set(roles) if role in by_role]
        return round(sum(amounts.get(name, 0.0) for amounts in held), 3)


def read_agent(document: Mapping[str, Any]) -> Agent:
    """Return one of the `slaves` of a master. What a master leaves out is empty."""
    fault = (document.get("domain") or {}).get("fault_domain") or {}
    pid = str(document.get("pid", ""))
    active = bool(document.get("active", True))
    exact = "used_resources_full" in document or not document.get("reserved_resources")
    return Agent(
        id=str(document.get("id", "")),
        hostname=str(document.get("hostname", "")),
        address=pid.rpartition("@")[2],
        active=active,
        state=_state(document, active),
        version=str(document.get("version", "")),
        registered_s=_number(document.get("reregistered_time", document.get("registered_time"))),
        attributes={str(name): _text(value) for name, value in (document.get("attributes") or {}).items()},
        region=(fault.get("region") or {}).get("name"),
        zone=(fault.get("zone") or {}).get("name"),
        total=_total(document),
        used=_by_role(document, "used_resources"),
        offered=_by_role(document, "offered_resources"),
        ports=str((document.get("resources") or {}).get("ports", "")),
        exact=exact,
    )


def names(agents: Sequence[Agent]) -> dict[str, str]:
    """Return what to call each agent, by id: its hostname; with the port where several share one."""
    count = Counter(agent.hostname for agent in agents)
    return {
        agent.id: agent.hostname
        if count[agent.hostname] == 1
        else f"{agent.hostname}:{agent.address.rpartition(':')[2]}"
        for agent in agents
    }


def find_agent(agents: Sequence[Agent], word: str) -> Agent:
    """Return the agent that a word means: its id, the end of its id (`S3`), its hostname, or hostname:port.

    Raises NotFound with what is near, BadInput when it means several.
    """
    called = names(agents)
    found = [a for a in agents if word in (a.id, a.address, called[a.id])] or [
        a for a in agents if word == a.hostname or a.id.endswith(f"-{word}")
    ]
    if not found:
        # A part that only one can mean serves as well.
        found = [a for a in agents if a.id.startswith(word) or called[a.id].startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(f"{called[a.id]} ({a.id})" for a in found)
        raise BadInput(f"{word!r} means {len(found)} agents: {listed}")
    near = difflib.get_close_matches(word, [*called.values(), *(a.id for a in agents)], n=1)
    known = ", ".join(sorted(called.values())[:8]) or "none is registered"
    raise NotFound(f"there is no agent {word!r}; {f'did you mean {near[0]}?' if near else f'there are: {known}'}")


def _state(document: Mapping[str, Any], active: bool) -> str:
    drain = document.get("drain_info") or {}
    if drain:
        return str(drain.get("state", "DRAINING")).lower()
    if document.get("deactivated"):
        return "deactivated"
    return "active" if active else "inactive"


def _total(document: Mapping[str, Any]) -> dict[str, Amounts]:
    if "unreserved_resources" not in document and "reserved_resources" not in document:
        return {UNRESERVED: _scalars(document.get("resources") or {})}
    by_role = {UNRESERVED: _scalars(document.get("unreserved_resources") or {})}
    for role, amounts in (document.get("reserved_resources") or {}).items():
        by_role[str(role)] = _scalars(amounts)
    return by_role


def _by_role(document: Mapping[str, Any], key: str) -> dict[str, Amounts]:
    full = document.get(f"{key}_full")
    if not isinstance(full, list):
        return {UNRESERVED: _scalars(document.get(key) or {})}
    found: dict[str, dict[str, float]] = {}
    for resource in full:
        amount = _number((resource.get("scalar") or {}).get("value"))
        if amount is not None and "revocable" not in resource:
            amounts = found.setdefault(_role(resource), {})
            name = str(resource.get("name"))
            amounts[name] = round(amounts.get(name, 0.0) + amount, 3)
    return dict(found)


def _role(resource: Mapping[str, Any]) -> str:
    reservations = resource.get("reservations") or []
    role = reservations[-1].get("role") if reservations else resource.get("role")
    return str(role or UNRESERVED)


def _scalars(amounts: Mapping[str, Any]) -> Amounts:
    numbers = {str(name): _number(amount) for name, amount in amounts.items() if not str(name).endswith("_revocable")}
    return {name: amount for name, amount in numbers.items() if amount is not None}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    """Return an attribute as constraints compare it: numbers with up to three decimals, `{a,b}`, `[1-2,5-6]`."""
    number = _number(value)
    if number is not None:
        return f"{number:.3f}".rstrip("0").rstrip(".")
    text = str(value)
    return re.sub(r",\s+", ",", text) if text[:1] in "{[" else text


def tasks_in(state: Any) -> list[dict[str, Any]]:
    """Return the tasks in an agent's /state that have not ended, each with `framework_name`."""
    found = []
    for framework in state.get("frameworks") or [] if isinstance(state, dict) else []:
        for executor in framework.get("executors") or []:
            for task in [*(executor.get("tasks") or []), *(executor.get("queued_tasks") or [])]:
                found.append({**task, "framework_name": framework.get("name", "")})
    return found
