"""The checks of apps and pods as Mesos messages, and where Marathon's own checks go. Those of pods the executor runs.

Source: Marathon core/health/HealthCheck.scala, core/readiness/ReadinessCheckExecutor.scala.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.marathon.definitions.ports import PortWish, wishes
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.health import is_mesos_level, mesos_level
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.mesos.ids import TaskId

Document = dict[str, Any]

FIRST_CHECK_S = 5.0
"""Marathon looks at a task for the first time so long after it started."""
_SUCCESS = range(200, 400)


class Probe(Struct, frozen=True):
    """A check that Marathon runs itself, of one task. Times are seconds.

    `index` is the check's place in `healthChecks`; None marks the readiness check.
    """

    task_id: TaskId
    index: int | None
    scheme: str
    """http, https or tcp."""
    host: str
    port: int
    path: str
    first_s: float
    interval_s: float
    timeout_s: float
    good: tuple[int, ...] | None = None
    """HTTP statuses that are a success; None: 200 to 399."""
    ignore_1xx: bool = False
    keep_response: bool = False
    name: str = ""
    """The name of a readiness check."""

    def passes(self, status: int) -> bool:
        """Return whether an HTTP status is a success."""
        return status in (_SUCCESS if self.good is None else self.good)


def health_check(app: Mapping[str, Any], ports: Sequence[int | None]) -> Document | None:
    """Return Mesos' HealthCheck of the first check that Mesos runs, None when there is none."""
    index = mesos_level(app["healthChecks"])
    if index is None:
        return None
    check = app["healthChecks"][index]
    document: Document = {
        "delay_seconds": float(check["delaySeconds"]),
        "interval_seconds": float(check["intervalSeconds"]),
        "timeout_seconds": float(check["timeoutSeconds"]),
        "consecutive_failures": check["maxConsecutiveFailures"],
        "grace_period_seconds": float(check["gracePeriodSeconds"]),
    }
    protocol = check["protocol"]
    if protocol == "COMMAND":
        return {**document, "type": "COMMAND", "command": {"shell": True, "value": check["command"]["value"]}}
    port = _inside_port(app, ports, check)
    family = {"protocol": check["ipProtocol"]}
    if protocol == "MESOS_TCP":
        return {**document, "type": "TCP", "tcp": {"port": port, **family}}
    scheme = protocol.removeprefix("MESOS_").lower()
    return {
        **document,
        "type": "HTTP",
        "http": {"port": port, "scheme": scheme, "path": check.get("path", "/"), **family},
    }


def general_check(app: Mapping[str, Any], ports: Sequence[int | None]) -> Document | None:
    """Return Mesos' CheckInfo of the app's `check`, None when there is none."""
    check = app.get("check")
    if check is None:
        return None
    document: Document = {
        "delay_seconds": float(check["delaySeconds"]),
        "interval_seconds": float(check["intervalSeconds"]),
        "timeout_seconds": float(check["timeoutSeconds"]),
    }
    if "http" in check:
        http = {"port": _inside_port(app, ports, check["http"]), "path": check["http"].get("path", "/")}
        return {**document, "type": "HTTP", "http": http}
    if "tcp" in check:
        return {**document, "type": "TCP", "tcp": {"port": _inside_port(app, ports, check["tcp"])}}
    command = command_of(check.get("exec", {}).get("command", {}))
    return {**document, "type": "COMMAND", "command": {"command": command}}


def command_of(command: Mapping[str, Any]) -> Document:
    """Return the command of a check as Mesos' CommandInfo: a shell line, or a program with its arguments."""
    if "shell" in command:
        return {"shell": True, "value": command["shell"]}
    argv = list(command.get("argv", ()))
    return {"shell": False, "value": argv[0] if argv else "", "arguments": argv}


def check_result(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return Mesos' CheckStatusInfo in Marathon's words."""
    if "http" in found:
        return {"http": {"statusCode": found["http"].get("status_code", 0)}}
    if "tcp" in found:
        return {"tcp": {"succeeded": found["tcp"].get("succeeded", False)}}
    return {"command": {"exitCode": found.get("command", {}).get("exit_code", 0)}}


def health_probes(spec: RunSpec, task: Task) -> list[Probe]:
    """Return the checks of a running task that Marathon runs itself."""
    probes = []
    for index, check in enumerate(spec.document["healthChecks"]):
        address = None if is_mesos_level(check) else _address(spec, task, check)
        if address is not None:
            probes.append(
                Probe(
                    task.id,
                    index,
                    check["protocol"].lower(),
                    *address,
                    path=check.get("path", "/"),
                    first_s=min(FIRST_CHECK_S, float(check["intervalSeconds"])),
                    interval_s=float(check["intervalSeconds"]),
                    timeout_s=float(check["timeoutSeconds"]),
                    ignore_1xx=check["ignoreHttp1xx"],
                )
            )
    return probes


def readiness_probe(spec: RunSpec, task: Task) -> Probe | None:
    """Return the readiness check of a running task, None when its app has none."""
    for check in spec.document["readinessChecks"]:
        names = [wish.name for wish in wishes(spec.document)]
        index = names.index(check["portName"]) if check["portName"] in names else None
        address = _address(spec, task, {"portIndex": index}) if index is not None else None
        if address is not None:
            return Probe(
                task.id,
                None,
                check["protocol"].lower(),
                *address,
                path=check["path"],
                first_s=0.0,
                interval_s=float(check["intervalSeconds"]),
                timeout_s=float(check["timeoutSeconds"]),
                good=tuple(check["httpStatusCodesForReady"]),
                keep_response=check["preserveLastResponse"],
                name=check["name"],
            )
    return None


def _address(spec: RunSpec, task: Task, check: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return where Marathon reaches a port of a task: through its host, else at its own address."""
    if "port" in check:
        return task.host, int(check["port"])
    asked, index = wishes(spec.document), check.get("portIndex", 0)
    if index >= len(asked):
        return None
    if asked[index].on_host:
        place = sum(wish.on_host for wish in asked[:index])
        return (task.host, task.ports[place]) if place < len(task.ports) else None
    address = next((ip for ip, _ in task.ip_addresses), None)
    return (address, asked[index].inside_port) if address is not None and asked[index].inside_port else None


def _inside_port(app: Mapping[str, Any], ports: Sequence[int | None], check: Mapping[str, Any]) -> int:
    """Return the port as the task itself sees it: Mesos checks in the task's network."""
    if "port" in check:
        return int(check["port"])
    asked: tuple[PortWish, ...] = wishes(app)
    index = check.get("portIndex", 0)
    given = ports[index] if index < len(ports) else None
    inside = asked[index].inside_port if index < len(asked) else 0
    return inside or given or 0


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
