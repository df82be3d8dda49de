"""One more command in a container that runs: its root, user, environment, cgroup and GPUs are the container's own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mesos_gpu.base.files import write_whole
from mesos_gpu.base.linux.processes import read_stat
from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.processes import readable
from mesos_gpu.container.host.runtime import Runtime, within
from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.life.sandbox import open_output
from mesos_gpu.container.spec.nesting import is_nested
from mesos_gpu.errors import ContainerError
from mesos_gpu.mesos.ids import ContainerId

PID_FILES = "exec-*.pid"

LOOKS = 100
"""How often to look for what a killed command has forked meanwhile; what the kernel cannot end yet is left to it."""


class Execution(Struct, frozen=True):
    """A command to run in a container. `environment` goes over the container's; `output` takes what it writes."""

    argv: tuple[str, ...]
    output: Path
    environment: Mapping[str, str]
    timeout_s: float | None = None


class Executor:
    """Runs commands in containers of one runtime."""

    def __init__(self, runtime: Runtime, mounts: MountNamespace, cgroups: Cgroups) -> None:
        self._runtime, self._mounts, self._cgroups = runtime, mounts, cgroups

    async def run(self, container_id: ContainerId, bundle: Path, execution: Execution) -> int:
        """Return the exit status; 128 + N for a command that signal N ended.

        One that takes longer than its timeout is ended with all processes it has made, and so is one whose caller
        stops waiting. Raises ContainerError for a timeout, and when the runtime cannot be started.
        """
        name = f"exec-{uuid.uuid4().hex}"
        document, pid_file = bundle / f"{name}.json", bundle / f"{name}.pid"
        try:
            process = _process_document(bundle, execution)
            write_whole(document, msgspec.json.encode(process), durable=False)
            user = HostUser(process["user"]["uid"], process["user"]["gid"])
            output = open_output(execution.output, user)
            try:
                started = await self._mounts.run(lambda: self._spawn(container_id, bundle, document, pid_file, output))
            finally:
                os.close(output)
            return await self._wait(container_id, started, pid_file, execution.timeout_s)
        except OSError as error:
            raise ContainerError(f"cannot run a command in container {container_id}: {error}") from error
        finally:
            document.unlink(missing_ok=True)
            pid_file.unlink(missing_ok=True)

    def end_strays(self, container_id: ContainerId, bundle: Path) -> None:
        """End commands that a process before this one had begun and nobody waits for."""
        for pid_file in bundle.glob(PID_FILES):
            self._end_tree(container_id, pid_file)
            pid_file.unlink(missing_ok=True)

    async def _wait(
        self, container_id: ContainerId, started: subprocess.Popen[bytes], pid_file: Path, timeout_s: float | None
    ) -> int:
        ends = None
        try:
            ends = os.pidfd_open(started.pid)  # our child: it is there until we take its status
            await asyncio.wait_for(readable(ends), timeout_s)
        except BaseException as error:
            try:
                self._end_tree(container_id, pid_file)
            finally:
                started.kill()
                started.wait()
            if isinstance(error, asyncio.TimeoutError):
                raise ContainerError(f"the command did not end within {timeout_s:g} s") from None
            raise
        finally:
            if ends is not None:
                os.close(ends)
        status = started.wait()
        return status if status >= 0 else 128 - status

    def _end_tree(self, container_id: ContainerId, pid_file: Path) -> None:
        """Kill a command and its offspring: all below it, and all of its session, whoever adopted them."""
        try:
            root = int(pid_file.read_text())
        except (OSError, ValueError):
            return
        if root not in self._cgroups.pids(container_id):
            return
        for _ in range(LOOKS):
            family = family_of(root, self._cgroups.pids(container_id))
            if not family:
                return
            for pid in family:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def _spawn(
        self, container_id: ContainerId, bundle: Path, document: Path, pid_file: Path, output: int
    ) -> subprocess.Popen[bytes]:
        # A nested container's runtime knows of no cgroup to move the command to: it begins in the right one.
        nested = is_nested(container_id) and self._runtime.leaves_cgroup
        enter = self._cgroups.make(container_id) if nested else self._cgroups.beside(container_id)
        command = [
            *(str(self._runtime.path), *self._runtime.arguments(bundle), "exec"),
            *(f"--process={document}", f"--pid-file={pid_file}", container_id),
        ]
        return subprocess.Popen(
            within(enter, command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            cwd=bundle,
            start_new_session=True,
        )


def family_of(root: int, pids: Collection[int]) -> frozenset[int]:
    """Return those of `pids` that live and are `root`, descend from it, or are in its session."""
    known = {pid: found for pid in pids if (found := _parent_and_session(pid)) is not None}
    session = known.get(root, (0, root))[1]
    family = {pid for pid, (_, other) in known.items() if pid == root or other == session}
    while more := {pid for pid, (parent, _) in known.items() if parent in family and pid not in family}:
        family |= more
    return frozenset(family)


def _parent_and_session(pid: int) -> tuple[int, int] | None:
    """Return both numbers of a process, None when it is gone, a zombie, or cannot be seen."""
    try:
        found = read_stat(pid)
    except OSError:
        return None
    return None if found is None or found.is_ended else (found.parent, found.session)


def _process_document(bundle: Path, execution: Execution) -> dict[str, Any]:
    """Return the container's own `process`, with another command."""
    process: dict[str, Any] = msgspec.json.decode((bundle / "config.json").read_bytes())["process"]
    variables = dict(_split(process["env"]))
    variables.update(execution.environment)
    environment = [f"{name}={value}" for name, value in variables.items()]
    return {**process, "terminal": False, "args": list(execution.argv), "env": environment}


def _split(environment: Sequence[str]) -> list[tuple[str, str]]:
    pairs = (variable.partition("=") for variable in environment)
    return [(name, value) for name, _, value in pairs]
