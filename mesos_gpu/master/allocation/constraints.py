"""Offer constraints: a framework says, by role, which agents it wants offers of. Values to values.

Source: Mesos src/master/allocator/mesos/offer_constraints_filter.cpp. An agent is for a role when all constraints of
at least one of its groups hold. Attributes that are not text pass every comparison, as they do in Mesos.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.regex import Pattern
from mesos_gpu.mesos.resource import Document

_PSEUDO = ("HOSTNAME", "REGION", "ZONE")


class Constraint(Struct, frozen=True):
    """One selector and what its value must be."""

    selector: Document
    holds: Callable[[str | None, bool], bool]
    """Takes the value, None when there is none, and whether it is text."""


class Constraints(Struct, frozen=True):
    """The groups of one role."""

    groups: tuple[tuple[Constraint, ...], ...]

    def admit(self, info: Mapping[str, Any]) -> bool:
        """Return whether an agent of this AgentInfo is wanted."""
        return any(all(_holds(constraint, info) for constraint in group) for group in self.groups)


def constraints_of(document: Mapping[str, Any]) -> dict[str, Constraints]:
    """Read an OfferConstraints, by role. Raises ValueError in Mesos' words."""
    found: dict[str, Constraints] = {}
    for role, body in document.get("role_constraints", {}).items():
        if not body.get("groups"):
            raise ValueError(
                f"'OfferConstraints::role_constraints' has an empty 'RoleConstraints::groups' for role {role}"
            )
        found[role] = Constraints(
            tuple(_group(role, group.get("attribute_constraints", ())) for group in body["groups"])
        )
    return found


def problem(document: Mapping[str, Any], roles: Sequence[str]) -> str | None:
    """Return why a framework of these roles may not have these OfferConstraints; None when it may."""
    strangers = [role for role in document.get("role_constraints", {}) if role not in roles]
    if strangers:
        return f"Offer constraints specify `role_constraints` for a role '{strangers[0]}' not contained in the roles"
    try:
        constraints_of(document)
    except ValueError as error:
        return f"Invalid offer constraints: {error}"
    return None


def _group(role: Role, constraints: Sequence[Mapping[str, Any]]) -> tuple[Constraint, ...]:
    if not constraints:
        raise ValueError(
            f"'OfferConstraints::RoleConstraints::groups' for role {role} contains an empty RoleConstraints::Group"
        )
    try:
        return tuple(Constraint(_selector(c["selector"]), _predicate(c["predicate"])) for c in constraints)
    except ValueError as error:
        raise ValueError(f"A role {role} has an invalid 'AttributeConstraint': {error}") from None


def _selector(selector: Document) -> Document:
    if ("attribute_name" in selector) == ("pseudoattribute_type" in selector):
        raise ValueError(
            "Exactly one of 'AttributeConstraint::Selector::name' or "
            "'AttributeConstraint::Selector::pseudoattribute_type' must be set"
        )
    if "attribute_name" not in selector and selector["pseudoattribute_type"] not in _PSEUDO:
        raise ValueError("Unknown pseudoattribute type")
    return selector


def _predicate(predicate: Mapping[str, Any]) -> Callable[[str | None, bool], bool]:
    if "exists" in predicate:
        return lambda value, _: value is not None
    if "not_exists" in predicate:
        return lambda value, _: value is None
    for kind in ("text_equals", "text_matches"):
        if kind in predicate:
            matches = _matcher(kind, predicate[kind])
            return lambda value, text: value is not None and (not text or matches(value))
    for kind in ("text_not_equals", "text_not_matches"):
        if kind in predicate:
            differs = _matcher(kind, predicate[kind])
            return lambda value, text: value is None or not text or not differs(value)
    raise ValueError("Unknown predicate type")


def _matcher(kind: str, body: Mapping[str, Any]) -> Callable[[str], bool]:
    if kind.endswith("equals"):
        wanted = body["value"]
        return lambda value: value == wanted
    return Pattern(body["regex"]).fullmatch


def _holds(constraint: Constraint, info: Mapping[str, Any]) -> bool:
    selector = constraint.selector
    if "attribute_name" in selector:
        name = selector["attribute_name"]
        attribute = next((a for a in info.get("attributes", ()) if a["name"] == name), None)
        if attribute is None:
            return constraint.holds(None, False)
        text = attribute["type"] == "TEXT"
        return constraint.holds(attribute["text"]["value"] if text else "", text)
    if selector["pseudoattribute_type"] == "HOSTNAME":
        return constraint.holds(info["hostname"], True)
    place = info.get("domain", {}).get("fault_domain", {}).get(selector["pseudoattribute_type"].lower())
    return constraint.holds(None if place is None else place["name"], place is not None)
