"""From an operator's call about containers to what the containerizer is asked, and back. Touches nothing.

Source: Mesos src/slave/{http,validation}.cpp, src/slave/containerizer/mesos/{containerizer,paths}.cpp.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.launching.task_limits import read_settings
from mesos_gpu.agent.launching.terminal import read_terminal
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.container.spec.config import ContainerConfig, SessionConfig, Termination, Volume
from mesos_gpu.container.spec.nesting import is_nested, leaf
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput, MesosGpuError
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.units import MIB

CONTAINERS = "containers"
"""The folder of nested sandboxes in a sandbox, and of standalone ones in the work_dir."""
NOT_ALLOWED = set(" ./")
MAX_DEPTH = 32


def container_name(container_id: Mapping[str, Any]) -> ContainerId:
    """Return a ContainerID as Mesos prints it: its parents' values and its own between dots."""
    parts: list[str] = []
    at: Mapping[str, Any] | None = container_id
    while at is not None:
        parts.append(str(at["value"]))
        at = at.get("parent")
    return ContainerId(".".join(reversed(parts)))


def container_id_of(name: str) -> Document:
    """Return the ContainerID of a name."""
    document: Document = {}
    for part in name.split("."):
        document = {"value": part, "parent": document} if document else {"value": part}
    return document


def id_problem(container_id: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a ContainerID, None when nothing is (validation.cpp, validateContainerId)."""
    at: Mapping[str, Any] | None = container_id
    for _ in range(MAX_DEPTH):
        if at is None:
            return None
        value = str(at.get("value", ""))
        if not value:
            return "'ContainerID.value' must be non-empty"
        if any(c in NOT_ALLOWED or not c.isprintable() for c in value):
            return f"'ContainerID.value' '{value}' contains invalid characters"
        at = at.get("parent")
    return f"a container {MAX_DEPTH} levels deep"


def container_config(
    identity: Identity,
    call: Mapping[str, Any],
    *,
    parent_sandbox: str | None,
    parent_user: str | None,
    parent_volumes: Sequence[Volume] = (),
) -> ContainerConfig:
    """Return the container that LAUNCH_CONTAINER or LAUNCH_NESTED_CONTAINER asks for; without a parent, a standalone.

    `parent_volumes` are persistent ones that the parent has in its sandbox. Raises BadInput with why it cannot be.
    """
    name = container_name(call["container_id"])
    command, container = dict(call.get("command") or {}), dict(call.get("container") or {})
    sandbox = sandbox_of(identity.work_dir, name, parent_sandbox)
    if "volumes" in container:
        container["volumes"] = [_in_parent(volume, parent_sandbox, parent_volumes) for volume in container["volumes"]]
    if "user" not in command and parent_user is not None:
        command["user"] = parent_user
    task: Document = {
        "task_id": {"value": leaf(name)},
        "command": command,
        "container": container,
        "resources": [
            resource for resource in call.get("resources", ()) if not is_nested(name) or "disk" not in resource
        ],
        "limits": call.get("limits") or {},
    }
    problem = launch.refusal(task, identity.logger)
    if problem is not None:
        raise BadInput(problem)
    resources = _resources(task["resources"])
    config = launch.task_container(identity, {"id": {"value": ""}}, task, name)
    own = {str(v["name"]) for v in (command.get("environment") or {}).get("variables", ())}
    environment = {key: value for key, value in config.environment.items() if key in own or key == "PATH"}
    environment["MESOS_SANDBOX"] = sandbox if config.image is None else config.image.sandbox
    image = config.image
    if image is not None:
        image = replace(image, user_wins="user" in (call.get("command") or {}))
    return replace(
        config,
        sandbox=Path(sandbox),
        environment=environment,
        cpus_milli=resources.milli("cpus"),
        mem_bytes=resources.milli("mem") * MIB // 1000,
        gpus=0 if is_nested(name) else resources.gpus,
        image=image,
        shares_cgroup=(container.get("linux_info") or {}).get("share_cgroups", True),
        standalone=not is_nested(name),
        disk_bytes=0 if is_nested(name) else config.disk_bytes,
        linux=read_settings(task),
    )


def session_config(call: Mapping[str, Any]) -> SessionConfig:
    """Return the session that LAUNCH_NESTED_CONTAINER_SESSION asks for. Raises BadInput."""
    command = call.get("command") or {}
    problem = launch.refusal({"task_id": {"value": "session"}, "command": command}) if command else "no command"
    if problem is not None:
        raise BadInput(problem)
    container = call.get("container") or {}
    for field in ("volumes", "mesos", "network_infos"):
        if container.get(field):
            raise BadInput(f"a session is in its parent's container and can have no '{field}' of its own")
    terminal, window = read_terminal(container)
    variables = (command.get("environment") or {}).get("variables", ())
    return SessionConfig(
        container_name(call["container_id"]),
        Command(command.get("shell", True), command.get("value"), tuple(map(str, command.get("arguments", ())))),
        environment={str(variable["name"]): str(variable.get("value", "")) for variable in variables},
        user=command.get("user"),
        terminal=terminal,
        window=window,
    )


def sandbox_of(work_dir: str, name: ContainerId, parent_sandbox: str | None) -> str:
    """Return the sandbox of a container: in its parent's, or with the standalone ones."""
    return str(PurePosixPath(parent_sandbox or work_dir) / CONTAINERS / leaf(name))


def seen_of_parent(
    config: ContainerConfig, parent_sandbox: str, parent_volumes: Sequence[Volume]
) -> list[tuple[str, str]]:
    """Return what volumes of a nested container show of its parent's, each with the folder that it may not lead out of.

    That is the parent's sandbox, or the persistent volume that it has there.
    """
    around = [volume.source for volume in parent_volumes] + [parent_sandbox]
    found = []
    for volume in config.volumes:
        source = PurePosixPath(volume.source)
        home = next((folder for folder in around if source.is_relative_to(folder)), None)
        if home is not None and not source.is_relative_to(config.sandbox):
            found.append((volume.source, home))
    return found


def wait_shown(end: Termination) -> Document:
    """Return what WAIT_CONTAINER answers: the raw wait status of its first process, and why it was ended."""
    shown: Document = {}
    if end.signal is not None:
        shown["exit_status"] = end.signal
    elif end.exit_code is not None:
        shown["exit_status"] = end.exit_code << 8
    if end.oom:
        shown["state"] = "TASK_FAILED"
        shown["reason"] = "REASON_CONTAINER_LIMITATION_MEMORY"
        if end.mem_limit_bytes is not None:
            scalar = {"value": end.mem_limit_bytes / MIB}
            shown["limitation"] = {"resources": [{"name": "mem", "type": "SCALAR", "scalar": scalar}]}
    if end.disk_limit_bytes is not None:
        shown["state"] = "TASK_FAILED"
        shown["reason"] = "REASON_CONTAINER_LIMITATION_DISK"
        scalar = {"value": end.disk_limit_bytes / MIB}
        shown["limitation"] = {"resources": [{"name": "disk", "type": "SCALAR", "scalar": scalar}]}
    if end.message is not None:
        shown["message"] = end.message
    return shown


def signal_of(call: Mapping[str, Any]) -> int:
    """Return the signal that KILL_CONTAINER asks for."""
    return int(call.get("signal", signals.SIGKILL))


def _resources(documents: list[Document]) -> Resources:
    try:
        resources = Resources.from_json(documents)
    except MesosGpuError as error:
        raise BadInput(str(error)) from None
    if resources.milli("gpus") % 1000:
        raise BadInput("The 'gpus' resource must be an unsigned integer")
    return resources


def _in_parent(
    volume: Mapping[str, Any], parent_sandbox: str | None, parent_volumes: Sequence[Volume]
) -> Mapping[str, Any]:
    """Return a volume of the parent's sandbox as one of the host; what lies in a volume of the parent's, from there."""
    path = (volume.get("source") or {}).get("sandbox_path") or {}
    if path.get("type") != "PARENT":
        return volume
    if parent_sandbox is None:
        raise BadInput("a standalone container has no parent whose sandbox it could see")
    source = PurePosixPath(str(path.get("path", "")))
    if source.is_absolute() or ".." in source.parts or not source.parts:
        raise BadInput(f"the path {str(source)!r} does not lead into the parent's sandbox")
    kept = {name: value for name, value in volume.items() if name != "source"}
    for theirs in parent_volumes:
        if source.is_relative_to(theirs.destination):
            mode = {"mode": "RO"} if theirs.read_only else {}
            inside = source.relative_to(theirs.destination)
            return {**kept, **mode, "host_path": str(PurePosixPath(theirs.source) / inside)}
    return {**kept, "host_path": str(PurePosixPath(parent_sandbox) / source)}
