"""Quota: what a role is guaranteed, and what it may have at most. Values to values.

Source: Mesos src/master/quota.cpp, src/master/quota_handler.cpp. Only top-level roles have
quota; all below one share it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, field

from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.mesos.ids import Role, role_problem
from mesos_gpu.mesos.resource import Document, Resource, milli, scalar_text
from mesos_gpu.mesos.resources import Resources, validate

_MOST_MIB = 1024**4
_MOST = 1000**4
FORCE = " (use 'force' flag to bypass this check)"


class Quota(Struct, frozen=True):
    """Thousandths by name. A name without a guarantee has none; one without a limit is not limited."""

    guarantees: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)

    @property
    def default(self) -> bool:
        """Return whether this says nothing, which is how quota is removed."""
        return not any(self.guarantees.values()) and not self.limits


def top_level(role: Role) -> Role:
    """Return the role whose quota counts for `role`."""
    return Role(role.split("/", 1)[0])


def countable(resource: Resource) -> bool:
    """Return whether a resource may be held against quota: an unreserved scalar that is not revocable."""
    plain = not resource.reservations and not (resource.other and resource.revocable)
    return plain and isinstance(resource.amount, int)


def shrink(resources: Iterable[Resource], most: Quantities, *, absent: int | None) -> list[Resource]:
    """Return what fits into `most` by name; of a name that is not there, `absent` fits, and with None all of it."""
    left = dict(most)
    kept: list[Resource] = []
    for resource in resources:
        room = left.get(resource.name, absent)
        if room is None or not isinstance(resource.amount, int):
            kept.append(resource)
        elif room > 0:
            amount = min(room, resource.amount)
            left[resource.name] = room - amount
            kept.append(resource if amount == resource.amount else replace(resource, amount=amount))
    return kept


def missing(guarantees: Quantities, consumed: Quantities) -> dict[str, int]:
    """Return by how much a guarantee is not met."""
    short = {name: amount - consumed.get(name, 0) for name, amount in guarantees.items()}
    return {name: amount for name, amount in short.items() if amount > 0}


def quota_of(config: Mapping[str, Any]) -> Quota:
    """Read a QuotaConfig."""
    guarantees = {name: amount for name, amount in _amounts(config.get("guarantees", {})).items() if amount}
    return Quota(guarantees, _amounts(config.get("limits", {})))


def config_of(role: Role, quota: Quota) -> Document:
    """Return a QuotaConfig."""
    document: Document = {"role": role}
    for name, amounts in (("guarantees", quota.guarantees), ("limits", quota.limits)):
        if amounts:
            document[name] = {resource: {"value": amount / 1000} for resource, amount in amounts.items()}
    return document


def info_of(role: Role, quota: Quota) -> Document:
    """Return the older QuotaInfo, which knows guarantees only."""
    document: Document = {"role": role}
    if quota.guarantees:
        document["guarantee"] = [
            {"name": name, "type": "SCALAR", "scalar": {"value": amount / 1000}}
            for name, amount in quota.guarantees.items()
        ]
    return document


def status_of(quotas: Mapping[Role, Quota]) -> Document:
    """Return the QuotaStatus of all quotas."""
    if not quotas:
        return {}
    return {
        "infos": [info_of(role, quota) for role, quota in quotas.items()],
        "configs": [config_of(role, quota) for role, quota in quotas.items()],
    }


def update_problem(
    configs: Sequence[Mapping[str, Any]],
    quotas: Mapping[Role, Quota],
    capacity: Quantities,
    *,
    force: bool,
    whitelist: frozenset[str] | None = None,
) -> str | None:
    """Return why UPDATE_QUOTA is refused (400), in Mesos' words; None when it may be."""
    for config in configs:
        role = config["role"]
        if whitelist is not None and role not in whitelist:
            return f"Invalid QuotaConfig: '{role}' is not on the roles whitelist"
        if "/" in role:
            return f"Updating quota on nested role '{role}' is not supported yet"
        problem = config_problem(config)
        if problem is not None:
            return f"Invalid QuotaConfig: {problem}"
    wanted = guaranteed({**quotas, **{config["role"]: quota_of(config) for config in configs}})
    if not force and missing(wanted, capacity):
        return (
            f"Invalid QuotaConfig: total quota guarantees '{text_of(wanted)}' exceed cluster capacity "
            f"'{text_of(capacity)}'{FORCE}"
        )
    return None


def config_problem(config: Mapping[str, Any]) -> str | None:
    """Return what is wrong with one QuotaConfig, in Mesos' words."""
    problem = role_problem(config["role"])
    if problem is not None:
        return f"Invalid 'QuotaConfig.role': {problem}"
    for kind in ("guarantees", "limits"):
        for name, scalar in config.get(kind, {}).items():
            most, words = (_MOST_MIB, "1 exabyte") if name in ("mem", "disk") else (_MOST, "1 trillion")
            value = float(scalar.get("value", 0.0))
            if math.isfinite(value) and value > most:
                return (
                    f"Invalid 'QuotaConfig.{kind}': {{'{name}': {_number(value)}}} is invalid: "
                    f"values greater than {words} ({most}) are not supported"
                )
    for kind in ("guarantee", "limit"):
        for name, scalar in config.get(f"{kind}s", {}).items():
            value = float(scalar.get("value", 0.0))
            problem = scalar_problem(value)
            if problem is not None:
                return f"Invalid {kind} configuration {{'{name}': {_number(value)}}}: {problem}"
    quota = quota_of(config)
    if any(quota.guarantees.get(name, 0) > limit for name, limit in quota.limits.items()):
        given = _map_text(config.get("guarantees", {}))
        return (
            f"'QuotaConfig.guarantees' {given} is not contained within the 'QuotaConfig.limits' "
            f"{_map_text(config.get('limits', {}))}"
        )
    return None


def request_problem(
    request: Mapping[str, Any], quotas: Mapping[Role, Quota], whitelist: frozenset[str] | None = None
) -> str | None:
    """Return why SET_QUOTA is refused with 400, in Mesos' words; what overcommits is `overcommit_problem`."""
    guarantee = request.get("guarantee", [])
    begin = "Failed to validate set quota request: "
    problem = validate(guarantee)
    if problem is not None:
        return f"{begin}QuotaInfo with invalid resource: {problem}"
    if "role" not in request:
        return f"{begin}QuotaInfo must specify a role"
    role = request["role"]
    problem = role_problem(role)
    if problem is not None:
        return f"{begin}QuotaInfo with invalid role: {problem}"
    if not guarantee:
        return f"{begin}QuotaInfo with empty 'guarantee'"
    for index, resource in enumerate(guarantee):
        if resource.get("reservations") or resource.get("reservation") or resource.get("role", "*") != "*":
            return f"{begin}QuotaInfo must not contain any ReservationInfo"
        if "disk" in resource:
            return f"{begin}QuotaInfo must not contain DiskInfo"
        if "revocable" in resource:
            return f"{begin}QuotaInfo must not contain RevocableInfo"
        if resource["type"] != "SCALAR":
            return f"{begin}QuotaInfo must not include non-scalar resources"
        if resource["name"] in [other["name"] for other in guarantee[:index]]:
            return f"{begin}QuotaInfo contains duplicate resource name '{resource['name']}'"
    if whitelist is not None and role not in whitelist:
        return f"{begin}Unknown role '{role}'"
    if role in quotas:
        return f"{begin}Cannot set quota for role '{role}' which already has quota"
    if "/" in role:
        return f"Setting quota on nested role '{role}' is not supported yet"
    return None


def requested(request: Mapping[str, Any]) -> Quota:
    """Return the quota of a QuotaRequest: its guarantee is its limit, too."""
    amounts = {resource.name: _whole(resource) for resource in Resources.from_json(request.get("guarantee", []))}
    return Quota(amounts, amounts)


def overcommit_problem(quotas: Mapping[Role, Quota], capacity: Quantities) -> str | None:
    """Return why SET_QUOTA of these quotas is refused with 409; None when the cluster has as much."""
    wanted = guaranteed(quotas)
    if not missing(wanted, capacity):
        return None
    return (
        "Quota guarantees overcommit the cluster (use 'force' to bypass this check): "
        f"Total quota guarantees '{text_of(wanted)}' exceed cluster capacity '{text_of(capacity)}'"
    )


def guaranteed(quotas: Mapping[Role, Quota]) -> dict[str, int]:
    """Return the sum of all guarantees."""
    total: dict[str, int] = {}
    for quota in quotas.values():
        for name, amount in quota.guarantees.items():
            total[name] = total.get(name, 0) + amount
    return total


def text_of(quantities: Quantities) -> str:
    """Return quantities as Mesos prints them, by name: `cpus:2; mem:23081`, and `{}` for none."""
    shown = (f"{name}:{scalar_text(quantities[name])}" for name in sorted(quantities) if quantities[name])
    return "; ".join(shown) or "{}"


def _amounts(scalars: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: milli(float(scalar.get("value", 0.0))) for name, scalar in sorted(scalars.items())}


def _whole(resource: Resource) -> int:
    return resource.amount if isinstance(resource.amount, int) else 0


def scalar_problem(value: float) -> str | None:
    """Return why Mesos takes no such amount (src/common/validation.cpp, validateInputScalarValue), or None."""
    if math.isnan(value):
        return "NaN not supported"
    if math.isinf(value):
        return "Infinite values not supported"
    if value < 0:
        return "Negative values not supported"
    return None


def _number(value: float) -> str:
    return scalar_text(milli(value)) if math.isfinite(value) else str(value)


def _map_text(scalars: Mapping[str, Mapping[str, Any]]) -> str:
    shown = (f"{name}: {_number(float(scalar.get('value', 0.0)))}" for name, scalar in sorted(scalars.items()))
    return f"{{ {', '.join(shown)} }}"
