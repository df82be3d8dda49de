"""The environment that Marathon gives to a task; what the app says itself wins.

Source: Marathon's mesos/EnvironmentHelper.scala.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.mesos.ids import TaskId

MAX_LABEL_KEY, MAX_LABEL_VALUE = 493, 512
"""Labels from these lengths on are left out of the environment."""


def task_environment(
    spec: RunSpec,
    task_id: TaskId,
    host: str,
    ports: Sequence[int],
    *,
    prefix: str = "",
    enforces_role: bool = False,
    gang: Membership | None = None,
) -> dict[str, str]:
    """Return the variables of one task. `prefix` (--env_vars_prefix) goes before HOST and the port variables.

    `ports` has one for each port of the app, `enforces_role` tells whether its top-level group has enforceRole,
    `gang` what the task is in its gang. A variable that refers to a secret is left out, as Marathon does without a
    plugin for secrets.
    """
    given = {f"{prefix}{name}": value for name, value in {"HOST": host, **_port_variables(spec, ports)}.items()}
    own = {name: value for name, value in spec.document["env"].items() if isinstance(value, str)}
    share = spec.shares[0]
    shared = {} if share is None else share.variables()
    enforced = {"MARATHON_APP_ENFORCE_GROUP_ROLE": "TRUE" if enforces_role else "FALSE"}
    together = {} if gang is None else gang.variables()
    return {**_app_variables(spec, task_id), **enforced, **given, **shared, **together, **own}


def _app_variables(spec: RunSpec, task_id: TaskId) -> dict[str, str]:
    app = spec.document
    variables = {
        "MESOS_TASK_ID": task_id,
        "MARATHON_APP_ID": spec.id,
        "MARATHON_APP_VERSION": spec.version,
        "MARATHON_APP_RESOURCE_CPUS": str(float(app["cpus"])),
        "MARATHON_APP_RESOURCE_MEM": str(float(app["mem"])),
        "MARATHON_APP_RESOURCE_DISK": str(float(app["disk"])),
        "MARATHON_APP_RESOURCE_GPUS": str(spec.gpus),
    }
    container = app.get("container", {})
    if container.get("type") == "DOCKER":
        variables["MARATHON_APP_DOCKER_IMAGE"] = container["docker"]["image"]
    return {**variables, **label_variables(app["labels"])}


def label_variables(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell a task its labels."""
    kept = {
        _escaped(key): value
        for key, value in labels.items()
        if len(key) < MAX_LABEL_KEY and len(value) < MAX_LABEL_VALUE
    }
    told = {f"MARATHON_APP_LABEL_{key}": value for key, value in kept.items()}
    return {"MARATHON_APP_LABELS": " ".join(kept), **told}


def endpoint_variables(
    endpoints: Sequence[Mapping[str, Any]], host_ports: Sequence[int | None], inside: Mapping[str, int]
) -> dict[str, str]:
    """Return the variables that tell a pod's container its ports: on the machine, and in the pod's network."""
    variables = {}
    for endpoint, host_port in zip(endpoints, host_ports, strict=True):
        name = _escaped(endpoint["name"])
        if host_port is not None:
            variables[f"EP_HOST_{name}"] = str(host_port)
        variables[f"EP_CONTAINER_{name}"] = str(inside[endpoint["name"]])
    return variables


def _port_variables(spec: RunSpec, ports: Sequence[int]) -> dict[str, str]:
    if not ports:
        return {}
    variables = {f"PORT{index}": str(port) for index, port in enumerate(ports)}
    for wish, port in zip(spec.ports, ports, strict=True):
        variables[f"PORT_{wish.requested or port}"] = str(port)
        if wish.name:
            variables[f"PORT_{_escaped(wish.name)}"] = str(port)
    return {**variables, "PORT": str(ports[0]), "PORTS": ",".join(map(str, ports))}


def _escaped(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).upper()
