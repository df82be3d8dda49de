"""TaskStatus documents (v1), as the command executor and the agent of Mesos fill them in."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.network_infos import networks_of
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.agent.model.verdict import AGENT, EXECUTOR, Verdict
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import AgentId, ContainerId, ExecutorId, TaskId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.tasks import is_terminal
from mesos_gpu.mesos.units import MIB

_LIMITATIONS = {"mem": "REASON_CONTAINER_LIMITATION_MEMORY", "disk": "REASON_CONTAINER_LIMITATION_DISK"}


def make_status(
    verdict: Verdict,
    *,
    task_id: TaskId,
    agent_id: AgentId,
    executor_id: ExecutorId | None,
    uuid: str | None,
    wall_s: float,
    container: Document | None = None,
) -> TaskStatus:
    """Return the TaskStatus of a verdict. `uuid` (base64 of 16 bytes) asks for an acknowledgement."""
    status: TaskStatus = {"task_id": {"value": task_id}, "state": verdict.state}
    if verdict.message is not None:
        status["message"] = verdict.message
    status["source"] = verdict.source
    if verdict.reason is not None:
        status["reason"] = verdict.reason
    status["agent_id"] = {"value": agent_id}
    if executor_id is not None:
        status["executor_id"] = {"value": executor_id}
    status["timestamp"] = wall_s
    if uuid is not None:
        status["uuid"] = uuid
    if container is not None and verdict.source == EXECUTOR:
        status["container_status"] = container
    if verdict.limitation is not None:
        status["limitation"] = verdict.limitation
    return status


def hosted_status(
    said: TaskStatus, task: Task, *, agent_id: AgentId, networks: Sequence[Document], pid: int | None, wall_s: float
) -> TaskStatus:
    """Return what an executor said of a task, with what the agent adds: who it is, and what it knows of the container.

    An executor that names a container of its own (a nested one) is believed; that container may be gone already.
    """
    status: TaskStatus = {**said, "agent_id": {"value": agent_id}}
    status.setdefault("timestamp", wall_s)
    given = dict(said.get("container_status") or {})
    own = given.get("container_id", {}).get("value", task.container_id) == task.container_id
    if own and task.container_id is not None:
        status["container_status"] = {**container_status(task.container_id, networks, pid), **given}
    elif not is_terminal(said["state"]):
        status["container_status"] = {"network_infos": list(networks), **given}
    return status


def network_infos(info: Mapping[str, Any], joined: Sequence[Document], identity: Identity) -> list[Document]:
    """Return the networks of the container of a task, or executor, with its addresses: the agent's in the host's.

    One that joins others has none before it runs.
    """
    if joined or networks_of(info):
        return list(joined)
    return [{"ip_addresses": [{"ip_address": identity.ip}]}]


def container_status(container_id: ContainerId, networks: Sequence[Document], pid: int | None) -> Document:
    """Return the ContainerStatus of a command task. `executor_pid` is the container's init, once there is one."""
    status: Document = {"container_id": {"value": container_id}}
    if networks:
        status["network_infos"] = list(networks)
    if pid is not None:
        status["executor_pid"] = pid
    return status


def verdict_of(ending: Termination) -> Verdict:
    """Return what a container's end means for a task that nobody asked to end."""
    if ending.disk_limit_bytes is not None:
        return _limited("disk", ending.disk_limit_bytes, ending.message or "Disk quota exceeded")
    if ending.oom:
        return _memory_limit(ending)
    message = how_it_ended(ending)
    if message is None:
        return Verdict(
            "TASK_FAILED",
            AGENT,
            "REASON_EXECUTOR_TERMINATED",
            ending.message or "The container ended, and its exit status is not known: its supervisor had ended",
        )
    return Verdict("TASK_FINISHED" if ending.exit_code == 0 else "TASK_FAILED", message=message)


def how_it_ended(ending: Termination) -> str | None:
    """Return the words of the command executor for an end, None when it is unknown."""
    if ending.signal is not None:
        name = signal.strsignal(ending.signal) if 0 < ending.signal < signal.NSIG else None
        return f"Command terminated with signal {name or ending.signal}"
    if ending.exit_code is not None:
        return f"Command exited with status {ending.exit_code}"
    return None


def _memory_limit(ending: Termination) -> Verdict:
    limit_mib = (ending.mem_limit_bytes or 0) // MIB
    message = ending.message or f"Memory limit exceeded: Requested: {limit_mib}MB Maximum Used: {limit_mib}MB"
    return _limited("mem", ending.mem_limit_bytes, message)


def _limited(name: str, limit_bytes: int | None, message: str) -> Verdict:
    """Return what is said of a container that was ended for a resource, of which it had so many bytes."""
    limitation: Document | None = None
    if limit_bytes:
        limit = {"name": name, "type": "SCALAR", "scalar": {"value": limit_bytes / MIB}}
        limitation = {"resources": [limit]}
    return Verdict("TASK_FAILED", AGENT, _LIMITATIONS[name], message, limitation)
