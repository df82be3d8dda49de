"""The TaskInfo that starts an instance (marathon.md 3.6, mesos.md 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.marathon.environment import task_environment
from mesos_gpu.marathon.matching import Match
from mesos_gpu.marathon.offers import Offer
from mesos_gpu.marathon.ports import wishes
from mesos_gpu.marathon.runspec import RunSpec

Document = dict[str, Any]


def task_info(spec: RunSpec, task_id: str, offer: Offer, found: Match, *, env_prefix: str = "") -> Document:
    """Return Mesos' v1 TaskInfo, as JSON, for one task of `spec` on what was found in `offer`."""
    environment = task_environment(spec, task_id, offer.host, found.ports, prefix=env_prefix)
    app = spec.document
    info: Document = {
        "name": spec.task_name,
        "task_id": {"value": task_id},
        "agent_id": {"value": offer.agent_id},
        "resources": found.resources.to_json(),
        "command": _command(app, environment),
        "discovery": _discovery(spec, found),
    }
    if app["labels"]:
        info["labels"] = _labels(app["labels"])
    if "taskKillGracePeriodSeconds" in app:
        grace_ns = int(app["taskKillGracePeriodSeconds"]) * 1_000_000_000
        info["kill_policy"] = {"grace_period": {"nanoseconds": grace_ns}}
    if app.get("resourceLimits"):
        info["limits"] = {
            name: {"value": "Infinity" if limit == "unlimited" else float(limit)}
            for name, limit in app["resourceLimits"].items()
        }
    container = _container(app, task_id)
    if container is not None:
        info["container"] = container
    return info


def _command(app: Mapping[str, Any], environment: Mapping[str, str]) -> Document:
    variables = [{"name": name, "value": value} for name, value in sorted(environment.items())]
    command: Document = {"environment": {"variables": variables}}
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
        command["uris"] = [_uri(fetch) for fetch in app["fetch"]]
    return command


def _uri(fetch: Mapping[str, Any]) -> Document:
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
            **({"labels": _labels(dict(wish.labels))} if wish.labels else {}),
        }
        for wish, number in zip(wishes(spec.document), found.ports, strict=True)
        for protocol in wish.protocol.split(",")
    ]
    return {"visibility": "FRAMEWORK", "name": spec.task_name, "ports": {"ports": ports}}


def _container(app: Mapping[str, Any], task_id: str) -> Document | None:
    container = app.get("container")
    if container is None:
        return {"type": "MESOS", "tty_info": {}} if app.get("tty") else None
    document: Document = {"type": container["type"]}
    docker = container.get("docker")
    if container["type"] == "DOCKER":
        parameters = [*docker.get("parameters", []), {"key": "label", "value": f"MESOS_TASK_ID={task_id}"}]
        document["docker"] = {
            "image": docker["image"],
            "network": "HOST",
            "privileged": docker.get("privileged", False),
            "force_pull_image": docker["forcePullImage"],
            "parameters": parameters,
        }
    elif docker is not None:
        # `cached: false` makes the agent ask the registry again.
        image = {"type": "DOCKER", "docker": {"name": docker["image"]}, "cached": not docker["forcePullImage"]}
        document["mesos"] = {"image": image}
    volumes = [_volume(volume) for volume in container.get("volumes", [])]
    if volumes:
        document["volumes"] = volumes
    if "linuxInfo" in container:
        document["linux_info"] = _linux_info(container["linuxInfo"])
    if app.get("tty"):
        document["tty_info"] = {}
    return document


def _volume(volume: Mapping[str, Any]) -> Document:
    return {"container_path": volume["containerPath"], "host_path": volume["hostPath"], "mode": volume["mode"]}


def _linux_info(info: Mapping[str, Any]) -> Document:
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


def _labels(labels: Mapping[str, str]) -> Document:
    return {"labels": [{"key": key, "value": value} for key, value in sorted(labels.items())]}
