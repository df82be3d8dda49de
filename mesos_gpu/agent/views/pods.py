"""Who has which devices, as a kubelet's PodResources API shows it: a task is a pod, its framework a namespace. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from mesos_gpu.agent.decisions.frameworks import Frameworks
from mesos_gpu.mesos.ids import ContainerId

GPU = "nvidia.com/gpu"


class PodShown(Struct, frozen=True):
    """A task, or an executor with all of its tasks, and the ids of its devices by resource."""

    name: str
    namespace: str
    container: str
    devices: Mapping[str, tuple[str, ...]]


def pods_shown(frameworks: Frameworks, held: Mapping[ContainerId, Mapping[str, Iterable[str]]]) -> tuple[PodShown, ...]:
    """Return every task that runs, with what its container holds; one without devices is there, too.

    Tasks of an executor share its container, so the executor stands for them, under its own id.
    """
    shown = [
        PodShown(executor.key.executor, executor.key.framework, "executor", _devices(held, executor.container_id))
        for executor in frameworks.executors()
        if not executor.over
    ]
    shown += [
        PodShown(task.key.task, task.key.framework, str(task.info.get("name", "")), _devices(held, task.container_id))
        for task in frameworks.tasks()
        if not task.hosted and task.container_id is not None
    ]
    return tuple(sorted(shown, key=lambda pod: (pod.namespace, pod.name)))


def _devices(
    held: Mapping[ContainerId, Mapping[str, Iterable[str]]], container: ContainerId | None
) -> dict[str, tuple[str, ...]]:
    devices = {} if container is None else held.get(container, {})
    return {resource: tuple(sorted(ids)) for resource, ids in sorted(devices.items()) if ids}
