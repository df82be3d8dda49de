"""Containers in containers: what an id says of where one lies, and what a nested one shares with its parent. Pure.

Ids are Mesos' ContainerID as Mesos prints it: `parent.child`, `parent.child.grandchild`.
Source: Mesos src/slave/containerizer/mesos/{containerizer,utils,paths}.cpp, isolators/cgroups/cgroups.cpp.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.runtime_spec import SHELL, Command
from mesos_gpu.errors import BadInput
from mesos_gpu.isolator.injection import NO_DEVICES, VISIBLE_DEVICES
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId, is_nested, top_level
from mesos_gpu.mesos.security.authentication import EXECUTOR_TOKEN

__all__ = ["cgroup_of", "deepest_first", "descendants", "entering", "is_nested", "leaf", "parent_of", "top_level"]

SEPARATOR = "."
BETWEEN = "mesos"
"""The cgroup of a container holds those of its children in one of this name, which no control file has."""


def parent_of(container_id: ContainerId) -> ContainerId | None:
    """Return the container that a nested one lies in, None for a top-level one."""
    parent = container_id.rpartition(SEPARATOR)[0]
    return ContainerId(parent) if parent else None


def leaf(container_id: ContainerId) -> str:
    """Return the last part of an id."""
    return container_id.rpartition(SEPARATOR)[2]


def cgroup_of(container_id: ContainerId) -> str:
    """Return the cgroup below the root one: `parent/mesos/child`, as Mesos."""
    return f"/{BETWEEN}/".join(container_id.split(SEPARATOR))


def descendants(container_id: ContainerId, among: Collection[ContainerId]) -> list[ContainerId]:
    """Return the containers that lie in one, at any depth, the deepest first."""
    return deepest_first(one for one in among if one.startswith(container_id + SEPARATOR))


def deepest_first(container_ids: Iterable[ContainerId]) -> list[ContainerId]:
    """Return ids such that children come before their parents."""
    return sorted(container_ids, key=lambda one: (-one.count(SEPARATOR), one))


def without_gpus(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan of a container with a device policy of its own: Mesos' isolator never adds GPUs to that."""
    environment = {**plan.environment, VISIBLE_DEVICES: NO_DEVICES}
    return replace(plan, gpus=(), nodes=(), rules=(), environment=environment)


def entering(
    parent: Mapping[str, Any],
    command: Command,
    environment: Mapping[str, str],
    user: HostUser | None,
    *,
    terminal: bool = False,
) -> dict[str, Any]:
    """Return the OCI process of a container of class DEBUG, which enters its parent; `parent` is that one's process.

    It has the parent's environment, under its own, its working directory, its rights, and its user unless it has its
    own. Raises BadInput when nothing says what to run.
    """
    if not command.value:
        raise BadInput("the command has no value, so there is nothing to run")
    variables = dict(entry.partition("=")[::2] for entry in parent["env"])
    variables.pop(EXECUTOR_TOKEN, None)  # who enters an executor's container does not become the executor
    whom = parent["user"]
    if user is not None:
        whom = {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.groups)}
    return {
        **{key: value for key, value in parent.items() if key != "consoleSize"},
        "terminal": terminal,
        "user": whom,
        "args": list(_argv(command, command.value)),
        "env": [f"{name}={value}" for name, value in {**variables, **environment}.items()],
    }


def _argv(command: Command, value: str) -> Sequence[str]:
    if command.shell:
        return SHELL, "-c", value
    # arguments[0] is argv[0] by convention; an OCI process has one field for both it and the file to execute.
    return value, *command.arguments[1:]
