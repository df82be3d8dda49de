"""From an ExecutorInfo to what its container needs. Pure.

An executor's container is that of a command task with the executor's command: what holds for those (user, volumes,
image, URIs) holds here, too. Source: Mesos src/slave/slave.cpp (executorEnvironment, launchExecutor).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.launching.executor_size import executor_size
from mesos_gpu.agent.launching.shares import share_of
from mesos_gpu.agent.launching.variables import read_variables
from mesos_gpu.agent.model import cdi_names
from mesos_gpu.agent.model.device_units import units_of
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.executors import DEFAULT, Executor, ExecutorKey, ExecutorPatience
from mesos_gpu.agent.model.fetch_uris import Item, read_uris
from mesos_gpu.agent.model.paths import is_path_safe, sandbox_path
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.container.spec.config import ContainerConfig, Size, Volume
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.authentication import EXECUTOR_TOKEN, make_token
from mesos_gpu.mesos.units import format_duration


def refusal(identity: Identity, info: Mapping[str, Any]) -> str | None:
    """Return why an executor cannot be run by this agent at all; None when it can be tried."""
    if not is_path_safe(info["executor_id"]["value"]):
        return "The executor id cannot be the name of a folder"
    if info.get("type") == DEFAULT:
        if "command" in info:
            return "The default executor brings its own command"
        if not identity.default_executor:
            return "This agent has no default executor"
    elif "command" not in info:
        return "The executor has no command"
    return launch.refusal(_as_task(info, identity.default_executor), identity.logger)


def executor_container(
    identity: Identity,
    framework: Mapping[str, Any],
    executor: Executor,
    tasks: Iterable[Task],
    patience: ExecutorPatience,
    in_use: Collection[str] = (),
) -> ContainerConfig:
    """Return the container of an executor, with room for the tasks that wait for it.

    `in_use` as for a command task.
    """
    info = executor.info
    task = _as_task(info, identity.default_executor)
    config = launch.task_container(identity, framework, task, executor.container_id, in_use)
    environment = dict(config.environment)
    environment.pop("MESOS_ALLOCATION_ROLE", None)  # of tasks only
    if not framework.get("checkpoint"):
        # Mesos says "0"; pymesos' driver takes any text for a yes, and would not end with the agent.
        del environment["MESOS_CHECKPOINT"]
    else:
        environment["MESOS_RECOVERY_TIMEOUT"] = format_duration(patience.recovery_s)
    environment["MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD"] = format_duration(shutdown_grace_s(info, patience))
    if identity.domain_socket and config.image is None and (config.networks or identity.domain_socket_for_all):
        environment["MESOS_DOMAIN_SOCKET"] = identity.domain_socket
    elif info.get("type") == DEFAULT:
        # Ours, so it is told; others are told by --executor_environment_variables, as on Mesos.
        environment = {**identity.tls_environment, **environment}
    environment.update(read_variables(info.get("command") or {}))
    if identity.executor_key is not None:
        claims = {"fid": executor.key.framework, "eid": executor.key.executor, "cid": executor.container_id}
        environment[EXECUTOR_TOKEN] = make_token(claims, identity.executor_key)
    tasks = list(tasks)
    room = size(identity, executor, tasks)
    own = Resources.from_json(info.get("resources", []))
    together = sum((Resources.from_json(task.info.get("resources", [])) for task in tasks), own)
    theirs = (volume for task in tasks for volume in _volumes(identity, task.info, in_use))
    return replace(
        config,
        environment=environment,
        cpus_milli=room.cpus_milli,
        mem_bytes=room.mem_bytes,
        gpus=room.gpus,
        share=share_of([info, *(task.info for task in tasks)], group=info.get("type") == DEFAULT),
        volumes=_once((*config.volumes, *theirs)),
        labels=_labels(info),
        device_units=units_of(together, identity.gpus_from),
        cdi_devices=cdi_names.asked([info, *(task.info for task in tasks)]),
        disk_bytes=room.disk_bytes,
        linux=replace(config.linux, cpus_limit_milli=room.cpus_limit_milli, mem_limit_bytes=room.mem_limit_bytes),
    )


def fetched(info: Mapping[str, Any]) -> tuple[Item, ...]:
    """Return what is fetched into an executor's sandbox; the default executor brings what it needs."""
    return read_uris(info.get("command") or {})


def late_volume(
    identity: Identity, executor: Executor, tasks: Iterable[Mapping[str, Any]], live: Iterable[Task] = ()
) -> str | None:
    """Return why tasks cannot join an executor that runs: it has not the persistent volumes that they need.

    It has its own, and those that a `live` task of it shares, at the same path; a task that has ended may have had one
    that was destroyed since, and made again under its name.
    """
    infos = (executor.info, *(task.info for task in live if task.phase is not Phase.OVER))
    there = [volume for info in infos for volume in _volumes(identity, info)]
    missing = next((v for task in tasks for v in _volumes(identity, task) if not _is_there(v, there)), None)
    if missing is None:
        return None
    return (
        f"The executor runs already and cannot be given the persistent volume at {missing.destination}: "
        "name it among the executor's own resources"
    )


def size(identity: Identity, executor: Executor, tasks: Iterable[Task]) -> Size:
    """Return how large the container of an executor with these tasks has to be."""
    return executor_size(executor.info, [task.info for task in tasks], cfs_quota=identity.cfs_quota)


def sandbox(identity: Identity, key: ExecutorKey, container_id: ContainerId) -> str:
    """Return the sandbox of a run of an executor."""
    return sandbox_path(identity.work_dir, identity.agent_id, key.framework, key.executor, container_id)


def shutdown_grace_s(info: Mapping[str, Any], patience: ExecutorPatience) -> float:
    """Return how long an executor may take to end once it was told to."""
    own = info.get("shutdown_grace_period")
    return patience.shutdown_s if own is None else max(0.0, int(own["nanoseconds"]) / 1e9)


def kill_grace_s(task: Mapping[str, Any]) -> float | None:
    """Return the grace that a task names itself."""
    return launch.grace_s(task.get("kill_policy"))


def _as_task(info: Mapping[str, Any], default_executor: tuple[str, ...]) -> Document:
    command = info.get("command")
    if info.get("type") == DEFAULT:
        command = {"shell": False, "value": default_executor[0], "arguments": list(default_executor)}
    task: Document = {"task_id": info["executor_id"], "command": command, "resources": list(info.get("resources", ()))}
    if "container" in info:
        task["container"] = info["container"]
    return task


def _is_there(wanted: Volume, there: Iterable[Volume]) -> bool:
    return any(
        (volume.source, volume.destination) == (wanted.source, wanted.destination)
        and (wanted.read_only or not volume.read_only)
        for volume in there
    )


def _once(volumes: Iterable[Volume]) -> tuple[Volume, ...]:
    """Return each only once; what one task may write to and another only reads is shown to both to write to."""
    found: dict[tuple[str, str], Volume] = {}
    for volume in volumes:
        key = (volume.source, volume.destination)
        if key not in found or found[key].read_only:
            found[key] = volume
    return tuple(found.values())


def _volumes(identity: Identity, info: Mapping[str, Any], in_use: Collection[str] = ()) -> list[Volume]:
    return list(launch.persistent_volumes(identity.work_dir, info.get("resources", ()), in_use))


def _labels(info: Mapping[str, Any]) -> dict[str, str]:
    labels = (info.get("labels") or {}).get("labels", [])
    return {str(label["key"]): str(label.get("value", "")) for label in labels}
