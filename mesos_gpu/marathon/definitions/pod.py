"""The Marathon pod: a document read, checked and brought into the form that everything else works with.

Pure. What placing and deploying looks at is the same for apps and pods, so a pod becomes a RunSpec: the sums of its
containers and its policies in an app's words, and the pod itself beside them under `pod`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.definitions.app import INVALID_JSON, AppRules, canonical_id
from mesos_gpu.marathon.definitions.app_rules import default_role
from mesos_gpu.marathon.definitions.app_schema import POD
from mesos_gpu.marathon.definitions.app_words import shape_problem
from mesos_gpu.marathon.definitions.persistent_volumes import completed
from mesos_gpu.marathon.definitions.pod_rules import POD_RULES
from mesos_gpu.mesos.resource import milli

Document = dict[str, Any]

SCALARS = ("cpus", "mem", "disk", "gpus")


def read_pod(document: object, rules: AppRules, *, base: str = "/") -> Document:
    """Return the definition of the RunSpec that `document` (parsed JSON) describes, with every default filled in.

    Unknown keys are dropped. A relative id counts from `base`. Raises InvalidApp with every problem of the first
    stage that finds one. Source: Marathon's RAML types, PodNormalization and PodsValidation.
    """
    if not isinstance(document, Mapping):
        raise InvalidApp([shape_problem("/", "type", "object", document)], stage=INVALID_JSON)
    cleaned = POD.clean(document)
    _refuse(POD.shape_problems(cleaned), stage=INVALID_JSON)
    pod = _with_computed_defaults(POD.with_defaults(cleaned), cleaned.get("scheduling", {}), rules, base)
    definition = run_definition(pod)
    _refuse(problem for rule in POD_RULES for problem in rule(pod, definition, rules))
    return definition


def pod_as_shown(document: Mapping[str, Any]) -> Document:
    """Return the definition of the RunSpec of a pod that a Marathon shows, whichever it is: nothing is checked."""
    cleaned = POD.clean(document)
    scheduling = cleaned.get("scheduling", {})
    return run_definition(_with_computed_defaults(POD.with_defaults(cleaned), scheduling, AppRules(), "/"))


def run_definition(pod: Mapping[str, Any]) -> Document:
    """Return a canonical pod as the definition of a RunSpec."""
    scheduling, containers = pod["scheduling"], pod["containers"]
    placement, backoff = scheduling["placement"], scheduling["backoff"]
    definition: Document = {
        "id": pod["id"],
        "role": pod["role"],
        "labels": pod["labels"],
        "instances": pod["scaling"]["instances"],
        **{name: _sum(container["resources"][name] for container in containers) for name in SCALARS},
        "executorResources": pod["executorResources"],
        "constraints": [
            [item["fieldName"], item["operator"], *([item["value"]] if "value" in item else [])]
            for item in placement["constraints"]
        ],
        "upgradeStrategy": scheduling["upgrade"],
        "killSelection": scheduling["killSelection"],
        "unreachableStrategy": scheduling["unreachableStrategy"],
        "backoffSeconds": backoff["backoff"],
        "backoffFactor": backoff["backoffFactor"],
        "maxLaunchDelaySeconds": backoff["maxLaunchDelay"],
        "dependencies": [],
        "healthChecks": [],
        "readinessChecks": [],
        "networks": pod["networks"],
        # How many instances there are is not part of what they are: a change of it alone replaces none.
        "pod": {key: value for key, value in pod.items() if key != "scaling"},
    }
    definition["gpus"] = int(definition["gpus"])
    if "acceptedResourceRoles" in placement:
        definition["acceptedResourceRoles"] = placement["acceptedResourceRoles"]
    ports = [endpoint for container in containers for endpoint in container["endpoints"]]
    if pod["networks"][0]["mode"] == "host":
        definition |= {"portDefinitions": [_definition(port) for port in ports], "requirePorts": True}
    else:
        definition["container"] = {"type": "MESOS", "portMappings": [_mapping(port) for port in ports]}
    if kept := [_as_apps(volume) for volume in pod["volumes"] if "persistent" in volume]:
        definition["container"] = {"type": "MESOS", **definition.get("container", {}), "volumes": kept}
    return definition


def shown(definition: Mapping[str, Any]) -> Document:
    """Return the canonical pod of a RunSpec's document, with its version where it has one."""
    pod = {**definition["pod"], "scaling": {"kind": "fixed", "instances": definition["instances"]}}
    return {**pod, "version": definition["version"]} if "version" in definition else pod


def _with_computed_defaults(pod: Document, scheduling: Mapping[str, Any], rules: AppRules, base: str) -> Document:
    """Fill in what depends on the rest of the pod; `scheduling` is what it says about that itself."""
    pod_id = canonical_id(pod["id"], base)
    networks = [
        {**network, "name": rules.default_network_name}
        if network["mode"] == "container" and "name" not in network and rules.default_network_name is not None
        else network
        for network in pod["networks"] or [{"mode": "host"}]
    ]
    containers = pod["containers"]
    if not any(network["mode"] == "container" for network in networks):
        containers = [
            {**item, "endpoints": [{"hostPort": 0, **endpoint} for endpoint in item["endpoints"]]}
            for item in containers
        ]
    return {
        **pod,
        "id": pod_id,
        "containers": containers,
        "role": pod.get("role", default_role(pod_id, rules)),
        "scaling": {"kind": "fixed", "instances": 1, **pod.get("scaling", {})},
        "scheduling": _replacement(pod, scheduling),
        "networks": networks,
        "volumes": [completed(volume) for volume in pod["volumes"]],
    }


def _replacement(pod: Mapping[str, Any], asked: Mapping[str, Any]) -> Document:
    """Return how instances are replaced, by new ones and on lost machines; by default those with volumes stay.

    Source: PodNormalization.normalizeUpgradeAndUnreachableStrategy.
    """
    stays = any("persistent" in volume for volume in pod["volumes"])
    upgrade = {"minimumHealthCapacity": 0.5 if stays else 1, "maximumOverCapacity": 0 if stays else 1}
    unreachable = "disabled" if stays else {"inactiveAfterSeconds": 0, "expungeAfterSeconds": 0}
    return {"unreachableStrategy": unreachable, **pod["scheduling"], "upgrade": {**upgrade, **asked.get("upgrade", {})}}


def _refuse(problems: Iterable[Problem], stage: str = "Object is not valid") -> None:
    if found := list(problems):
        raise InvalidApp(found, stage=stage)


def _sum(values: Iterable[float]) -> float:
    # In thousandths, as they are taken of an offer: a sum of binary fractions would be a hair beside.
    return sum(milli(value) for value in values) / 1000


def _as_apps(volume: Mapping[str, Any]) -> Document:
    """Return a persistent volume as an app's: it lies in the executor's sandbox, and containers mount it from there."""
    return {"containerPath": volume["name"], "mode": "RW", "persistent": volume["persistent"]}


def _definition(endpoint: Mapping[str, Any]) -> Document:
    shared = {key: endpoint[key] for key in ("name", "labels")}
    return {"port": endpoint.get("hostPort", 0), "protocol": ",".join(sorted(endpoint["protocol"])[::-1]), **shared}


def _mapping(endpoint: Mapping[str, Any]) -> Document:
    definition = _definition(endpoint)
    del definition["port"]
    named = {key: endpoint[key] for key in ("hostPort", "networkNames") if key in endpoint}
    return {"containerPort": endpoint.get("containerPort", 0), **definition, **named, "servicePort": 0}
