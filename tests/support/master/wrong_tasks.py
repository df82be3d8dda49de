"""Tasks and groups that a master refuses: what a task is to look like is each client's to get wrong in its own way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mesos_gpu.mesos.resource import Document


def scalar(name: str, value: float, **more: object) -> Document:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, **more}


def ports(*ranges: tuple[int, int]) -> Document:
    shown = [{"begin": begin, "end": end} for begin, end in ranges]
    return {"name": "ports", "type": "RANGES", "ranges": {"range": shown}}


LEAST = [scalar("cpus", 0.1), scalar("mem", 32)]


def using(*more: Document) -> Document:
    return {"resources": [*LEAST, *more]}


def by(**changes: object) -> Document:
    """Return what makes a task one of a custom executor."""
    executor = {"executor_id": {"value": "e"}, "type": "CUSTOM", "command": {"value": "true"}, "resources": LEAST}
    return {"command": None, "executor": {**executor, **changes}}


def variable(**changes: object) -> Document:
    return {"command": {"value": "true", "environment": {"variables": [{"name": "A", **changes}]}}}


def volume(**changes: object) -> Document:
    return {"container": {"type": "MESOS", "volumes": [{"mode": "RW", "container_path": "x", **changes}]}}


def source(kind: str, **changes: object) -> Document:
    return volume(source={"type": kind, **changes})


def healthy(kind: str | None, **changes: object) -> Document:
    return {"health_check": changes if kind is None else {"type": kind, **changes}}


def checked(kind: str | None, **changes: object) -> Document:
    return {"check": changes if kind is None else {"type": kind, **changes}}


def linux(**changes: object) -> Document:
    return {"container": {"type": "MESOS", "linux_info": changes}}


AGO = {"nanoseconds": -1}
TCP = {"tcp": {"port": 1}}
VALUE = {"type": "VALUE", "value": {"data": "eA=="}}
TASKS: Mapping[str, Document] = {
    "no resources": {"resources": []},
    "half a GPU": using(scalar("gpus", 0.5)),
    "fewer GPUs than none": using(scalar("gpus", -1)),
    "more GPUs": using(scalar("gpus", 3)),
    "GPUs by range": using({"name": "gpus", "type": "RANGES", "ranges": {"range": [{"begin": 0, "end": 1}]}}),
    "GPUs by name": using({"name": "gpus", "type": "SET", "set": {"item": ["a"]}}),
    "GPUs without a number": using({"name": "gpus", "type": "SCALAR"}),
    "GPUs in two ways": using(scalar("gpus", 1, set={"item": ["a"]})),
    "a set with one twice": using({"name": "x", "type": "SET", "set": {"item": ["a", "a"]}}),
    "nameless": using(scalar("", 1)),
    "unheard of": using(scalar("foo", 1)),
    "cpus below none": {"resources": [scalar("cpus", -1)]},
    "cpus that are none": {"resources": [scalar("cpus", 0.0001)]},
    "all cpus": {"resources": [scalar("cpus", 1e6)]},
    "other ports": using(ports((1, 2))),
    "ports backwards": using(ports((31010, 31000))),
    "ports twice": using(ports((31000, 31010), (31010, 31012))),
    "another agent": {"agent_id": {"value": "other"}},
    "name with a slash": {"task_id": {"value": "a/b"}},
    "no name": {"task_id": {"value": ""}},
    "a folder's name": {"task_id": {"value": ".."}},
    "long name": {"task_id": {"value": "x" * 300}},
    "no command": {"command": None},
    "command and executor": {**by(), "command": {"value": "true"}},
    "executor without a command": by(command=None),
    "executor's name": by(executor_id={"value": "e/3"}),
    "default executor": {**by(type="DEFAULT", command=None)},
    "unknown executor": by(type="UNKNOWN"),
    "another framework's executor": by(framework_id={"value": "zzz"}),
    "executor with half a GPU": by(resources=[*LEAST, scalar("gpus", 0.5)]),
    "executor with less than nothing": by(resources=[scalar("cpus", -1)]),
    "executor that ended": by(shutdown_grace_period=AGO),
    "executor with a volume": by(**volume()),
    "executor with a variable": by(**variable()),
    "executor that shares": by(**linux(share_cgroups=True)),
    "killed before": {"kill_policy": {"grace_period": AGO}},
    "ended before": {"max_completion_time": AGO},
    "health of no kind": healthy(None),
    "health of unknown kind": healthy("UNKNOWN"),
    "health of nothing": healthy("HTTP"),
    "health's path": healthy("HTTP", http={"port": 1, "path": "x"}),
    "health's scheme": healthy("HTTP", http={"port": 1, "scheme": "ftp"}),
    "health without a command": healthy("COMMAND"),
    "health by an empty command": healthy("COMMAND", command={}),
    "health by no program": healthy("COMMAND", command={"shell": False}),
    "health by a bad command": healthy("COMMAND", command={"value": "true", **variable()["command"]}),
    "health without a port": healthy("TCP"),
    "health delayed": healthy("TCP", **TCP, delay_seconds=-1),
    "health in between": healthy("TCP", **TCP, interval_seconds=-1),
    "health's grace": healthy("TCP", **TCP, grace_period_seconds=-1),
    "health's time": healthy("TCP", **TCP, timeout_seconds=-1),
    "check of no kind": checked(None),
    "check of unknown kind": checked("UNKNOWN"),
    "check of nothing": checked("COMMAND"),
    "check's path": checked("HTTP", http={"port": 1, "path": "x"}),
    "check without a port": checked("TCP"),
    "check in between": checked("TCP", **TCP, interval_seconds=-1),
    "variable without a value": variable(),
    "variable with both": variable(value="x", secret=VALUE),
    "variable of unknown kind": variable(type="UNKNOWN", value="x"),
    "secret without one": variable(type="SECRET"),
    "secret with both": variable(type="SECRET", value="x", secret=VALUE),
    "secret of nothing": variable(type="SECRET", secret={"type": "VALUE"}),
    "secret to nothing": variable(type="SECRET", secret={"type": "REFERENCE"}),
    "secret in two ways": variable(type="SECRET", secret={**VALUE, "reference": {"name": "n"}}),
    "secret to two": variable(type="SECRET", secret={**VALUE, "type": "REFERENCE", "reference": {"name": "n"}}),
    "secret with a zero": variable(type="SECRET", secret={"type": "VALUE", "value": {"data": "AA=="}}),
    "volume of nothing": volume(),
    "volume of two": volume(host_path="/tmp", source={"type": "HOST_PATH", "host_path": {"path": "/tmp"}}),
    "volume of unknown kind": source("UNKNOWN"),
    **{f"volume of no {kind}": source(kind) for kind in ("DOCKER_VOLUME", "SANDBOX_PATH", "HOST_PATH", "SECRET")},
    "volume of CSI": source("CSI_VOLUME"),
    "Docker without an image": {"container": {"type": "DOCKER"}},
    "Docker with a name": {
        "container": {"type": "DOCKER", "docker": {"image": "i", "parameters": [{"key": "name", "value": "n"}]}}
    },
    "limit below the request": {"limits": {"cpus": {"value": 0.05}}},
    "memory below the request": {"limits": {"mem": {"value": 5}}},
    "limit without a request": {"resources": [scalar("mem", 32)], "limits": {"cpus": {"value": 1}}},
    "limit of GPUs": {**using(scalar("gpus", 1)), "limits": {"gpus": {"value": 1}}},
    "revocable and not": using(scalar("cpus", 0.1, revocable={})),
    "another role's": using(scalar("disk", 1, role="other")),
    "another role's by reservation": using(scalar("disk", 1, reservations=[{"type": "DYNAMIC", "role": "other"}])),
    "two roles'": using(scalar("disk", 1, allocation_info={"role": "other"})),
    "unreserved volume": using(
        scalar("disk", 1, disk={"persistence": {"id": "x"}, "volume": {"mode": "RW", "container_path": "c"}})
    ),
    "volume that goes": using(scalar("disk", 1, disk={"volume": {"mode": "RW", "container_path": "c"}})),
    "shared disk": using(scalar("disk", 1, shared={})),
    "cgroups of its own": linux(share_cgroups=False),
}
EXECUTOR = {
    "executor_id": {"value": "default"},
    "type": "DEFAULT",
    "resources": [*LEAST, scalar("disk", 32)],
}
GROUPS: Mapping[str, tuple[Document, Document]] = {
    "half a GPU": ({}, using(scalar("gpus", 0.5))),
    "less than nothing": ({}, using(scalar("gpus", -1))),
    "more than there is": ({}, using(scalar("gpus", 3))),
    "executor with less than nothing": ({"resources": [scalar("cpus", -1)]}, {}),
    "executor of no kind": ({"type": None, "command": {"value": "true"}}, {}),
    "executor of unknown kind": ({"type": "UNKNOWN"}, {}),
    "executor with a command": ({"command": {"value": "true"}}, {}),
    "executor of Docker": ({"container": {"type": "DOCKER", "docker": {"image": "i"}}}, {}),
    "executor with an image": ({"container": {"type": "MESOS", "mesos": {"image": {"type": "DOCKER"}}}}, {}),
    "executor without cpus": ({"resources": [scalar("mem", 32), scalar("disk", 32)]}, {}),
    "executor without memory": ({"resources": [scalar("cpus", 0.1), scalar("disk", 32)]}, {}),
    "executor with little memory": ({"resources": [scalar("cpus", 0.1), scalar("mem", 8), scalar("disk", 32)]}, {}),
    "executor without disk": ({"resources": LEAST}, {}),
    "executor of nobody": ({"framework_id": None}, {}),
    "executor that shares": (linux(share_cgroups=True), {}),
    "Docker": ({}, {"container": {"type": "DOCKER", "docker": {"image": "i"}}}),
    "health from afar": (
        {},
        {"container": {"type": "MESOS", "network_infos": [{"name": "n"}]}, **healthy("TCP", **TCP)},
    ),
    "limits": ({}, {"limits": {"cpus": {"value": 1}}}),
    "variable": ({}, variable()),
    "name": ({}, {"task_id": {"value": "c/d"}}),
    "another executor": ({}, {"executor": {**EXECUTOR, "executor_id": {"value": "other"}}}),
}


def changed(document: Document, change: Mapping[str, Any]) -> Document:
    merged = {**document, **change}
    return {key: value for key, value in merged.items() if value is not None}


def launches(agent_id: str, framework_id: str) -> list[Document]:
    """Return an operation for each case: all are refused, so one offer of two GPUs is enough for them."""
    found: list[Document] = []
    for name, change in TASKS.items():
        info = changed(_task(agent_id, f"task {name}"), change)
        if "executor" in info:
            info["executor"] = changed(info["executor"], {})
        found.append({"type": "LAUNCH", "launch": {"task_infos": [info]}})
    for name, (of_executor, of_task) in GROUPS.items():
        executor = changed({**EXECUTOR, "framework_id": {"value": framework_id}}, of_executor)
        info = changed(_task(agent_id, f"group {name}"), of_task)
        group = {"executor": executor, "task_group": {"tasks": [info]}}
        found.append({"type": "LAUNCH_GROUP", "launch_group": group})
    return found


def _task(agent_id: str, name: str) -> Document:
    named = {"name": name, "task_id": {"value": name}, "agent_id": {"value": agent_id}}
    return {**named, "resources": LEAST, "command": {"value": "true"}}


def refusal(status: Document, agent_id: str, framework_id: str) -> list[str | None]:
    """Return how a task is refused, without what is not the same twice: ids, and how much there was."""
    text = str(status.get("message")).replace(framework_id, "FRAMEWORK").replace(agent_id, "AGENT")
    shown = re.sub(r"(more than available) .*", r"\1", text)
    return [status["state"], status.get("source"), status.get("reason"), shown]
