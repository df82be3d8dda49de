"""What is wrong with a Resource document, in Mesos' words: its value, its disk, for whom it is. Pure.

Source: Mesos src/common/resources.cpp, Resources::validate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from mesos_gpu.mesos.ids import role_problem
from mesos_gpu.mesos.resource import UNRESERVED, Resource, milli, scalar_text

_VALUES = {"SCALAR": "scalar", "RANGES": "ranges", "SET": "set"}
_MOST = 1e15


def value_problem(document: Mapping[str, Any]) -> str | None:
    """Return what is wrong with name and value (the first half of Resources::validate), or None."""
    kind = document.get("type")
    if not document.get("name"):
        return "Empty resource name"
    if kind not in _VALUES:
        return "Unsupported resource type"
    mine = _VALUES[kind]
    if mine not in document or any(other in document for other in _VALUES.values() if other != mine):
        return f"Invalid {mine} resource"
    if kind == "SCALAR":
        value = document["scalar"]["value"]
        negative = value != 0 and math.isfinite(value) and abs(value) < _MOST and milli(value) <= 0
        return "Invalid scalar resource: value <= 0" if negative else None
    if kind == "SET":
        items = document["set"].get("item", [])
        return "Invalid set resource: duplicated elements" if len(set(items)) < len(items) else None
    pairs = sorted((int(one["begin"]), int(one["end"])) for one in document["ranges"].get("range", []))
    if any(begin > end for begin, end in pairs):
        return "Invalid ranges resource: begin > end"
    if any(after <= end for (_, end), (after, _) in pairwise(pairs)):
        return "Invalid ranges resource: overlapping ranges"
    return None


def refused_text(document: Mapping[str, Any]) -> str:
    """Return a Resource whose name or value is refused as Mesos prints it."""
    rest = {key: value for key, value in document.items() if key not in _VALUES.values()}
    readable = Resource.from_json({**rest, "name": "x", "type": "SCALAR", "scalar": {"value": 1}})
    about = str(readable).removeprefix("x").rpartition(":")[0]
    return f"{document.get('name', '')}{about}:{_value_text(document)}"


def _value_text(document: Mapping[str, Any]) -> str:
    kind = document.get("type")
    if kind == "SET":
        return f"{{{', '.join(document.get('set', {}).get('item', []))}}}"
    if kind == "RANGES":
        shown = (f"{one['begin']}-{one['end']}" for one in document.get("ranges", {}).get("range", []))
        return f"[{', '.join(shown)}]"
    return scalar_text(milli(document.get("scalar", {}).get("value", 0.0)))


def disk_problem(document: Mapping[str, Any]) -> str | None:
    """Return why something cannot have a DiskInfo, or None."""
    if "disk" in document and document["name"] != "disk":
        return f"DiskInfo should not be set for {document['name']} resource"
    return None


def reservations_problem(document: Mapping[str, Any]) -> str | None:
    """Return what is wrong with how a Resource says for whom it is (Resources::validate, both formats)."""
    stack = document.get("reservations", ())
    if stack:
        return _stack_problem(stack) or _formats_problem(document, stack)
    role = document.get("role", UNRESERVED)
    problem = role_problem(role)
    if problem is not None or "reservation" not in document:
        return problem
    for name in ("type", "role"):
        if name in document["reservation"]:
            return f"'Resource.ReservationInfo.{name}' must not be set for the 'Resource.reservation' field"
    return 'Invalid reservation: role "*" cannot be dynamically reserved' if role == UNRESERVED else None


def _stack_problem(stack: Sequence[Mapping[str, Any]]) -> str | None:
    for reservation in stack:
        for name in ("type", "role"):
            if name not in reservation:
                return f"Invalid reservation: 'Resource.ReservationInfo.{name}' field must be set."
        problem = role_problem(reservation["role"])
        if problem is not None:
            return problem
        if reservation["role"] == UNRESERVED:
            return 'Invalid reservation: role "*" cannot be reserved'
    for below, above in pairwise(stack):
        if above["type"] == "STATIC":
            return "Invalid refined reservation: A refined reservation cannot be STATIC"
        if not above["role"].startswith(f"{below['role']}/"):
            roles = f"role '{above['role']}' is not a refinement of '{below['role']}'"
            return f"Invalid refined reservation: {roles}"
    return None


def _formats_problem(document: Mapping[str, Any], stack: Sequence[Mapping[str, Any]]) -> str | None:
    """Return how the older format, `role` and `reservation`, contradicts the stack beside it."""
    begin, older = "Invalid resource format: 'Resource.", [name for name in ("role", "reservation") if name in document]
    if len(stack) > 1:
        more = "if there is more than one reservation in 'Resource.reservations'"
        return f"{begin}{older[0]}' must not be set {more}" if older else None
    kind, role = stack[0]["type"], stack[0]["role"]
    of_one = f"if the single reservation in 'Resource.reservations' is {kind}"
    if document.get("role", role) != role:
        there = f"does not match the role '{role}' in 'Resource.reservations'"
        return f"{begin}role' field with '{document['role']}' {there}"
    if kind == "STATIC":
        return f"{begin}reservation' must not be set {of_one}" if "reservation" in older else None
    if kind != "DYNAMIC":
        return "Unsupported 'Resource.ReservationInfo.Type'"
    if len(older) == 1:
        return f"{begin}role' and 'Resource.reservation' must either be both set or both not set {of_one}"
    mine, other = (str(one.get("principal", "")) for one in (document.get("reservation", stack[0]), stack[0]))
    there = f"does not match the principal '{other}' in 'Resource.reservations'"
    return f"{begin}reservation.principal' field with '{mine}' {there}" if mine != other else None
