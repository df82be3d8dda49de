"""The checks of a pod's container as Mesos messages; the executor runs them, in the pod's network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.marathon.matching.checks import command_of

Document = dict[str, Any]


def pod_health_check(check: Mapping[str, Any], ports: Mapping[str, int]) -> Document:
    """Return Mesos' HealthCheck. `ports` are those of the container's endpoints by name, as seen in the pod."""
    document: Document = {
        "delay_seconds": float(check["delaySeconds"]),
        "interval_seconds": float(check["intervalSeconds"]),
        "timeout_seconds": float(check["timeoutSeconds"]),
        "consecutive_failures": check["maxConsecutiveFailures"],
        "grace_period_seconds": float(check["gracePeriodSeconds"]),
    }
    if "http" in check:
        http = check["http"]
        asked = {"port": ports[http["endpoint"]], "scheme": http["scheme"].lower(), "path": http.get("path", "/")}
        return {**document, "type": "HTTP", "http": asked}
    if "tcp" in check:
        return {**document, "type": "TCP", "tcp": {"port": ports[check["tcp"]["endpoint"]]}}
    return {**document, "type": "COMMAND", "command": command_of(check["exec"]["command"])}


def pod_check(check: Mapping[str, Any], ports: Mapping[str, int]) -> Document:
    """Return Mesos' CheckInfo. `ports` as for `pod_health_check`."""
    document: Document = {
        "delay_seconds": float(check["delaySeconds"]),
        "interval_seconds": float(check["intervalSeconds"]),
        "timeout_seconds": float(check["timeoutSeconds"]),
    }
    if "http" in check:
        http = {"port": ports[check["http"]["endpoint"]], "path": check["http"].get("path", "/")}
        return {**document, "type": "HTTP", "http": http}
    if "tcp" in check:
        return {**document, "type": "TCP", "tcp": {"port": ports[check["tcp"]["endpoint"]]}}
    return {**document, "type": "COMMAND", "command": {"command": command_of(check["exec"]["command"])}}
