"""What is wrong with the infos of a task or executor: commands, containers, volumes, checks; in Mesos' words. Pure.

Each function returns why its message is refused, or None. Source: Mesos src/common/validation.cpp.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

Info = Mapping[str, Any]

_SOURCES: Final = ("docker_volume", "host_path", "sandbox_path", "secret", "csi_volume")
_DURATIONS: Final = ("delay_seconds", "grace_period_seconds", "interval_seconds", "timeout_seconds")


def command_problem(command: Info) -> str | None:
    """CommandInfo: its variables alone are looked at."""
    for variable in command.get("environment", {}).get("variables", []):
        problem = _variable_problem(variable)
        if problem is not None:
            return problem
    return None


def _variable_problem(variable: Info) -> str | None:
    kind = variable.get("type", "VALUE")
    if kind not in ("VALUE", "SECRET"):
        return f"Environment variable of type '{kind}' is not allowed"
    name = f"Environment variable '{variable['name']}'"
    needed, other = ("value", "secret") if kind == "VALUE" else ("secret", "value")
    if needed not in variable:
        return f"{name} of type '{kind}' must have a {needed} set"
    if other in variable:
        return f"{name} of type '{kind}' must not have a {other} set"
    if kind == "VALUE":
        return None
    secret = variable["secret"]
    problem = secret_problem(secret)
    if problem is not None:
        return f"{name} specifies an invalid secret: {problem}"
    if b"\0" in base64.b64decode(secret.get("value", {}).get("data", "")):
        return f"{name} specifies a secret containing null bytes, which is not allowed in the environment"
    return None


def secret_problem(secret: Info) -> str | None:
    """Secret: a reference or a value, as its type says."""
    kind = secret.get("type", "UNKNOWN")
    if kind == "REFERENCE":
        if "reference" not in secret:
            return "Secret of type REFERENCE must have the 'reference' field set"
        if "value" in secret:
            return f"Secret '{secret['reference']['name']}' of type REFERENCE must not have the 'value' field set"
    elif kind == "VALUE":
        if "value" not in secret:
            return "Secret of type VALUE must have the 'value' field set"
        if "reference" in secret:
            return "Secret of type VALUE must not have the 'reference' field set"
    return None


def container_problem(container: Info) -> str | None:
    """ContainerInfo: its volumes, and what Docker's containers need."""
    for volume in container.get("volumes", []):
        problem = volume_problem(volume)
        if problem is not None:
            return f"Invalid volume: {problem}"
    if container.get("type") != "DOCKER":
        return None
    if "docker" not in container:
        return "DockerInfo 'docker' is not set for DOCKER typed ContainerInfo"
    if any(parameter["key"] == "name" for parameter in container["docker"].get("parameters", [])):
        return "Parameter in DockerInfo must not be 'name'"
    return None


def volume_problem(volume: Info) -> str | None:
    """Volume: one place that it comes from."""
    if sum(name in volume for name in ("host_path", "image", "source")) != 1:
        return "Only one of them should be set: 'host_path', 'image' and 'source'"
    source = volume.get("source")
    if source is None:
        return None
    kind = str(source.get("type", "UNKNOWN"))
    if kind.lower() not in _SOURCES:
        return "'source.type' is unknown"
    name = "CSI" if kind == "CSI_VOLUME" else kind
    if kind.lower() not in source:
        return f"'source.{kind.lower()}' is not set for {name} volume"
    if kind == "CSI_VOLUME" and "static_provisioning" not in source["csi_volume"]:
        return "'source.csi_volume.static_provisioning' is not set for CSI volume"
    return None


def check_problem(check: Info) -> str | None:
    """CheckInfo."""
    return _check_problem(check, "CheckInfo", "check", lambda body: body.get("command", {}))


def health_check_problem(check: Info) -> str | None:
    """HealthCheck."""
    scheme = check.get("http", {}).get("scheme", "http")
    if check.get("type") == "HTTP" and scheme not in ("http", "https"):
        return f"Unsupported HTTP health check scheme: '{scheme}'"
    return _check_problem(check, "HealthCheck", "health check", lambda body: body)


def _check_problem(check: Info, message: str, name: str, command_of: Callable[[Info], Info]) -> str | None:
    kind = check.get("type")
    if kind is None:
        return f"{message} must specify 'type'"
    if kind not in ("COMMAND", "HTTP", "TCP"):
        return f"'{kind}' is not a valid {name} type"
    body = check.get(kind.lower())
    if body is None:
        return f"Expecting '{kind.lower()}' to be set for {kind} {name}"
    if kind == "COMMAND":
        command = command_of(body)
        if "value" not in command:
            wanted = "shell command" if command.get("shell", True) else "executable path"
            return f"Command {name} must contain '{wanted}'"
        problem = command_problem(command)
        if problem is not None:
            return f"{name.capitalize()}'s `CommandInfo` is invalid: {problem}"
    if kind == "HTTP" and not body.get("path", "/").startswith("/"):
        return f"The path '{body['path']}' of HTTP {name} must start with '/'"
    for field in _DURATIONS:
        if check.get(field, 0.0) < 0:
            return f"Expecting '{field}' to be non-negative"
    return None
