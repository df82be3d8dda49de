"""Shared persistent volumes on an agent: which are in use, so that nobody's are given to another user. Pure.

A volume belongs to whom its container runs as; one that others use already is left as it is. Source: Mesos
src/slave/containerizer/mesos/isolators/filesystem/linux.cpp (update).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.agent.model.paths import volume_path
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.mesos.resource import Resource


def sources(work_dir: str, info: Mapping[str, Any]) -> frozenset[str]:
    """Return the folders of the shared volumes among the resources of a task or an executor."""
    shared = (Resource.from_json(document) for document in info.get("resources", ()) if "shared" in document)
    return frozenset(
        volume_path(work_dir, resource.role, resource.persistence_id)
        for resource in shared
        if resource.persistence_id is not None
    )


def in_use(work_dir: str, infos: Iterable[Mapping[str, Any]], tasks: Iterable[Task]) -> frozenset[str]:
    """Return the folders, of those that `infos` share, which one of these tasks uses."""
    wanted = frozenset().union(*(sources(work_dir, info) for info in infos))
    if not wanted:
        return wanted
    live = (task for task in tasks if task.phase is not Phase.OVER)
    return wanted & frozenset().union(*(sources(work_dir, task.info) for task in live))
