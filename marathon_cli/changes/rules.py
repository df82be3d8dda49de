"""What a Marathon accepts, as far as it says so; and what to make of what it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from marathon_cli.clients.marathon import InvalidForServer, Marathon
from marathon_cli.document import check
from mesos_gpu.errors import BadInput, MesosGpuError, Problem
from mesos_gpu.marathon.definitions.app_rules import role_hint
from mesos_gpu.marathon.definitions.app_settings import FEATURES, GANGS, GPU_SHARE, AppRules
from mesos_gpu.mesos.ids import ANY_ROLE, Role

OFFLINE = AppRules(known=False)
"""The rules when no Marathon can be asked."""


def rules_of(info: Mapping[str, Any]) -> AppRules:
    """Return what a Marathon accepts, from its /v2/info."""
    config = info.get("marathon_config") or {}
    features = config.get("features")
    if isinstance(features, str):
        features = [item for item in features.split(",") if item]
    version = [int(part) for part in str(info.get("version", "")).split(".")[:2] if part.isdigit()]
    return AppRules(
        mesos_role=Role(config.get("mesos_role") or ANY_ROLE),
        features=FEATURES if features is None else FEATURES.intersection(features),
        default_network_name=config.get("default_network_name"),
        bridge_name=config.get("mesos_bridge_name") or "mesos-bridge",
        enforced_groups=None,
        # Before 1.10 a Marathon accepted any role, or dropped those that were not its own.
        shares=GPU_SHARE in (features or ()) or not info,
        gangs=GANGS in (features or ()) or not info,
        known=len(version) < 2 or version >= [1, 10],
    )


def rules_if_any(marathon: Marathon) -> AppRules:
    """Return what a Marathon accepts, or the rules that hold for all when it does not answer."""
    try:
        return rules_of(marathon.info())
    except MesosGpuError:
        return OFFLINE


@contextmanager
def explained(source: check.Source | None, document: Any, rules: AppRules, by: str) -> Iterator[None]:
    """Show what a server refuses of a document with its place in the source."""
    try:
        yield
    except InvalidForServer as error:
        if not error.problems or source is None:
            raise
        problems = [_with_hint(problem, document, rules) for problem in error.problems]
        raise BadInput(check.report(source, problems, by=f" found by {by}")) from None


def _with_hint(problem: Problem, document: Any, rules: AppRules) -> Problem:
    """Say what to do about roles also where only the server could know that they are not accepted."""
    accepted = document.get("acceptedResourceRoles") if isinstance(document, dict) else None
    strange = [str(role) for role in accepted if role not in ("*", rules.mesos_role)] if accepted else []
    if strange and problem.path.startswith("/acceptedResourceRoles"):
        return replace(problem, suggestion=role_hint(strange, rules.mesos_role))
    return problem
