"""The TaskInfo that starts an instance.

Source: Marathon's mesos/TaskBuilder.scala, api/serialization/ContainerSerializer and
core/externalvolume/impl/providers; Mesos src/master/validation.cpp says what a TaskInfo needs.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.marathon.definitions.app_settings import BRIDGE_NAME
from mesos_gpu.marathon.definitions.external_rules import DRIVER, PREFIX
from mesos_gpu.marathon.definitions.ports import wishes
from mesos_gpu.marathon.definitions.runspec import RunSpec, task_name
from mesos_gpu.marathon.matching.checks import general_check, health_check
from mesos_gpu.marathon.matching.environment import task_environment
from mesos_gpu.marathon.matching.matching import Match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo
from mesos_gpu.mesos.ids import ExecutorId, TaskId
from mesos_gpu.mesos.resources import Resources

Document = dict[str, Any]

_ANY_PORT = range(1025, 65536)
_DOCKER_NETWORKS = {"host": "HOST", "container/bridge": "BRIDGE", "container": "USER"}


def task_info(
    spec: RunSpec,
    task_id: TaskId,
    offer: Offer,
    found: Match,
    *,
    env_prefix: str = "",
    enforces_role: bool = False,
    pick: int = 0,
    bridge_name: str = BRIDGE_NAME,
    gang: Membership | None = None,
) -> TaskInfo:
    """Return Mesos' v1 TaskInfo, as JSON, for one task of `spec` on what was found in `offer`.

    `pick` (any number) chooses ports within the task's own network, where an app leaves them open.
    """
    app = spec.document
    effective = effective_ports(spec, found.ports, pick)
    environment = task_environment(
        spec, task_id, offer.host, effective, prefix=env_prefix, enforces_role=enforces_role, gang=gang
    )
    info: TaskInfo = {
        "name": spec.task_name,
        "task_id": {"value": task_id},
        "agent_id": {"value": offer.agent_id},
        "resources": found.resources.to_json(),
        "discovery": _discovery(spec, found),
    }
    if app["labels"]:
        info["labels"] = labels_of(app["labels"])
    if "taskKillGracePeriodSeconds" in app:
        grace_ns = int(app["taskKillGracePeriodSeconds"]) * 1_000_000_000
        info["kill_policy"] = {"grace_period": {"nanoseconds": grace_ns}}
    if app.get("resourceLimits"):
        info["limits"] = limits_of(app["resourceLimits"])
    if (health := health_check(app, effective)) is not None:
        info["health_check"] = health
    if (check := general_check(app, effective)) is not None:
        info["check"] = check
    container = _container(app, task_id, found.ports, effective, bridge_name)
    command = _command(app, environment)
    if app.get("executor", "") in ("", "//cmd"):
        info["command"] = command
        if container is not None:
            info["container"] = container
    else:
        info["executor"] = _executor(app, task_id, command, container, found.executor)
    return info


def effective_ports(spec: RunSpec, ports: Sequence[int | None], pick: int) -> tuple[int, ...]:
    """Return the port that a task is told for each of the app's: the host's, else the container's, else any."""
    return tuple(
        port or wish.inside_port or _ANY_PORT.start + (pick + index) % len(_ANY_PORT)
        for index, (wish, port) in enumerate(zip(spec.ports, ports, strict=True))
    )


def _executor(
    app: Mapping[str, Any], task_id: TaskId, command: Document, container: Document | None, resources: Resources
) -> ExecutorInfo:
    """Return the ExecutorInfo of an app that names a program of its own; the app's command goes to it as words."""
    path = shlex.quote(app["executor"])
    words = app["cmd"] if app.get("cmd") is not None else shlex.join(app.get("args", []))
    line = f"chmod ug+rx {path} && exec {path} {words}".rstrip()
    executor: ExecutorInfo = {
        "executor_id": {"value": ExecutorId(f"marathon-{task_id}")},
        "type": "CUSTOM",
        "name": task_name(app["id"]),
        "source": app["id"],
        "command": {**{k: v for k, v in command.items() if k != "arguments"}, "shell": True, "value": line},
    }
    if resources:
        executor["resources"] = resources.to_json()
    return executor if container is None else {**executor, "container": container}


def _command(app: Mapping[str, Any], environment: Mapping[str, str]) -> Document:
    command: Document = {"environment": variables_of(environment)}
    if app.get("cmd") is not None:
        command |= {"shell": True, "value": app["cmd"]}
    else:
        arguments = list(app.get("args", []))
        command |= {"shell": False, "arguments": arguments}
        # With a container the image's entrypoint is the program, and args are its arguments.
        if arguments and "container" not in app:
            command["value"] = arguments[0]
    if app.get("user"):
        command["user"] = app["user"]
    if app["fetch"]:
        command["uris"] = [uri_of(fetch) for fetch in app["fetch"]]
    return command


def variables_of(environment: Mapping[str, str]) -> Document:
    """Return variables as Mesos' Environment."""
    return {"variables": [{"name": name, "value": value} for name, value in sorted(environment.items())]}


def limits_of(limits: Mapping[str, Any]) -> Document:
    """Return resource limits as Mesos writes them."""
    return {name: {"value": "Infinity" if limit == "unlimited" else float(limit)} for name, limit in limits.items()}


def uri_of(fetch: Mapping[str, Any]) -> Document:
    """Return what is to be fetched as Mesos' CommandInfo.URI."""
    uri = {
        "value": fetch["uri"],
        "extract": fetch["extract"],
        "executable": fetch["executable"],
        "cache": fetch["cache"],
    }
    return {**uri, "output_file": fetch["destPath"]} if "destPath" in fetch else uri


def _discovery(spec: RunSpec, found: Match) -> Document:
    ports = [
        {
            "number": number,
            "protocol": protocol,
            **({"name": wish.name} if wish.name else {}),
            **({"labels": labels_of(dict(wish.labels))} if wish.labels else {}),
        }
        for wish, port in zip(spec.ports, found.ports, strict=True)
        if (number := port or wish.inside_port)
        for protocol in wish.protocol.split(",")
    ]
    return {"visibility": "FRAMEWORK", "name": spec.task_name, "ports": {"ports": ports}}


def _container(
    app: Mapping[str, Any], task_id: TaskId, ports: Sequence[int | None], effective: Sequence[int], bridge_name: str
) -> Document | None:
    networked = app["networks"][0]["mode"] != "host"
    if "container" not in app and not networked and not app.get("tty"):
        return None
    container: Mapping[str, Any] = app.get("container", {"type": "MESOS"})
    document: Document = {"type": container["type"]}
    docker: Mapping[str, Any] = container.get("docker", {})
    if container["type"] == "DOCKER":
        parameters = [*docker.get("parameters", []), {"key": "label", "value": f"MESOS_TASK_ID={task_id}"}]
        document["docker"] = {
            "image": docker["image"],
            "network": _DOCKER_NETWORKS[app["networks"][0]["mode"]],
            "privileged": docker.get("privileged", False),
            "force_pull_image": docker["forcePullImage"],
            "parameters": parameters,
        }
        if networked:
            document["docker"]["port_mappings"] = _mappings(app, ports, effective)
    elif docker:
        # `cached: false` makes the agent ask the registry again.
        image: Document = {
            "type": "DOCKER",
            "docker": {"name": docker["image"]},
            "cached": not docker["forcePullImage"],
        }
        if "pullConfig" in docker:
            source = app["secrets"][docker["pullConfig"]["secret"]]["source"]
            image["docker"]["config"] = {"type": "REFERENCE", "reference": {"name": source}}
        document["mesos"] = {"image": image}
    if networked:
        document["network_infos"] = network_infos(app, ports, effective, bridge_name)
    volumes = task_volumes(container.get("volumes", []))
    if volumes:
        document["volumes"] = volumes
    if "linuxInfo" in container:
        document["linux_info"] = linux_info(container["linuxInfo"])
    if app.get("tty"):
        document["tty_info"] = {}
    return document


def network_infos(
    app: Mapping[str, Any], ports: Sequence[int | None], effective: Sequence[int], bridge_name: str
) -> list[Document]:
    """Return the networks a container joins. With several, a mapping goes to the one that it names.

    `bridge_name` is what containers of a MESOS type join for `container/bridge`.
    """
    infos = []
    for network in app["networks"]:
        name = network.get("name", bridge_name)
        info: Document = {"name": name, "ip_addresses": [{"protocol": "IPv4"}]}
        if network.get("labels"):
            info["labels"] = labels_of(network["labels"])
        mappings = _mappings(app, ports, effective, name if len(app["networks"]) > 1 else None)
        infos.append({**info, "port_mappings": mappings} if mappings else info)
    return infos


def _mappings(
    app: Mapping[str, Any], ports: Sequence[int | None], effective: Sequence[int], network: str | None = None
) -> list[Document]:
    named = [mapping.get("networkNames") or [] for mapping in app.get("container", {}).get("portMappings", [])]
    return [
        {"host_port": port, "container_port": wish.inside_port or inside, "protocol": protocol}
        for wish, port, inside, names in zip(wishes(app), ports, effective, named, strict=True)
        if port is not None and (network is None or not names or network in names)
        for protocol in wish.protocol.split(",")
    ]


def linux_info(info: Mapping[str, Any]) -> Document:
    """Return `linuxInfo` as Mesos' LinuxInfo."""
    document: Document = {}
    if "seccomp" in info:
        seccomp = info["seccomp"]
        document["seccomp"] = {"unconfined": seccomp.get("unconfined", False)}
        if "profileName" in seccomp:
            document["seccomp"]["profile_name"] = seccomp["profileName"]
    if "ipcInfo" in info:
        document["ipc_mode"] = info["ipcInfo"]["mode"]
        if "shmSize" in info["ipcInfo"]:
            document["shm_size"] = info["ipcInfo"]["shmSize"]
    return document


def labels_of(labels: Mapping[str, str]) -> Document:
    """Return labels as Mesos' Labels."""
    return {"labels": [{"key": key, "value": value} for key, value in sorted(labels.items())]}


def task_volumes(volumes: Sequence[Mapping[str, Any]]) -> list[Document]:
    """Return Mesos' Volumes of an app's volumes.

    A volume of a secret is left out, as Marathon does without a plugin for secrets.
    """
    return [
        _host(volume) if "hostPath" in volume else _external(volume)
        for volume in volumes
        if "hostPath" in volume or "external" in volume
    ]


def _host(volume: Mapping[str, Any]) -> Document:
    return {"container_path": volume["containerPath"], "host_path": volume["hostPath"], "mode": volume["mode"]}


def _external(volume: Mapping[str, Any]) -> Document:
    external = volume["external"]
    options = {**external["options"], **({f"{PREFIX}size": str(external["size"])} if "size" in external else {})}
    parameters = [
        {"key": key[len(PREFIX) :], "value": str(value).strip()}
        for key, value in sorted(options.items())
        if key.startswith(PREFIX) and key.lower() != DRIVER
    ]
    docker_volume: Document = {"driver": external["options"][DRIVER], "name": external["name"]}
    if parameters:
        docker_volume["driver_options"] = {"parameter": parameters}
    source = {"type": "DOCKER_VOLUME", "docker_volume": docker_volume}
    return {"container_path": volume["containerPath"], "mode": volume.get("mode", "RW"), "source": source}
