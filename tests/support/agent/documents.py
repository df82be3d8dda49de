"""Documents that the agent's tests share, as a v1 master would send them."""

from __future__ import annotations

import base64
import itertools
from typing import Any

from mesos_gpu.agent.decisions.state import AgentState, FreshIds
from mesos_gpu.agent.model.events import Identity, RunTask
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.uuids import random_uuid

AGENT_ID = "e21bee5b-d554-4516-b5c2-672e37e2490c-S0"
FRAMEWORK_ID = "e21bee5b-d554-4516-b5c2-672e37e2490c-0000"
IDENTITY = Identity(AGENT_ID, "slave(1)@127.0.0.1:5051", "127.0.0.1", 5051, "/var/lib/mesos")
VERSION = base64.b64encode(random_uuid(b"v" * 16)).decode()
ALL_CAPABILITIES = ("MULTI_ROLE", "GPU_RESOURCES", "PARTITION_AWARE", "TASK_KILLING_STATE")


def framework(
    *capabilities: str, checkpoint: bool = True, framework_id: str = FRAMEWORK_ID, **more: Any
) -> dict[str, Any]:
    return {
        "user": "root",
        "name": "test",
        "id": {"value": framework_id},
        "failover_timeout": 100.0,
        "checkpoint": checkpoint,
        "hostname": "localhost",
        "capabilities": [{"type": name} for name in capabilities],
        **more,
    }


def scalar(name: str, value: float, role: str = "*") -> dict[str, Any]:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, "allocation_info": {"role": role}}


def task(task_id: str = "t1", line: str = "sleep 1", *, gpus: float = 0, **more: Any) -> dict[str, Any]:
    resources = [scalar("cpus", 0.5), scalar("mem", 64.0)]
    if gpus:
        resources.append(scalar("gpus", float(gpus)))
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": {"value": AGENT_ID},
        "resources": resources,
        "command": {"value": line},
        **more,
    }


def run(*tasks: dict[str, Any], info: dict[str, Any] | None = None, **more: Any) -> RunTask:
    return RunTask(info or framework(), tasks or (task(),), VERSION, **more)


def key(task_id: str = "t1", framework_id: str = FRAMEWORK_ID) -> TaskKey:
    return TaskKey(framework_id, task_id)


def new_state(start: int = 0, *, identity: Identity = IDENTITY) -> AgentState:
    """Return a state whose uuids and container ids count up from `start`."""
    numbers, containers = itertools.count(start), itertools.count(start)
    return AgentState(
        identity,
        VERSION,
        FreshIds(
            lambda: base64.b64encode(random_uuid(next(numbers).to_bytes(16, "big"))).decode(),
            lambda: f"c{next(containers)}",
        ),
    )


def at(mono_s: float = 0.0) -> Moment:
    return Moment(mono_s, 1_795_000_000.0 + mono_s)
