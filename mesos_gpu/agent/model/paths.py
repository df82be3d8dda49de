"""Where things lie under `--work_dir`: Mesos' layout (src/slave/paths.cpp), with ids used verbatim as folder names."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path, PurePosixPath

from mesos_gpu.mesos.ids import AgentId, ContainerId, ExecutorId, FrameworkId, Role, TaskId

MAX_ID_BYTES = 255
"""What one component of a path can hold."""
REMEMBERED = 1024
"""How many paths of each kind are kept: each is asked for up to a dozen times while its task comes and goes."""


def is_path_safe(identifier: str) -> bool:
    """Return whether an id can be a folder name and nothing else (Mesos src/common/validation.cpp, validateID)."""
    return (
        identifier not in ("", ".", "..")
        and len(identifier.encode()) <= MAX_ID_BYTES
        and not any(c in "/\\" or ord(c) < 32 or ord(c) == 127 for c in identifier)
    )


@lru_cache(maxsize=REMEMBERED)
def run_directory(
    agent_id: AgentId, framework: FrameworkId, executor: ExecutorId, container_id: ContainerId
) -> PurePosixPath:
    """Return the path of one run of an executor, relative to the work_dir (sandbox) or to `meta` (checkpoint)."""
    return executor_directory(agent_id, framework, executor) / "runs" / container_id


@lru_cache(maxsize=REMEMBERED)
def task_directory(
    agent_id: AgentId, framework: FrameworkId, executor: ExecutorId, container_id: ContainerId, task: TaskId
) -> PurePosixPath:
    """Return the path of what is written down of a task, relative to `meta`."""
    return run_directory(agent_id, framework, executor, container_id) / "tasks" / task


@lru_cache(maxsize=REMEMBERED)
def executor_directory(agent_id: AgentId, framework: FrameworkId, executor: ExecutorId) -> PurePosixPath:
    """Return the path of an executor, relative like `run_directory`."""
    return framework_directory(agent_id, framework) / "executors" / executor


@lru_cache(maxsize=REMEMBERED)
def framework_directory(agent_id: AgentId, framework: FrameworkId) -> PurePosixPath:
    """Return the path of a framework, relative like `run_directory`."""
    return PurePosixPath("slaves") / agent_id / "frameworks" / framework


def sandbox_path(
    work_dir: str | Path, agent_id: AgentId, framework: FrameworkId, executor: ExecutorId, container_id: ContainerId
) -> str:
    """Return the absolute sandbox of a run."""
    return str(PurePosixPath(work_dir) / run_directory(agent_id, framework, executor, container_id))


def volume_path(work_dir: str | Path, role: Role, volume_id: str) -> str:
    """Return the absolute folder of a persistent volume; a role's slashes are spaces in it, as Mesos has it."""
    return str(PurePosixPath(work_dir) / "volumes" / "roles" / role.replace("/", " ") / volume_id)


def latest_path(work_dir: str | Path, agent_id: AgentId, framework: FrameworkId, executor: ExecutorId) -> str:
    """Return the link to the latest run's sandbox."""
    return str(PurePosixPath(work_dir) / executor_directory(agent_id, framework, executor) / "runs" / "latest")


def virtual_latest_path(framework: FrameworkId, executor: ExecutorId) -> str:
    """Return the name that /files gives the latest run of an executor, without the agent's id."""
    return f"/frameworks/{framework}/executors/{executor}/runs/latest"
