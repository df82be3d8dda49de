"""The Marathon app: a document read, checked and brought into the one form that everything else works with.

Pure, and shared by server and command line. The parts: app_schema.py (shape and defaults), app_forms.py (older
forms), app_rules.py and app_port_rules.py (rules between parts), app_ids.py (ids), app_words.py (sentences).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.definitions.app_forms import form_problems, modernise, port_count
from mesos_gpu.marathon.definitions.app_ids import canonical_id
from mesos_gpu.marathon.definitions.app_port_rules import PORT_RULES
from mesos_gpu.marathon.definitions.app_rules import RULES, default_role, is_resident, is_single, volumes
from mesos_gpu.marathon.definitions.app_schema import APP
from mesos_gpu.marathon.definitions.app_settings import FEATURES, AppRules
from mesos_gpu.marathon.definitions.app_words import shape_problem
from mesos_gpu.marathon.definitions.persistent_volumes import completed

__all__ = ["FEATURES", "INVALID_JSON", "AppRules", "canonical_id", "read_app", "unknown_keys"]

INVALID_JSON = "Invalid JSON"
"""The first stage, about single values; the second, about the whole app, is InvalidApp's default."""

unknown_keys = APP.unknown_keys
_ANY_RULES = AppRules()
_NEVER_REPLACED = "disabled"
_RESIDENCY = {"relaunchEscalationTimeoutSeconds": 3600, "taskLostBehavior": "WAIT_FOREVER"}


def read_app(document: object, rules: AppRules, *, base: str = "/") -> dict[str, Any]:
    """Return the canonical app that `document` (parsed JSON) defines, with every default filled in.

    It is what GET /v2/apps shows without counts and versions; ports of 0 are still to be assigned. Unknown keys
    are dropped, as Marathon does; see `unknown_keys`. A relative id counts from `base`, and dependencies from the id.
    Raises InvalidApp with every problem of the first stage that finds one: stage "Invalid JSON" (types, ranges,
    patterns), else "Object is not valid" (rules between fields, and what `rules` allows).
    Source: Marathon's RAML types, AppNormalization, AppValidation and AppDefinition.validAppDefinition.
    """
    if not isinstance(document, Mapping):
        raise InvalidApp([shape_problem("/", "type", "object", document)], stage=INVALID_JSON)
    app = APP.clean(document)
    _refuse(APP.shape_problems(app), stage=INVALID_JSON)
    _refuse(form_problems(app))
    app["id"] = canonical_id(app["id"], base)
    modernise(app, rules)
    if "gang" in app:
        app.setdefault("instances", app["gang"]["size"])
    canonical = APP.with_defaults(app)
    _complete(canonical, rules)
    _refuse(problem for rule in (*RULES, *PORT_RULES) for problem in rule(canonical, rules))
    return canonical


def app_as_shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the canonical form of an app that a Marathon shows, whichever it is: nothing is checked."""
    app = APP.clean(document)
    app.setdefault("id", "")
    modernise(app, _ANY_RULES)
    canonical = APP.with_defaults(app)
    _complete(canonical, _ANY_RULES)
    return canonical


def _refuse(problems: Iterable[Problem], stage: str = "Object is not valid") -> None:
    if found := list(problems):
        raise InvalidApp(found, stage=stage)


def _complete(app: dict[str, Any], rules: AppRules) -> None:
    """Fill in what depends on the rest of the app, and bring sets and older spellings into their one form."""
    ports = port_count(app)
    app |= _replacement(app)
    if any("persistent" in volume for volume in volumes(app)):
        # Neither of these has an effect any more; Marathon shows them all the same (raml/AppConversion).
        app["residency"] = dict(_RESIDENCY)
    else:
        app.pop("residency", None)
    if volumes(app):
        app["container"] = {**app["container"], "volumes": [completed(volume) for volume in volumes(app)]}
    app.setdefault("role", default_role(app["id"], rules))
    app["dependencies"] = _unique(canonical_id(item, app["id"]) for item in app["dependencies"])
    app["constraints"] = _unique([item[0], item[1].upper(), *item[2:]] for item in app["constraints"])
    if "acceptedResourceRoles" in app:
        app["acceptedResourceRoles"] = _unique(app["acceptedResourceRoles"])
    if not app.get("args"):
        app.pop("args", None)
    if app.get("container", {}).get("type") == "MESOS" and "docker" in app["container"]:
        app["container"] = {**app["container"], "docker": _without_docker_engine(app["container"]["docker"])}
    app["healthChecks"] = [_addressed(check, ports) for check in app["healthChecks"]]


def _replacement(app: dict[str, Any]) -> dict[str, Any]:
    """Return how old tasks and lost tasks of this app are replaced."""
    resident = is_resident(app)
    if is_single(app):
        capacity: tuple[float, float] = (0, 0)
    elif resident or any("external" in volume for volume in volumes(app)):
        capacity = (0.5, 0)
    else:
        capacity = (1, 1)
    strategy = {
        "minimumHealthCapacity": capacity[0],
        "maximumOverCapacity": capacity[1],
        **app.get("upgradeStrategy", {}),
    }
    at_once = {"inactiveAfterSeconds": 0, "expungeAfterSeconds": 0}
    unreachable = app.get("unreachableStrategy", _NEVER_REPLACED if resident else at_once)
    return {"upgradeStrategy": strategy, "unreachableStrategy": unreachable}


def _without_docker_engine(docker: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what only the Docker engine knows; `parameters` that say something stay, to be refused."""
    return {
        key: value for key, value in docker.items() if key != "privileged" and not (key == "parameters" and not value)
    }


def _addressed(check: Mapping[str, Any], ports: int) -> dict[str, Any]:
    if check["protocol"] != "COMMAND" and "port" not in check and "portIndex" not in check and ports > 0:
        return {**check, "portIndex": 0}
    return dict(check)


def _unique(items: Iterable[Any]) -> list[Any]:
    """Return `items` without repetitions, in their order: Marathon keeps these as sets."""
    kept: list[Any] = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept
