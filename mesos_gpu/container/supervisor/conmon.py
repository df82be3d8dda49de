"""Containers under conmon, which starts the runtime, outlives the agent and writes the exit status to a file."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from mesos_gpu import stages
from mesos_gpu.base.files import private_folder
from mesos_gpu.container.host.filters import Filters
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.processes import Process, readable
from mesos_gpu.container.host.runtime import Runtime
from mesos_gpu.errors import ContainerError, CutOff
from mesos_gpu.mesos.ids import ContainerId

START_TIMEOUT_S = 60.0
EXIT_FILE_GRACE_S = 5.0
"""How long conmon may take, after the container has ended, to write the exit status and end too (measured: 1 ms)."""

log = logging.getLogger(__name__)


class _Started(msgspec.Struct):
    """What conmon writes to its sync pipe (API version 1): the pid, or -1 and the runtime's words."""

    data: int
    message: str = ""


class Supervised(Struct, frozen=True):
    """A container that was started: the pid of its init, which may have ended since, and the conmon above it."""

    pid: int
    conmon: Process


class Conmon:
    """Starts containers of one runtime. `exits` is a folder that conmon writes exit statuses into, by container id.

    `filters` are what the runtime has compiled; it is `thorough` if it puts containers into the cgroup2 tree that lies
    beside version 1, too, so that they need not be started in it.
    """

    def __init__(
        self,
        path: Path,
        runtime: Runtime,
        exits: Path,
        mounts: MountNamespace,
        filters: Filters | None = None,
        *,
        thorough: bool = False,
    ) -> None:
        self._path, self._runtime, self._exits, self._mounts = path, runtime, exits, mounts
        self.filters, self.thorough = filters or Filters(), thorough

    @property
    def runtime(self) -> Runtime:
        """Return the runtime."""
        return self._runtime

    async def start(
        self,
        container_id: ContainerId,
        bundle: Path,
        stdout: int,
        stderr: int,
        *,
        enter: Sequence[Path] = (),
        console: Path | None = None,
        beside: Sequence[Path] = (),
    ) -> Supervised:
        """Start the container of `bundle`; return when its init runs.

        The container writes to the descriptors `stdout` and `stderr` itself, no process relays. `enter`, `console`
        and `beside` are those of Runtime.starting; a relative `console` is in the bundle. Raises ContainerError with
        the runtime's words; the caller then removes what is left (cgroup, bundle).
        """
        command = self._runtime.starting(bundle, enter, console, beside)
        private_folder(self._exits)
        told, tell = os.pipe()
        try:
            spawning = self._mounts.run(lambda: self._spawn(container_id, bundle, stdout, stderr, tell, command))
            try:
                conmon = await asyncio.shield(spawning)
                stages.mark("conmon started")
            except asyncio.CancelledError:
                await _end(await spawning)
                raise
            finally:
                os.close(tell)
            try:
                pid = await self._hear(told, bundle)
                stages.mark("runtime done")
            except BaseException:
                await asyncio.shield(_end(conmon))
                raise
        finally:
            os.close(told)
        return Supervised(pid, conmon)

    async def _hear(self, told: int, bundle: Path) -> int:
        """Return the pid that conmon reports once the runtime is done."""
        name = self._runtime.name
        try:
            await asyncio.wait_for(readable(told), START_TIMEOUT_S)
        except asyncio.TimeoutError:
            raise ContainerError(f"{name} did not start the container within {START_TIMEOUT_S:g} s") from None
        answer = os.read(told, 65536)  # one write of conmon's; empty when it ended without a word
        if not answer and self._runtime.complaint(bundle) is None:
            raise CutOff(f"conmon ended without a word while {name} started the container")
        try:
            started = msgspec.json.decode(answer, type=_Started) if answer else _Started(data=-1)
        except msgspec.DecodeError as error:
            raise ContainerError(f"conmon answered {answer!r}, which is not understood") from error
        if started.data <= 0:
            words = self._runtime.complaint(bundle) or started.message or "it gave no reason"
            raise ContainerError(f"{name} could not start the container: {words}")
        return started.data

    async def exit_status(self, container_id: ContainerId, conmon: Process | None) -> int | None:
        """Return the exit status of a container that has ended; None when conmon did not live to see it."""
        if conmon is not None:
            try:
                await asyncio.wait_for(conmon.wait(), EXIT_FILE_GRACE_S)
            except asyncio.TimeoutError:
                log.warning("conmon %d of container %s did not end with it", conmon.pid, container_id)
        try:
            return int((self._exits / container_id).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def forget(self, container_id: ContainerId) -> None:
        """Remove the exit status."""
        (self._exits / container_id).unlink(missing_ok=True)

    def _spawn(
        self, container_id: ContainerId, bundle: Path, stdout: int, stderr: int, tell: int, command: Sequence[str]
    ) -> Process:
        arguments = [
            *(str(self._path), "--api-version=1", "--sync", "--log-path=passthrough", "--log-level=error"),
            *("--no-sync-log", "--full-attach", f"--cid={container_id}", f"--cuuid={container_id}"),
            *(f"--name={container_id}", f"--bundle={bundle}", f"--container-pidfile={bundle / 'pid'}"),
            *(f"--exit-dir={self._exits}", f"--persist-dir={bundle}", f"--runtime={command[0]}"),
            *(f"--runtime-arg={argument}" for argument in command[1:]),
        ]
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            # Nothing of the agent's environment: neither runtime nor conmon may find a NOTIFY_SOCKET or the like.
            env={"PATH": os.environ.get("PATH", os.defpath), "_OCI_SYNCPIPE": str(tell)},
            pass_fds=(tell,),
            cwd=bundle,  # conmon leaves a file there when memory runs out
            start_new_session=True,
        )
        process.returncode = 0  # Popen must not wait for it: `Process` does, and after a restart nobody of ours
        conmon = Process.open(process.pid)
        if conmon is None:  # only if somebody else in this process reaps our children
            raise ContainerError("conmon has vanished")
        return conmon


async def _end(conmon: Process) -> None:
    """Kill a conmon; the kernel kills the runtime that it has started with it."""
    conmon.kill()
    await conmon.wait()
    conmon.close()
