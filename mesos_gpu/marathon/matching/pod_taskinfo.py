"""The task group that starts an instance of a pod: an executor, and a task for each container.

Source: Marathon's mesos/TaskGroupBuilder.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mesos_gpu.marathon.definitions.app_settings import BRIDGE_NAME
from mesos_gpu.marathon.definitions.gpu_share import kept_share_of
from mesos_gpu.marathon.definitions.ports import take_ports
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.checks import pod_check, pod_health_check
from mesos_gpu.marathon.matching.environment import endpoint_variables, label_variables
from mesos_gpu.marathon.matching.matching import Match, accepted_roles
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.taskinfo import (
    Document,
    effective_ports,
    labels_of,
    limits_of,
    linux_info,
    network_infos,
    uri_of,
    variables_of,
)
from mesos_gpu.marathon.model.instances import ContainerTask, Instance
from mesos_gpu.marathon.model.task_group import TaskGroup
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo
from mesos_gpu.mesos.ids import ExecutorId, FrameworkId, TaskId
from mesos_gpu.mesos.resource import milli
from mesos_gpu.mesos.resources import Resources

_SCALARS = ("cpus", "mem", "disk", "gpus")


class PodStart(Struct, frozen=True):
    """An instance of a pod that is about to start: what Mesos is told, and what we keep about each container."""

    group: TaskGroup
    containers: tuple[ContainerTask, ...]


class _Part(Struct, frozen=True):
    """One container of a pod that is about to start. `ports` are those it is told, `host_ports` those it takes."""

    container: Mapping[str, Any]
    task_id: TaskId
    resources: Resources
    host_ports: tuple[int | None, ...]
    ports: tuple[int, ...]


def task_group(
    spec: RunSpec,
    instance: Instance,
    offer: Offer,
    found: Match,
    *,
    framework_id: FrameworkId,
    env_prefix: str,
    pick: int,
    bridge_name: str = BRIDGE_NAME,
) -> PodStart:
    """Return what starts one instance of the pod `spec` on what was found in `offer`.

    The containers together take what was found, each its own part of it, so that nothing is left over or missing.
    """
    pod = spec.document["pod"]
    # An executor that ends may still be there when its instance starts again on the same machine: each has its own id.
    executor_id = ExecutorId(f"instance-{instance.id}.{instance.incarnation + 1}")
    parts = _parts(spec, instance, found, pick)
    own_limits = any("resourceLimits" in container for container in pod["containers"])
    apart = own_limits or pod.get("legacySharedCgroups") is False
    infos = [_task(spec, part, offer, executor_id, env_prefix, apart=apart) for part in parts]
    executor: ExecutorInfo = {
        "executor_id": {"value": executor_id},
        "framework_id": {"value": framework_id},
        "type": "DEFAULT",
        "name": spec.task_name,
        "source": spec.id,
        "resources": found.executor.to_json(),
    }
    if pod["labels"]:
        executor["labels"] = labels_of(pod["labels"])
    container: Document = {"type": "MESOS"}
    if pod["networks"][0]["mode"] != "host":
        effective = [port for part in parts for port in part.ports]
        container["network_infos"] = network_infos(spec.document, found.ports, effective, bridge_name)
    if "linuxInfo" in pod:
        container["linux_info"] = linux_info(pod["linuxInfo"])
    if len(container) > 1:
        executor["container"] = container
    kept = tuple(ContainerTask(part.task_id, part.container["name"], 0.0, host_ports=part.host_ports) for part in parts)
    return PodStart(TaskGroup(executor, infos), kept)


def _parts(spec: RunSpec, instance: Instance, found: Match, pick: int) -> list[_Part]:
    # Of whatever roles the offer was taken; what is kept for this instance is of its own.
    roles = accepted_roles(spec) if instance.reservation is None else (instance.role,)
    left = found.resources
    asked, effective = spec.ports, effective_ports(spec, found.ports, pick)
    parts, begin = [], 0
    for at, container in enumerate(spec.document["pod"]["containers"]):
        taken = found.shares[at] if found.shares else Resources()
        for name in _SCALARS:
            part = (left - taken).find(name, milli(container["resources"][name]), roles)
            taken += part if part is not None else Resources()
        end = begin + len(container["endpoints"])
        exact = [
            wish.at(number)
            for wish, number in zip(asked[begin:end], found.ports[begin:end], strict=True)
            if number is not None
        ]
        ports = take_ports(exact, left, roles, 0)
        taken += ports[1] if ports is not None else Resources()
        left -= taken
        task_id = instance.next_container_id(container["name"])
        parts.append(_Part(container, task_id, taken, found.ports[begin:end], effective[begin:end]))
        begin = end
    return parts


def _task(spec: RunSpec, part: _Part, offer: Offer, executor_id: ExecutorId, prefix: str, *, apart: bool) -> TaskInfo:
    pod, container = spec.document["pod"], part.container
    info: TaskInfo = {
        "name": container["name"],
        "task_id": {"value": part.task_id},
        "agent_id": {"value": offer.agent_id},
        "resources": part.resources.to_json(),
        "command": _command(pod, container, _environment(spec, part, offer, executor_id, prefix)),
        "discovery": {"visibility": "FRAMEWORK", "name": container["name"], "ports": {"ports": _ports(part)}},
    }
    if container["labels"]:
        info["labels"] = labels_of(container["labels"])
    if (grace_s := container.get("lifecycle", {}).get("killGracePeriodSeconds")) is not None:
        info["kill_policy"] = {"grace_period": {"nanoseconds": round(grace_s * 1e9)}}
    if container.get("resourceLimits"):
        info["limits"] = limits_of(container["resourceLimits"])
    inside = _inside_ports(part)
    if "healthCheck" in container:
        info["health_check"] = pod_health_check(container["healthCheck"], inside)
    if "check" in container:
        info["check"] = pod_check(container["check"], inside)
    if (described := _container(pod, container, apart=apart)) is not None:
        info["container"] = described
    return info


def _inside_ports(part: _Part) -> dict[str, int]:
    """Return the port of each endpoint as the pod itself sees it."""
    endpoints = part.container["endpoints"]
    return {item["name"]: item.get("containerPort") or port for item, port in zip(endpoints, part.ports, strict=True)}


def _ports(part: _Part) -> list[Document]:
    return [
        {
            "number": number,
            "name": endpoint["name"],
            "protocol": protocol,
            **({"labels": labels_of(endpoint["labels"])} if endpoint["labels"] else {}),
        }
        for endpoint, port in zip(part.container["endpoints"], part.host_ports, strict=True)
        if (number := port or endpoint.get("containerPort"))
        for protocol in endpoint["protocol"]
    ]


def _environment(spec: RunSpec, part: _Part, offer: Offer, executor_id: ExecutorId, prefix: str) -> dict[str, str]:
    pod, container = spec.document["pod"], part.container
    asked = container["resources"]
    inside = _inside_ports(part)
    own = {**pod["environment"], **container["environment"]}
    share = kept_share_of(container.get("gpuShare"), own)
    return {
        "MESOS_TASK_ID": part.task_id,
        "MESOS_EXECUTOR_ID": executor_id,
        "MARATHON_APP_ID": spec.id,
        "MARATHON_APP_VERSION": spec.version,
        **label_variables({**pod["labels"], **container["labels"]}),
        "MARATHON_CONTAINER_ID": container["name"],
        "MARATHON_CONTAINER_RESOURCE_CPUS": str(float(asked["cpus"])),
        "MARATHON_CONTAINER_RESOURCE_MEM": str(float(asked["mem"])),
        "MARATHON_CONTAINER_RESOURCE_DISK": str(float(asked["disk"])),
        "MARATHON_CONTAINER_RESOURCE_GPUS": str(asked["gpus"]),
        f"{prefix}HOST": offer.host,
        **{f"{prefix}{k}": v for k, v in endpoint_variables(container["endpoints"], part.host_ports, inside).items()},
        **({} if share is None else share.variables()),
        **{name: value for name, value in own.items() if isinstance(value, str)},
    }


def _command(pod: Mapping[str, Any], container: Mapping[str, Any], environment: Mapping[str, str]) -> Document:
    command: Document = {"environment": variables_of(environment)}
    execution = container.get("exec")
    asked: Mapping[str, Any] = execution["command"] if execution is not None else {}
    if "shell" in asked:
        command |= {"shell": True, "value": asked["shell"]}
    else:
        argv = list(asked.get("argv", ()))
        command |= {"shell": False, "arguments": argv}
        # Else the image's entrypoint is the program, and these are its arguments.
        if argv and ("image" not in container or (execution or {}).get("overrideEntrypoint")):
            command["value"] = argv[0]
    user = container.get("user", pod.get("user"))
    if user is not None:
        command["user"] = user
    if container["artifacts"]:
        command["uris"] = [uri_of(artifact) for artifact in container["artifacts"]]
    return command


def _container(pod: Mapping[str, Any], container: Mapping[str, Any], *, apart: bool) -> Document | None:
    document: Document = {"type": "MESOS"}
    if "image" in container:
        document["mesos"] = {"image": _image(pod, container["image"])}
    kinds = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = [(kinds[mount["name"]], mount) for mount in container["volumeMounts"]]
    # Files of secrets are left to plugins, as in Marathon.
    volumes = [_volume(volume, mount) for volume, mount in mounts if "secret" not in volume]
    if volumes:
        document["volumes"] = volumes
    linux = linux_info(container.get("linuxInfo", {}))
    if apart:
        linux["share_cgroups"] = False
    if linux:
        document["linux_info"] = linux
    if container.get("tty"):
        document["tty_info"] = {}
    return document if len(document) > 1 else None


def _image(pod: Mapping[str, Any], image: Mapping[str, Any]) -> Document:
    docker: Document = {"name": image["id"]}
    if "pullConfig" in image:
        source = pod["secrets"][image["pullConfig"]["secret"]]["source"]
        docker["config"] = {"type": "REFERENCE", "reference": {"name": source}}
    return {"type": "DOCKER", "docker": docker, "cached": not image.get("forcePull", False)}


def _volume(volume: Mapping[str, Any], mount: Mapping[str, Any]) -> Document:
    where = {"container_path": mount["mountPath"], "mode": "RO" if mount.get("readOnly") else "RW"}
    if "host" in volume:
        return {**where, "host_path": volume["host"]}
    # A folder in the executor's sandbox, which all containers of the instance share; a persistent one is put there.
    return {**where, "source": {"type": "SANDBOX_PATH", "sandbox_path": {"type": "PARENT", "path": volume["name"]}}}
