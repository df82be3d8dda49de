"""What /v2/pods shows: pods, and how their instances and containers are. Pure.

Source: Marathon raml/PodStatusConversion.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.marathon.definitions.pod import SCALARS, shown
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import seconds_of, timestamp
from mesos_gpu.marathon.matching.nvlink import cards_shown
from mesos_gpu.marathon.model.instances import ContainerTask, Instance, Phase, Task
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.pods import healthy
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.views.volume_views import local_volumes

Document = dict[str, Any]

# Left out where there is nothing in it, as Marathon does.
_OMITTED_WHEN_EMPTY = frozenset(
    {"labels", "environment", "secrets", "volumes", "endpoints", "volumeMounts", "artifacts", "constraints"}
)
_STATES: Mapping[Phase, str] = {
    Phase.SCHEDULED: "PENDING",
    Phase.PROVISIONED: "PENDING",
    Phase.STAGING: "STAGING",
    Phase.STARTING: "STAGING",
    Phase.KILLING: "TERMINAL",
    Phase.ENDED: "TERMINAL",
    Phase.UNREACHABLE: "DEGRADED",
}


def pod_view(spec: RunSpec) -> Document:
    """Return a pod as the API shows it."""
    view: Document = _sparse(shown(spec.document))
    return view


def pod_status(state: State, spec: RunSpec, moment: Moment, *, cards: bool = False) -> Document:
    """Return how a pod, its instances and their containers are; with `cards` which whole GPUs each instance has."""
    instances = [instance_status(state, instance, moment, cards=cards) for instance in state.instances_of(spec.id)]
    stable = sum(instance["status"] == "STABLE" for instance in instances)
    since = max((instance["statusSince"] for instance in instances), default=timestamp(seconds_of(spec.version)))
    status: Document = {
        "id": spec.id,
        "spec": pod_view(spec),
        "status": "STABLE" if stable >= spec.instances else "DEGRADED",
        "statusSince": since,
        "instances": instances,
        "terminationHistory": list(state.failures.get(spec.id, {}).get("terminationHistory", ())),
        "lastUpdated": timestamp(moment.now_s),
        "lastChanged": since,
    }
    return status


def instance_status(state: State, instance: Instance, moment: Moment, *, cards: bool = False) -> Document:
    """Return how one instance of a pod is; with `cards` which whole GPUs it has, which all its containers share."""
    spec, task = state.spec_of(instance), instance.task
    since = timestamp(instance.since_s)
    shown: Document = {
        "id": instance.id,
        "status": _instance_state(state, instance),
        "statusSince": since,
        "conditions": [],
        "networks": [],
        "containers": [],
        "localVolumes": local_volumes(instance),
        "lastUpdated": timestamp(moment.now_s),
        "lastChanged": since,
        "role": instance.role,
    }
    if spec is not None and spec.is_pod:
        shown["specReference"] = f"/v2/pods{spec.id}::versions/{spec.version}"
        executor = spec.document["executorResources"]
        shown["resources"] = {name: spec.document[name] + executor.get(name, 0) for name in SCALARS}
    place = task or instance.reservation
    if place is not None:
        shown |= {"agentHostname": place.host, "agentId": place.agent_id}
        shown |= {
            key: value for key, value in (("agentRegion", place.region), ("agentZone", place.zone)) if value is not None
        }
    of_it = cards_shown(task) if cards and task is not None else None
    if of_it is not None:
        shown["gpuCards"] = of_it
    if task is not None and spec is not None and spec.is_pod:
        named = [network for network in spec.document["networks"] if network["mode"] != "host"]
        addresses = [address for address, _ in task.ip_addresses]
        shown["networks"] = [
            {**({"name": network["name"]} if "name" in network else {}), "addresses": addresses}
            for network in named or [{}]
        ]
        asked = {item["name"]: item for item in spec.document["pod"]["containers"]}
        shown["containers"] = [
            _container_status(container, asked.get(container.name, {}), moment) for container in task.containers
        ]
    return shown


def instance_view(instance: Instance) -> Document:
    """Return an instance as the answer to its kill shows it."""
    task = instance.task
    shown: Document = {
        "instanceId": {"idString": instance.id},
        "state": {
            "condition": {"str": instance.phase.value},
            "since": timestamp(instance.since_s),
            "goal": instance.goal.value,
        },
        "tasksMap": {},
        "runSpecVersion": instance.version,
        "role": instance.role,
    }
    if task is not None:
        shown["agentInfo"] = {"host": task.host, "agentId": task.agent_id, "attributes": []}
        shown["tasksMap"] = {
            container.id: {
                "taskId": container.id,
                "runSpecVersion": task.version,
                "status": {"stagedAt": timestamp(task.staged_at_s), "condition": {"str": container.state}},
            }
            for container in task.containers
        }
    return shown


def pod_task_views(instance: Instance, task: Task, *, cards: bool = False) -> list[Document]:
    """Return the tasks of an instance as /v2/tasks lists them: one for each container.

    With `cards` each has the whole GPUs of the instance: its containers share them.
    """
    of_it = cards_shown(task) if cards else None
    more = {} if of_it is None else {"gpuCards": of_it}
    return [{**_task_view(instance, task, container), **more} for container in task.containers]


def _task_view(instance: Instance, task: Task, container: ContainerTask) -> Document:
    shown: Document = {
        "appId": instance.app_id,
        "id": container.id,
        "host": task.host,
        "state": container.state,
        "role": instance.role,
        "slaveId": task.agent_id,
        "localVolumes": local_volumes(instance),
        "ipAddresses": [{"ipAddress": ip, "protocol": protocol} for ip, protocol in task.ip_addresses],
        "ports": [port for port in container.host_ports if port is not None],
        "stagedAt": timestamp(task.staged_at_s),
        "version": task.version,
    }
    if container.started_at_s is not None:
        shown["startedAt"] = timestamp(container.started_at_s)
    if container.check_result is not None:
        shown["checkResult"] = dict(container.check_result)
    return shown


def _instance_state(state: State, instance: Instance) -> str:
    task = instance.task
    if not instance.wanted or (task is not None and task.id in state.kills):
        return "TERMINAL"
    if instance.phase is not Phase.RUNNING or task is None:
        return _STATES[instance.phase]
    bad = any(container.ended and container.state != "TASK_FINISHED" for container in task.containers)
    spec = state.spec_of(instance)
    well = spec is not None and spec.is_pod and healthy(spec, task)
    return "STABLE" if well and not bad else "DEGRADED"


def _container_status(container: ContainerTask, asked: Mapping[str, Any], moment: Moment) -> Document:
    since = timestamp(container.since_s)
    shown: Document = {
        "name": container.name,
        "status": container.state,
        "statusSince": since,
        "containerId": container.id,
        "conditions": [],
        "endpoints": [],
        "lastUpdated": timestamp(moment.now_s),
        "lastChanged": since,
    }
    if "resources" in asked:
        shown["resources"] = dict(asked["resources"])
    if container.message:
        shown["message"] = container.message
    if container.ended and container.message:
        shown["termination"] = {"message": container.message}
    check = asked.get("healthCheck")
    if check is not None and container.healthy is not None:
        healthy_condition = {
            "name": "healthy",
            "value": str(container.healthy).lower(),
            "reason": "health-reported-by-mesos",
            "lastChanged": since,
            "lastUpdated": timestamp(moment.now_s),
        }
        shown["conditions"] = [healthy_condition]
    checked = {(check or {}).get(way, {}).get("endpoint") for way in ("http", "tcp")}
    for endpoint, port in zip(asked.get("endpoints", ()), container.host_ports, strict=False):
        one: Document = {"name": endpoint["name"]}
        if port is not None:
            one["allocatedHostPort"] = port
        if endpoint["name"] in checked:
            one["healthy"] = container.healthy is True
        shown["endpoints"].append(one)
    return shown


def _sparse(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sparse(item) for key, item in value.items() if not (key in _OMITTED_WHEN_EMPTY and not item)}
    return [_sparse(item) for item in value] if isinstance(value, list) else value
