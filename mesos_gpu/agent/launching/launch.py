"""From a TaskInfo to what its container needs, as the agent and the command executor of Mesos decide it.

Source: Mesos src/slave/slave.cpp (getExecutorInfo, executorEnvironment), src/launcher/executor.cpp.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Any

from mesos_gpu.agent.launching import volume_aliases
from mesos_gpu.agent.launching.executor_size import disk_bytes
from mesos_gpu.agent.launching.shares import share_of
from mesos_gpu.agent.launching.task_limits import read_settings
from mesos_gpu.agent.launching.terminal import read_terminal
from mesos_gpu.agent.launching.variables import read_secret, read_variables
from mesos_gpu.agent.model import cdi_names
from mesos_gpu.agent.model.container_logger import ContainerLogger, limits_of
from mesos_gpu.agent.model.device_units import units_of
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.fetch_uris import read_uris
from mesos_gpu.agent.model.network_infos import networks_of
from mesos_gpu.agent.model.paths import sandbox_path, volume_path
from mesos_gpu.container.spec.config import ContainerConfig, ImageAsk, Secret, Volume
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.ids import ContainerId, Role
from mesos_gpu.mesos.resource import Document, Resource, ResourceDocument
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.units import MIB, format_duration

SHELL = "/bin/sh"
# What the command executor itself is given on top of the task (slave/constants.hpp, DEFAULT_EXECUTOR_CPUS, _MEM).
OVERHEAD_CPUS_MILLI = 100
OVERHEAD_MEM_MIB = 32
DEFAULT_SHUTDOWN_GRACE_S = 5.0
DEFAULT_KILL_GRACE_S = 3.0
LEAST_GRACE_S = 0.05
"""Even without grace Mesos sends SIGTERM first, and it is what ends most tasks before SIGKILL comes."""
RECOVERY_TIMEOUT = "15mins"
SUBSCRIPTION_BACKOFF_MAX = "2secs"
# The executor gives its task the shutdown grace less one interval of reaping and one of its own.
_EXECUTOR_MARGIN_S = 2.0

_NO_DOCKER = (
    "None of the enabled containerizers (mesos) could create a container for the provided "
    "TaskInfo/ExecutorInfo message; ask for container type MESOS"
)


def refusal(task: Mapping[str, Any], logger: ContainerLogger | None = None) -> str | None:
    """Return why a task with a command cannot be run here at all, in words for its owner; None when it can be tried.

    Tasks with an executor of their own are judged with it: `executor_launch.refusal`. `logger` is the agent's.
    """
    command = task.get("command")
    if command is None:
        return "The task has no command"
    try:
        read_uris(command)
        read_variables(command)
        read_settings(task)
        limits_of(logger, command)
    except BadInput as error:
        return str(error)
    if not command.get("value") and (command.get("shell", True) or image_of(task) is None):
        return "The command has no value, so there is nothing to run"
    return _container_refusal(task.get("container") or {}) or _volumes_refusal(task)


def task_container(
    identity: Identity,
    framework: Mapping[str, Any],
    task: Mapping[str, Any],
    container_id: ContainerId,
    in_use: Collection[str] = (),
) -> ContainerConfig:
    """Return the container of a command task, executor overhead included. The task has no `refusal`.

    `in_use` are folders of shared volumes that others use; their owner stays.
    """
    command, container = task["command"], task.get("container") or {}
    volumes, (terminal, window) = container.get("volumes", ()), read_terminal(container)
    resources = Resources.from_json(task.get("resources", []))
    sandbox = sandbox_path(
        identity.work_dir, identity.agent_id, framework["id"]["value"], task["task_id"]["value"], container_id
    )
    persistent = tuple(persistent_volumes(identity.work_dir, task.get("resources", ()), in_use))
    image = _image(identity, task)
    inside = sandbox if image is None else image.sandbox
    environment, networks = _environment(identity, framework, task, sandbox, inside), networks_of(task)
    if networks:
        environment["LIBPROCESS_IP"] = "0.0.0.0"  # the agent's is not an address there  # nosec B104
    if image is not None:
        del environment["PATH"]  # the host's, which is not the image's
    return ContainerConfig(
        container_id=container_id,
        sandbox=Path(sandbox),
        argv=_argv(command) if image is None else (),
        environment={**environment, **read_variables(command)},
        user=(command.get("user") or framework.get("user") or None) if identity.switch_user else None,
        cpus_milli=resources.milli("cpus") + OVERHEAD_CPUS_MILLI,
        mem_bytes=resources.milli("mem") * MIB // 1000 + OVERHEAD_MEM_MIB * MIB,
        gpus=resources.gpus if identity.gpus_from is None else 0,
        image=image,
        volumes=(*volume_aliases.shown(map(_volume, filterfalse(_is_secret, volumes)), persistent), *persistent),
        disk_bytes=disk_bytes(task),
        secrets=tuple(_secret(volume) for volume in volumes if _is_secret(volume)),
        linux=read_settings(task, more_cpus_milli=OVERHEAD_CPUS_MILLI, more_mem_bytes=OVERHEAD_MEM_MIB * MIB),
        terminal=terminal,
        window=window,
        networks=networks,
        hostname=container.get("hostname") or None,
        output=limits_of(identity.logger, command),
        labels={str(label["key"]): str(label.get("value", "")) for label in _labels(task)},
        share=share_of([task]),
        device_units=units_of(resources, identity.gpus_from),
        cdi_devices=cdi_names.asked([task]),
        host_users=identity.exits.takes(task),
    )


def persistent_volumes(
    work_dir: str, resources: Sequence[Mapping[str, Any]], in_use: Collection[str] = ()
) -> Iterator[Volume]:
    """Yield what a task sees of the persistent volumes among its resources.

    Source: Mesos src/slave/containerizer/mesos/isolators/filesystem/linux.cpp.
    """
    for resource in map(Resource.from_json, resources):
        how = resource.disk.get("volume")
        if resource.persistence_id is not None and how is not None:
            source = volume_path(work_dir, resource.role, resource.persistence_id)
            read_only = how.get("mode", "RW") == "RO"
            yield Volume(source, str(how["container_path"]), read_only, owned=True, in_use=source in in_use)


def image_of(task: Mapping[str, Any]) -> str | None:
    """Return the name of the image that a task runs in, None for the host's files."""
    image = ((task.get("container") or {}).get("mesos") or {}).get("image")
    return None if image is None else str((image.get("docker") or {}).get("name", ""))


def may_take_long(task: Mapping[str, Any]) -> bool:
    """Return whether a launch has to get something from elsewhere first."""
    return image_of(task) is not None or bool((task.get("command") or {}).get("uris"))


def executor_resources(task: Mapping[str, Any]) -> list[ResourceDocument]:
    """Return the resources of the command executor itself, allocated to the role of its task."""
    own = Resources.parse(f"cpus:{OVERHEAD_CPUS_MILLI / 1000};mem:{OVERHEAD_MEM_MIB}")
    role = role_of(task)
    return (own if role is None else own.allocated(role)).to_json(refined=True)


def executor_name(task: Mapping[str, Any]) -> str:
    """Return the name that Mesos gives the executor of a command task; long commands are cut to 12 characters."""
    command = task.get("command") or {}
    if command.get("shell", True):
        text = str(command.get("value", ""))
        shown = f"sh -c '{text if len(text) <= 15 else text[:12] + '...'}'"
    else:
        text = " ".join([str(command.get("value", "")), *command.get("arguments", [])])
        shown = text if len(text) <= 15 else text[:12] + "..."
    return f"Command Executor (Task: {task['task_id']['value']}) (Command: {shown})"


def role_of(task: Mapping[str, Any]) -> Role | None:
    """Return the role that the task's resources are allocated to."""
    for resource in task.get("resources", ()):
        role = (resource.get("allocation_info") or {}).get("role")
        if role is not None:
            return Role(role)
    return None


def grace_s(policy: Mapping[str, Any] | None) -> float | None:
    """Return the seconds of a KillPolicy, None when it names none."""
    grace = (policy or {}).get("grace_period")
    return None if grace is None else max(0.0, int(grace["nanoseconds"]) / 1e9)


def shutdown_grace_s(task: Mapping[str, Any]) -> float:
    """Return how long a task may take to end when its framework is shut down."""
    own = grace_s(task.get("kill_policy"))
    return DEFAULT_SHUTDOWN_GRACE_S - _EXECUTOR_MARGIN_S if own is None else own


def max_completion_s(task: Mapping[str, Any]) -> float | None:
    """Return how long a task may run, None forever."""
    duration = task.get("max_completion_time")
    return None if duration is None else int(duration["nanoseconds"]) / 1e9


def _argv(command: Mapping[str, Any]) -> tuple[str, ...]:
    value = str(command["value"])
    if command.get("shell", True):
        return SHELL, "-c", value
    # arguments[0] is argv[0] by convention; an OCI process has one field for both it and the file to execute.
    return value, *(str(argument) for argument in command.get("arguments", [])[1:])


def _environment(
    identity: Identity, framework: Mapping[str, Any], task: Mapping[str, Any], sandbox: str, inside: str
) -> dict[str, str]:
    checkpoint = bool(framework.get("checkpoint"))
    own_grace_s = grace_s(task.get("kill_policy"))
    shutdown_s = DEFAULT_SHUTDOWN_GRACE_S if own_grace_s is None else own_grace_s + _EXECUTOR_MARGIN_S
    environment = {
        "LIBPROCESS_IP": identity.ip,
        "LIBPROCESS_PORT": "0",
        "MESOS_AGENT_ENDPOINT": f"{identity.ip}:{identity.port}",
        "MESOS_CHECKPOINT": "1" if checkpoint else "0",
        "MESOS_DIRECTORY": sandbox,
        "MESOS_EXECUTOR_ID": task["task_id"]["value"],
        "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": format_duration(shutdown_s),
        "MESOS_FRAMEWORK_ID": framework["id"]["value"],
        "MESOS_HTTP_COMMAND_EXECUTOR": "0",
        "MESOS_SANDBOX": inside,
        "MESOS_SLAVE_ID": identity.agent_id,
        "MESOS_SLAVE_PID": identity.pid,
    }
    environment = {"PATH": identity.path, **identity.executor_environment, **environment}
    role = role_of(task)
    if role is not None:
        environment["MESOS_ALLOCATION_ROLE"] = role
    if checkpoint:
        environment["MESOS_RECOVERY_TIMEOUT"] = RECOVERY_TIMEOUT
        environment["MESOS_SUBSCRIPTION_BACKOFF_MAX"] = SUBSCRIPTION_BACKOFF_MAX
    return environment


def _container_refusal(container: Mapping[str, Any]) -> str | None:
    if container.get("type", "MESOS") != "MESOS":
        return _NO_DOCKER
    image = (container.get("mesos") or {}).get("image")
    if image is not None and image.get("type") != "DOCKER":
        return f"Images of type {image.get('type')} are not supported: only DOCKER"
    if image is not None and not (image.get("docker") or {}).get("name"):
        return "The image has no name"
    if image is not None and (image["docker"].get("credential") or image["docker"].get("config")):
        return "Credentials of a task for its image are not supported yet: the agent's --docker_config has them"
    return next(filter(None, map(_volume_refusal, container.get("volumes", ()))), None)


def _volumes_refusal(task: Mapping[str, Any]) -> str | None:
    volumes = (task.get("container") or {}).get("volumes", ())
    persistent = persistent_volumes("/", task.get("resources", ()))
    return volume_aliases.problem(map(_volume, filterfalse(_is_secret, volumes)), persistent)


def _volume_refusal(volume: Mapping[str, Any]) -> str | None:
    where = f"The volume at {volume.get('container_path')}"
    source = volume.get("source") or {}
    if "image" in volume:
        return f"{where}: volumes of images are not supported yet"
    kind = source.get("type", "HOST_PATH" if "host_path" in source else "SANDBOX_PATH")
    if kind == "SECRET":
        return _secret_refusal(volume)
    if source and kind not in ("HOST_PATH", "SANDBOX_PATH"):
        return f"{where}: volumes of type {kind} are not supported yet: only HOST_PATH, SANDBOX_PATH and SECRET"
    if (source.get("sandbox_path") or {}).get("type", "SELF") != "SELF":
        return f"{where}: a parent's sandbox is only there for the tasks of a group"
    if not volume.get("container_path") or not _source_path(volume):
        return f"{where}: both paths, of the host and of the container, are needed"
    return None


def _secret_refusal(volume: Mapping[str, Any]) -> str | None:
    try:
        _secret(volume)
    except BadInput as error:
        return str(error)
    return None if volume.get("container_path") else "The volume of a secret has no container_path"


def _secret(volume: Mapping[str, Any]) -> Secret:
    path = str(volume.get("container_path", ""))
    return Secret(path, read_secret((volume.get("source") or {}).get("secret") or {}, f"the volume at {path}"))


def _is_secret(volume: Mapping[str, Any]) -> bool:
    return (volume.get("source") or {}).get("type") == "SECRET"


def _source_path(volume: Mapping[str, Any]) -> str:
    source = volume.get("source") or {}
    path = (source.get("host_path") or source.get("sandbox_path") or {}).get("path")
    return str(volume.get("host_path") or path or "")


def _volume(volume: Mapping[str, Any]) -> Volume:
    return Volume(_source_path(volume), str(volume["container_path"]), volume.get("mode", "RW") == "RO")


def _labels(task: Mapping[str, Any]) -> list[Document]:
    return list((task.get("labels") or {}).get("labels", []))


def _image(identity: Identity, task: Mapping[str, Any]) -> ImageAsk | None:
    name, command = image_of(task), task["command"]
    if name is None:
        return None
    image = task["container"]["mesos"]["image"]
    arguments = tuple(map(str, command.get("arguments", ())))
    asked = Command(command.get("shell", True), command.get("value"), arguments)
    return ImageAsk(
        name,
        asked,
        sandbox=identity.sandbox_directory,
        cached=image.get("cached", True),
        # A framework's user is whoever started the framework; a command's was chosen for this task.
        user_wins="user" in command,
    )
