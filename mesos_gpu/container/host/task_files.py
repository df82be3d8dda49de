"""Opening the host's files with the rights that a container's processes have, instead of those of the agent."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from msgspec import Struct

from mesos_gpu.container.host import opener
from mesos_gpu.container.host.processes import readable
from mesos_gpu.container.host.users import HostUser
from mesos_gpu.errors import ContainerError


class FileRights(Struct, frozen=True):
    """What decides which files a container's processes can open.

    `user` has the numbers of the container's user namespace, if it has one. `overrides`: its processes have
    CAP_DAC_OVERRIDE, which in a user namespace counts only for files whose owners have numbers there.
    """

    user: HostUser
    overrides: bool = False


class OpenFile:
    """An open file, closed when nothing refers to it any more."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class TaskFiles:
    """Opens files for one container, one after another."""

    def __init__(self, rights: FileRights, channel: socket.socket, process: asyncio.subprocess.Process) -> None:
        self._rights, self._channel, self._process = rights, channel, process
        self._turn = asyncio.Lock()

    async def open(self, path: str) -> OpenFile:
        """Open a regular file for reading. Raises ContainerError with the reason when the container could not."""
        name = os.fsencode(path)
        if len(name) >= opener.MAX_PATH:
            raise ContainerError(f"Failed to copy a file: its path has {len(name)} bytes")
        async with self._turn:
            try:
                self._channel.send(name)
                await readable(self._channel.fileno())
                answer, descriptors, _, _ = socket.recv_fds(self._channel, 4096, 1)
            except OSError as error:
                raise ContainerError(
                    f"Failed to copy '{path}': the process that opens files ended ({error})"
                ) from error
        if descriptors:
            return OpenFile(descriptors[0])
        reason = answer.decode(errors="replace") or "the process that opens files ended; the agent's log has its error"
        user = self._rights.user
        raise ContainerError(f"Failed to copy '{path}': {reason} (opened as the task's user, {user.uid}:{user.gid})")


@asynccontextmanager
async def open_task_files(rights: FileRights, root: int, namespace: int | None) -> AsyncIterator[TaskFiles]:
    """Yield what opens files with these rights; paths start at the open folder `root`, without the host's /proc.

    `namespace` is an open user namespace, None for the host's. Both stay the caller's. Raises ContainerError.
    """
    with ExitStack() as closing:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        closing.callback(ours.close)
        ours.setblocking(False)
        user = rights.user
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", opener.__file__, str(theirs.fileno()), str(root)),
                "" if namespace is None else str(namespace),
                *(str(user.uid), str(user.gid), ",".join(map(str, user.groups)), str(int(rights.overrides))),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=[theirs.fileno(), root, *([] if namespace is None else [namespace])],
            )
        except OSError as error:
            raise ContainerError(f"cannot start the process that opens files: {error.strerror}") from error
        finally:
            theirs.close()
        try:
            yield TaskFiles(rights, ours, process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
