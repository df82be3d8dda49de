"""What an agent writes down so that its next process finds it: Mesos' layout under `<work_dir>/meta`, as JSON.

A killed process loses nothing that was written; what must outlive a power cut is synced to the disk, too. Who the agent
is, what it reserved and that it drains are when a method returns. That a task is to run, and how it ended, go to
`syncing`: nothing may be run, and no end told, before that has synced them. Mesos syncs neither: then a task whose
record was lost with the power counts as never launched, and one whose end was is lost. What else is half written is
skipped. Source of the layout: Mesos src/slave/paths.hpp.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu.agent.disk.shapes import is_record
from mesos_gpu.agent.disk.syncing import Syncing
from mesos_gpu.agent.model.executors import ExecutorKey, own_executor
from mesos_gpu.agent.model.paths import executor_directory, framework_directory, run_directory, task_directory
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.base.files import link_whole, make_folders, private_folder, sync_folder, write_whole
from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.documents import ExecutorInfo, FrameworkInfo, TaskInfo
from mesos_gpu.mesos.ids import AgentId, ContainerId, ExecutorId, FrameworkId
from mesos_gpu.mesos.resource import Document, ResourceDocument

LATEST = "latest"
HOLDINGS = "resources_and_operations.state"
SENTINEL = "executor.sentinel"
FRAMEWORK_PID = "framework.pid"
DOUBT = "rebooted"
_FOLDER = 0o755
"""The mode of folders below `meta`, which only the agent can enter."""

_encoder = msgspec.json.Encoder()


class AgentCheckpoints:
    """The `meta` folder of one agent. Methods return when the write can no longer be lost by a kill."""

    def __init__(self, work_dir: Path) -> None:
        self.work_dir, self.meta = work_dir, work_dir / "meta"
        self.syncing = Syncing()
        self._agent_id: AgentId | None = None

    def open(self) -> None:
        """Make the folder. Raises Unavailable when that is not allowed."""
        try:
            # Tasks' variables and secrets are in there. Files of before are behind the same door.
            private_folder(self.meta)
            # What is synced in a folder outlives a power cut only if the folders around it do.
            sync_folder(self.work_dir)
            sync_folder(self.work_dir.parent)
        except OSError as error:
            raise Unavailable(f"cannot use --work_dir={self.work_dir}: {error.strerror}") from None

    @property
    def agent_id(self) -> AgentId:
        """Return the id whose folder is written to."""
        if self._agent_id is None:
            raise RuntimeError("nothing is checkpointed before the agent has an id")
        return self._agent_id

    def use(self, agent_id: AgentId) -> None:
        """Write to the folder of this agent id from now on."""
        self._agent_id = agent_id

    # --- the agent itself ---------------------------------------------------------------------------------------

    def save_boot_id(self, boot_id: str) -> None:
        """Remember which run of the machine this is."""
        write_whole(self.meta / "boot_id", boot_id.encode(), folder_mode=_FOLDER)

    def save_doubt(self, *, doubt: bool) -> None:
        """Remember, or no longer, that the machine was restarted and not all is told yet that was lost with it.

        A power cut makes it so again: nothing is synced.
        """
        path = self.meta / "slaves" / self.agent_id / DOUBT
        if doubt:
            write_whole(path, b"", durable=False, folder_mode=_FOLDER)
        else:
            path.unlink(missing_ok=True)

    def save_agent(self, info: Document) -> None:
        """Remember who this agent is; `latest` follows the file, so a link never leads to nothing."""
        self.use(info["id"]["value"])
        folder = self.meta / "slaves" / self.agent_id
        write_whole(folder / "slave.info", _encoder.encode(info), folder_mode=_FOLDER)
        link_whole(folder.parent / LATEST, self.agent_id)
        sync_folder(folder.parent)
        sync_folder(self.meta)

    def forget_agent(self) -> None:
        """The next process registers as a new agent."""
        (self.meta / "slaves" / LATEST).unlink(missing_ok=True)

    def save_holdings(self, resources: Sequence[ResourceDocument], operations: Sequence[Document]) -> None:
        """Remember reservations and volumes, and operations that are not acknowledged; they belong to the machine."""
        document = {"resources": resources, "operations": operations}
        write_whole(self.meta / "resources" / HOLDINGS, _encoder.encode(document), folder_mode=_FOLDER)

    def save_drain(self, config: Document | None) -> None:
        """Remember that the agent is draining; None: it no longer is."""
        path = self.meta / "slaves" / self.agent_id / "drain.config"
        if config is None:
            path.unlink(missing_ok=True)
        else:
            write_whole(path, _encoder.encode(config), folder_mode=_FOLDER)

    # --- frameworks and tasks -----------------------------------------------------------------------------------

    def save_framework(self, framework: FrameworkId, info: FrameworkInfo, pid: str | None = None) -> None:
        """Remember a FrameworkInfo, and where the framework's scheduler driver is."""
        folder = self.meta / framework_directory(self.agent_id, framework)
        self._write(folder / "framework.info", _encoder.encode(info))
        if pid is not None:
            write_whole(folder / FRAMEWORK_PID, pid.encode(), durable=False)
        else:
            (folder / FRAMEWORK_PID).unlink(missing_ok=True)

    def save_executor(self, key: ExecutorKey, container_id: ContainerId, info: ExecutorInfo) -> None:
        """Remember an executor of a framework, before its container is launched."""
        folder = self.meta / executor_directory(self.agent_id, *key)
        self._write(folder / "executor.info", _encoder.encode(info))
        self.syncing.wrote(*make_folders(folder / "runs" / container_id), folder / "runs")
        link_whole(folder / "runs" / LATEST, container_id)

    def note_run(self, key: ExecutorKey, container_id: ContainerId, name: str, text: str) -> None:
        """Write a small file of a run, such as pids/forked.pid."""
        path = self.meta / run_directory(self.agent_id, *key, container_id) / name
        write_whole(path, text.encode(), durable=False, folder_mode=_FOLDER)

    def save_task(
        self, key: TaskKey, container_id: ContainerId, info: TaskInfo, executor: ExecutorId | None = None
    ) -> None:
        """Remember a task, before its container is launched or its executor has it; `executor` None: it is its own."""
        self._write(self._task_folder(key, container_id, executor) / "task.info", _encoder.encode(info))
        runs = self.meta / executor_directory(self.agent_id, key.framework, executor or own_executor(key.task)) / "runs"
        self.syncing.wrote(runs)
        link_whole(runs / LATEST, container_id)

    def log(
        self,
        key: TaskKey,
        container_id: ContainerId,
        record: Document,
        executor: ExecutorId | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        """Append one record to the task's log, in one write. `lasting`: `syncing` is to sync it."""
        path = self._task_folder(key, container_id, executor) / "task.updates"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "ab", buffering=0) as opened:
            opened.write(_encoder.encode(record) + b"\n")
        if lasting:
            self.syncing.wrote(path, path.parent)

    def close_run(self, key: TaskKey | ExecutorKey, container_id: ContainerId) -> None:
        """Mark the run of a command task or of an executor complete: the next process leaves it alone."""
        name = key.executor if isinstance(key, ExecutorKey) else own_executor(key.task)
        self._close(self.meta / run_directory(self.agent_id, key.framework, name, container_id))

    def close_runs(self, framework: FrameworkId) -> None:
        """Note that the runs of a framework are over which is not known any more: nobody takes them up when it is."""
        executors = self.meta / framework_directory(self.agent_id, framework) / "executors"
        for run in executors.glob(f"*/runs/{LATEST}"):
            self._close(run)

    def _close(self, run: Path) -> None:
        if run.is_dir():
            (run / SENTINEL).touch()
            # Nobody waits for that. But a power cut long after it would bring back tasks of which nobody wants to hear.
            self.syncing.wrote(run)

    def _write(self, path: Path, data: bytes) -> None:
        self.syncing.wrote(*make_folders(path.parent), path, path.parent)
        write_whole(path, data, durable=False)

    def _task_folder(self, key: TaskKey, container_id: ContainerId, executor: ExecutorId | None) -> Path:
        name = executor or own_executor(key.task)
        return self.meta / task_directory(self.agent_id, key.framework, name, container_id, key.task)


def read_json(path: Path) -> Any:
    """Return the JSON at `path`; None when it is absent, cut short (a power cut) or no JSON: the same to a reader."""
    try:
        return decoded(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def decoded(data: bytes) -> Any:
    """Return the JSON that this is; None when it is none."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):  # text that is not UTF-8 is a ValueError, as are msgspec's own
        return None


def read_log(path: Path) -> list[Document]:
    """Return the whole records of a log, and cut off what a kill, a power cut or other damage left after them."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    records: list[Document] = []
    good = 0
    for line in data.splitlines(keepends=True):
        record = decoded(line) if line.endswith(b"\n") else None
        if not (isinstance(record, dict) and is_record(record)):
            break
        records.append(record)
        good += len(line)
    if good < len(data):
        os.truncate(path, good)
    return records
