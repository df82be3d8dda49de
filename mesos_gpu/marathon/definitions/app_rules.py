"""Marathon's second stage: rules between the parts of an app in canonical form.

Each rule is a function from the app and the Marathon's settings to problems; RULES lists those about command,
GPUs, roles, placement and deployment. Ports, networks, volumes and checks are in app_port_rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.app_ids import name_problem, top_group
from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.marathon.definitions.gpu_share import share_problems
from mesos_gpu.marathon.definitions.patterns import PATTERN_ADVICE, pattern_problem
from mesos_gpu.marathon.definitions.queue_rules import queue_problems
from mesos_gpu.mesos.shares.cgpu import DISABLE, MEM_CONTAINER

App = dict[str, Any]
Rule = Callable[[App, AppRules], Iterator[Problem]]

SINGLE_INSTANCE_LABEL = "MARATHON_SINGLE_INSTANCE_APP"


def is_resident(app: App) -> bool:
    """Return whether the app's tasks own volumes that outlive them (or it says so with `residency`)."""
    return "residency" in app or any("persistent" in volume for volume in volumes(app))


def is_single(app: App) -> bool:
    """Return whether a label says that there may never be two instances."""
    return str(app.get("labels", {}).get(SINGLE_INSTANCE_LABEL, "")).lower() == "true"


def volumes(app: App) -> list[App]:
    """Return the volumes of the app's container."""
    listed: list[App] = app.get("container", {}).get("volumes", [])
    return listed


def wrong(path: str, sentence: str, suggestion: str | None = None, *, key: str | None = None) -> Problem:
    """Return a problem of the second stage, whose code is the sentence itself."""
    return Problem(path, sentence, sentence, suggestion, key)


def _name(app: App, rules: AppRules) -> Iterator[Problem]:
    if problem := name_problem(app["id"]):
        yield problem


def _command(app: App, rules: AppRules) -> Iterator[Problem]:
    container = app.get("container", {})
    if app.get("cmd") is not None and app.get("args"):
        yield wrong("/", "an app has either cmd or args, not both", "remove one of them", key="args")
    elif app.get("cmd") is None and not app.get("args") and not container.get("docker", {}).get("image"):
        yield wrong("/", "an app needs cmd or args, or a container image that brings its own command", "add `cmd`")
    elif rules.strict and app.get("cmd") is not None and len(app["cmd"]) < 2:
        yield wrong("/", "an app needs cmd or args, or a container image that brings its own command", key="cmd")
    if container.get("type") == "DOCKER" and "docker" not in container:
        sentence = "a container of type DOCKER (the default type) needs `docker`"
        yield wrong("/container/docker", sentence, 'add `docker`, or set the type to "MESOS"')
    if container.get("type") == "MESOS" and container.get("docker", {}).get("parameters"):
        sentence = "parameters only work with the Docker containerizer"
        yield wrong("/container/docker/parameters", sentence, "remove them")
    if "credential" in container.get("docker", {}):
        yield wrong("/container/docker/credential", "credential is no longer supported", "use `pullConfig`")


def _gpus(app: App, rules: AppRules) -> Iterator[Problem]:
    if app["gpus"] == 0:
        return
    if app.get("container", {}).get("type") == "DOCKER":
        yield wrong(
            "/",
            "GPU resources only work with the Mesos containerizer",
            'set container.type to "MESOS": it runs Docker images too (left out, the type means DOCKER)',
            key="container",
        )
    if "gpu_resources" not in rules.features and rules.known:
        yield wrong(
            "/",
            "Feature gpu_resources is not enabled. Enable with --enable_features gpu_resources",
            "start this Marathon with --enable_features gpu_resources, or remove `gpus`",
            key="gpus",
        )


def _gpu_share(app: App, rules: AppRules) -> Iterator[Problem]:
    if "env" not in app:
        return  # a pod, whose containers ask one by one
    yield from share_problems("", app.get("gpuShare"), app["env"], app["gpus"], rules)
    asks = app.get("gpuShare") is not None or app["env"].get(MEM_CONTAINER, "0") not in ("", "0")
    if asks and app.get("container", {}).get("type") == "DOCKER" and app["env"].get(DISABLE) != "true":
        sentence = "a part of a GPU only works with the Mesos containerizer"
        yield wrong("/", sentence, 'set container.type to "MESOS": it runs Docker images too', key="container")


def _roles(app: App, rules: AppRules) -> Iterator[Problem]:
    accepted = app.get("acceptedResourceRoles")
    for index, role in enumerate(accepted or ()):
        if role in ("", ".", "..") or role.startswith("-") or re.search(r"[\t\n\v\f\r /\x7f]", role):
            yield wrong(f"/acceptedResourceRoles({index})", f"{role!r} is not the name of a role")
    if is_resident(app) and accepted is not None and accepted != ["*"]:
        yield wrong("/acceptedResourceRoles", "an app with persistent volumes may only accept the role *")
    if not rules.known:
        return
    group = top_group(app["id"])
    enforced = rules.enforced_groups
    sure = group is None or enforced is not None
    valid = (
        {group} if group is not None and group in (enforced or ()) else {rules.mesos_role, group or rules.mesos_role}
    )
    if sure and app["role"] not in valid:
        sentence = f"role must be one of: {', '.join(sorted(str(role) for role in valid))}"
        yield wrong("/role", sentence, f"remove `role`, or write {app['role']!r} as one of these")
    own = {app["role"]} if sure else {app["role"], rules.mesos_role, str(group)}
    strange = [role for role in accepted or () if role not in own | {"*"}]
    if strange:
        listed = ", ".join(sorted(own | {"*"}))
        sentence = f"acceptedResourceRoles may only contain {listed}, but has {', '.join(strange)}"
        yield wrong("/acceptedResourceRoles", sentence, role_hint(strange, rules.mesos_role))
    if is_resident(app) and app["role"] == "*":
        yield wrong("/role", "an app with persistent volumes needs a role of its own, not *")


def default_role(app_id: str, rules: AppRules) -> str:
    """Return the role of an app or pod that names none: its top-level group's where that is enforced, else ours."""
    group = top_group(app_id)
    return group if group is not None and group in (rules.enforced_groups or ()) else rules.mesos_role


def role_hint(strange: Sequence[str], mesos_role: str) -> str:
    """Return what to do when an app accepts roles that are not its own; `slave_public` is in every DC/OS tutorial."""
    name = strange[0]
    return (
        f"this Marathon's role is {mesos_role}: remove acceptedResourceRoles, or send the app to a Marathon that runs "
        f"with --mesos_role {name} (as `mesos-gpu up` and DC/OS' public agents do for slave_public), "
        f'or put it into the group /{name} with "role": "{name}"'
    )


def _constraints(app: App, rules: AppRules) -> Iterator[Problem]:
    for index, constraint in enumerate(app["constraints"]):
        field, operator, value = constraint[0], constraint[1].upper(), constraint[2] if len(constraint) > 2 else None
        if problem := constraint_problem(field, operator, value):
            yield wrong(f"/constraints({index})", *problem)


def constraint_problem(field: str, operator: str, value: str | None) -> tuple[str, str | None] | None:
    """Return what is wrong with a constraint, and what to do about it; None for a good one."""
    if not field:
        return "a constraint needs a field", "write hostname, or the name of an agent attribute"
    if operator not in ("UNIQUE", "CLUSTER", "GROUP_BY", "LIKE", "UNLIKE", "IS", "MAX_PER"):
        return f"{operator} is not an operator", "use UNIQUE, CLUSTER, GROUP_BY, LIKE, UNLIKE, IS or MAX_PER"
    if operator == "UNIQUE" and value is not None:
        return "UNIQUE takes no value", "remove the third entry"
    if operator in ("LIKE", "UNLIKE"):
        if value is None:
            return f"{operator} needs a regular expression: there is none", None
        if problem := pattern_problem(value):
            return f"{operator} needs a regular expression: {problem}", PATTERN_ADVICE
    if (operator == "MAX_PER" or (operator == "GROUP_BY" and value is not None)) and not re.fullmatch(
        "[+-]?[0-9]+", value or ""
    ):
        return f"{operator} needs a whole number", None
    if operator == "IS" and value is not None and not re.fullmatch("[a-zA-Z0-9_/.-]*", value):
        return "IS compares with letters, digits and _ / . - only", None
    return None


def _deployment(app: App, rules: AppRules) -> Iterator[Problem]:
    strategy, unreachable = app["upgradeStrategy"], app["unreachableStrategy"]
    if is_single(app):
        if app["instances"] > 1:
            yield wrong("/instances", f"with the label {SINGLE_INSTANCE_LABEL} there may be one instance at most")
        if strategy["minimumHealthCapacity"] != 0 or strategy["maximumOverCapacity"] != 0:
            sentence = f"with the label {SINGLE_INSTANCE_LABEL} both capacities must be 0"
            yield wrong("/upgradeStrategy", sentence, "remove `upgradeStrategy`")
    if is_resident(app):
        if strategy["maximumOverCapacity"] != 0:
            yield wrong("/upgradeStrategy/maximumOverCapacity", "must be 0 for an app with persistent volumes")
        if unreachable != "disabled":
            yield wrong("/unreachableStrategy", "must be disabled for an app with persistent volumes")
    if isinstance(unreachable, dict) and unreachable["inactiveAfterSeconds"] > unreachable["expungeAfterSeconds"]:
        sentence = "inactiveAfterSeconds must not be more than expungeAfterSeconds"
        yield wrong("/unreachableStrategy", sentence, "a task is replaced first and forgotten later")
    for name, limit in app.get("resourceLimits", {}).items():
        if isinstance(limit, int | float) and limit < app[name]:
            sentence = f"the limit of {name} ({limit}) is below what the app asks for ({app[name]})"
            yield wrong(f"/resourceLimits/{name}", sentence, f'write {app[name]} or more, or "unlimited"')


def _secrets(app: App, rules: AppRules) -> Iterator[Problem]:
    if "" in app["env"]:
        yield wrong("/env", "a variable needs a name")
    if "" in app["secrets"]:
        yield wrong("/secrets", "a secret needs a name")
    used = [(f"/env/{name}", value["secret"]) for name, value in app["env"].items() if isinstance(value, dict)]
    used += [
        (f"/container/volumes({i})", volume["secret"]) for i, volume in enumerate(volumes(app)) if "secret" in volume
    ]
    pull = app.get("container", {}).get("docker", {}).get("pullConfig")
    used += [("/container/docker/pullConfig", pull["secret"])] if pull else []
    for path, name in used:
        if name not in app["secrets"]:
            yield wrong(path, f"there is no secret {name!r}", "add it to `secrets`")
    if (used or app["secrets"]) and "secrets" not in rules.features and rules.known:
        sentence = "Feature secrets is not enabled. Enable with --enable_features secrets"
        yield wrong("/", sentence, None, key="secrets")


PLACEMENT_RULES: tuple[Rule, ...] = (_name, _gpus, _roles)
"""Those that hold for pods too."""
RULES: tuple[Rule, ...] = (
    _name,
    _command,
    _gpus,
    _gpu_share,
    queue_problems,
    _roles,
    _constraints,
    _deployment,
    _secrets,
)
