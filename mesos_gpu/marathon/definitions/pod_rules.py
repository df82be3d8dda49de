"""Marathon's second stage for pods: rules between the parts of a canonical pod.

Each rule is a function from the pod, its definition as a RunSpec and the Marathon's settings to problems.
Source: Marathon api/v2/validation/PodsValidation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions.app_rules import PLACEMENT_RULES, constraint_problem, is_resident, wrong
from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.marathon.definitions.gpu_share import share_problems
from mesos_gpu.marathon.definitions.persistent_volumes import disk_problems

Pod = dict[str, Any]
Rule = Callable[[Pod, Pod, AppRules], Iterator[Problem]]

_ENV_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,253}")
_PLACES = {"/acceptedResourceRoles": "/scheduling/placement/acceptedResourceRoles"}


def _as_app(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    """What apps must keep to as well: the id, GPUs, roles."""
    for rule in PLACEMENT_RULES:
        for problem in rule(definition, rules):
            stem, bracket, rest = problem.path.partition("(")
            yield replace(problem, path=_PLACES.get(stem, stem) + bracket + rest)


def _gpu_shares(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    for path, container in _containers(pod):
        variables = {**pod["environment"], **container["environment"]}
        gpus = definition["gpus"]  # all containers of a pod see the GPUs of all of them
        yield from share_problems(path, container.get("gpuShare"), variables, gpus, rules)


def _names(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    named = (
        ("/containers", "container", [item["name"] for item in pod["containers"]]),
        ("/volumes", "volume", [item["name"] for item in pod["volumes"]]),
        ("/containers", "endpoint", [port["name"] for item in pod["containers"] for port in item["endpoints"]]),
    )
    for path, kind, names in named:
        for name in _repeated(names):
            yield wrong(path, f"{kind} names must be unique, but {name!r} is there more than once")


def _networks(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    networks = pod["networks"]
    modes = {network["mode"] for network in networks}
    if len(modes) > 1 or (len(networks) > 1 and modes != {"container"}):
        yield wrong("/networks", "either one host or bridge network, or container networks")
    for index, network in enumerate(networks):
        path = f"/networks({index})"
        if network["mode"] == "container" and "name" not in network:
            yield wrong(path, "a container network needs a name", "add `name`, or set --default_network_name")
        if network["mode"] != "container" and "name" in network:
            yield wrong(path, f"a network of mode {network['mode']} has no name", "remove `name`")
        if network["mode"] == "host" and network.get("labels"):
            yield wrong(path, "a network of mode host has no labels", "remove `labels`")
    for name in _repeated(network.get("name") for network in networks):
        yield wrong("/networks", f"network {name!r} is listed twice")


def _endpoints(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    on_host, in_container = (pod["networks"][0]["mode"] == mode for mode in ("host", "container"))
    networks = {network.get("name") for network in pod["networks"]}
    for path, endpoint in _each(pod, "endpoints"):
        if on_host and "containerPort" in endpoint:
            yield wrong(f"{path}/containerPort", "is not allowed when using host-mode networking", "use `hostPort`")
        if in_container and "containerPort" not in endpoint:
            yield wrong(f"{path}/containerPort", "is required when using container-mode networking")
        strange = sorted(set(endpoint.get("networkNames", ())) - networks)
        if strange:
            yield wrong(f"{path}/networkNames", f"there is no network {strange[0]!r} in this pod")
        if len(networks) > 1 and "hostPort" in endpoint and len(endpoint.get("networkNames", ())) != 1:
            yield wrong(path, "with several networks a hostPort must say which one it is for", "add `networkNames`")
    ports = [port for _, item in _each(pod, "endpoints") if (port := item.get("hostPort"))]
    for port in _repeated(ports):
        yield wrong("/containers", f"host port {port} is asked for twice")
    for port in _repeated(item.get("containerPort") or None for _, item in _each(pod, "endpoints")):
        yield wrong("/containers", f"container port {port} is there twice: the containers share a network")


def _commands(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    for path, container in _containers(pod):
        execution = container.get("exec")
        if execution is None and "image" not in container:
            yield wrong(path, "a container needs `exec`, or an image that brings its own command")
        if execution is not None:
            yield from _command(f"{path}/exec/command", execution["command"])
            if execution.get("overrideEntrypoint") is False and "shell" in execution["command"]:
                yield wrong(f"{path}/exec", "overrideEntrypoint false does not go with a shell command", "use argv")
        if container.get("image", {}).get("kind") == "APPC":
            yield wrong(f"{path}/image/kind", "images of kind APPC are not supported", "use DOCKER")
        for name, limit in container.get("resourceLimits", {}).items():
            if isinstance(limit, int | float) and limit < container["resources"][name]:
                yield wrong(f"{path}/resourceLimits/{name}", f"the limit of {name} is below what is asked for")
        if "resourceLimits" in container and pod.get("legacySharedCgroups"):
            yield wrong(f"{path}/resourceLimits", "does not go with legacySharedCgroups", "remove one of them")


def _checks(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    for path, container in _containers(pod):
        names = {endpoint["name"] for endpoint in container["endpoints"]}
        for kind in ("healthCheck", "check"):
            check = container.get(kind)
            if check is None:
                continue
            given = [way for way in ("http", "tcp", "exec") if way in check]
            if len(given) != 1:
                yield wrong(f"{path}/{kind}", "needs exactly one of http, tcp and exec")
            if kind == "healthCheck" and check["timeoutSeconds"] >= check["intervalSeconds"]:
                yield wrong(f"{path}/{kind}/timeoutSeconds", "must be less than intervalSeconds")
            for way in given:
                if way == "exec":
                    yield from _command(f"{path}/{kind}/exec/command", check["exec"]["command"])
                elif check[way]["endpoint"] not in names:
                    sentence = f"there is no endpoint {check[way]['endpoint']!r} in this container"
                    yield wrong(f"{path}/{kind}/{way}/endpoint", sentence)


def _volumes(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    kinds = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["name"] for _, mount in _each(pod, "volumeMounts")}
    for index, volume in enumerate(pod["volumes"]):
        path = f"/volumes({index})"
        if volume["name"] not in mounted:
            sentence = "volume must be referenced by at least one container"
            yield wrong(path, sentence, f"mount it: {{'name': {volume['name']!r}, 'mountPath': ...}} in `volumeMounts`")
        if "persistent" in volume:
            yield from disk_problems(f"{path}/persistent", volume["persistent"])
    for path, mount in _each(pod, "volumeMounts"):
        if mount["name"] not in kinds:
            yield wrong(f"{path}/name", f"there is no volume {mount['name']!r} in this pod", "add it to `volumes`")


def _environment(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    levels = [("", pod), *_containers(pod)]
    used = []
    for path, level in levels:
        for name, value in level["environment"].items():
            if not _ENV_NAME.fullmatch(name):
                sentence = f"{name!r} is not the name of a variable: letters, digits and `_`, 254 at most"
                yield wrong(f"{path}/environment/{name}", sentence)
            if isinstance(value, Mapping):
                used.append((f"{path}/environment/{name}", value["secret"]))
    used += [
        (f"{path}/image/pullConfig", container["image"]["pullConfig"]["secret"])
        for path, container in _containers(pod)
        if "pullConfig" in container.get("image", {})
    ]
    used += [(f"/volumes({i})/secret", item["secret"]) for i, item in enumerate(pod["volumes"]) if "secret" in item]
    for path, name in used:
        if name not in pod["secrets"]:
            yield wrong(path, f"there is no secret {name!r}", "add it to `secrets`")
    if (used or pod["secrets"]) and "secrets" not in rules.features and rules.known:
        sentence = "Feature secrets is not enabled. Enable with --enable_features secrets"
        yield wrong("/", sentence, None, key="secrets")


def _scheduling(pod: Pod, definition: Pod, rules: AppRules) -> Iterator[Problem]:
    for index, constraint in enumerate(definition["constraints"]):
        field, operator, value = constraint[0], constraint[1], constraint[2] if len(constraint) > 2 else None
        if problem := constraint_problem(field, operator, value):
            yield wrong(f"/scheduling/placement/constraints({index})", *problem)
    unreachable = pod["scheduling"]["unreachableStrategy"]
    if is_resident(definition):
        if pod["scheduling"]["upgrade"]["maximumOverCapacity"] != 0:
            yield wrong("/upgrade/maximumOverCapacity", "must be 0 for a pod with persistent volumes")
        if unreachable != "disabled":
            yield wrong("/", "unreachableStrategy must be disabled for pods with persistent volumes")
    if isinstance(unreachable, Mapping) and unreachable["inactiveAfterSeconds"] > unreachable["expungeAfterSeconds"]:
        sentence = "inactiveAfterSeconds must not be more than expungeAfterSeconds"
        yield wrong("/scheduling/unreachableStrategy", sentence, "replaced first and forgotten later")


def _command(path: str, command: Mapping[str, Any]) -> Iterator[Problem]:
    if ("shell" in command) == ("argv" in command):
        yield wrong(path, "needs either shell or argv")


def _containers(pod: Pod) -> list[tuple[str, Pod]]:
    return [(f"/containers({index})", container) for index, container in enumerate(pod["containers"])]


def _each(pod: Pod, key: str) -> Iterator[tuple[str, Pod]]:
    for path, container in _containers(pod):
        for index, item in enumerate(container[key]):
            yield f"{path}/{key}({index})", item


def _repeated(items: Iterable[Any]) -> list[Any]:
    return [item for item, count in Counter(item for item in items if item is not None).items() if count > 1]


POD_RULES: tuple[Rule, ...] = (
    _as_app,
    _gpu_shares,
    _names,
    _networks,
    _endpoints,
    _commands,
    _checks,
    _volumes,
    _environment,
    _scheduling,
)
