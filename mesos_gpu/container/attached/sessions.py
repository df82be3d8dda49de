"""Starting a command inside a running container, with its input and output in our hands."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mesos_gpu.base.linux.sockets import ONLY_OWNER, listen
from mesos_gpu.container.attached.switchboard import Switchboard, set_window
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.processes import Process, readable
from mesos_gpu.errors import ContainerError

TERMINAL_TIMEOUT_S = 30.0
LATE_S = 0.2
LOOK_EVERY_S = 0.002
SIGNALLED = 128


class Child(Process):
    """A process of ours whose exit status is kept."""

    exit_status: int | None = None
    """0 to 255, with 128 + N for signal N."""

    def reap(self) -> None:
        """Take the status of the process if it has ended."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == self.pid:
            self.exit_status = SIGNALLED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


async def start_piped(command: Sequence[str], mounts: MountNamespace) -> tuple[Child, Switchboard]:
    """Run `command`, from the mounts' thread, with a pipe for each of its streams. Raises OSError."""
    stdin, give = os.pipe()
    hear, stdout = os.pipe()
    hear_errors, stderr = os.pipe()
    try:
        child = await _whole(mounts, command, (stdin, stdout, stderr))
    except BaseException:
        for descriptor in (give, hear, hear_errors):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
    return child, Switchboard(give, {"STDOUT": hear, "STDERR": hear_errors})


async def start_on_terminal(
    command: Sequence[str], folder: Path, mounts: MountNamespace, window: tuple[int, int] | None
) -> tuple[Child, Switchboard]:
    """Run `command --console-socket=...`, which makes a terminal in the container and sends it to us.

    Raises ContainerError when it ends, or 30 s pass, without having done so; OSError.
    """
    server = listen(folder / "console", mode=ONLY_OWNER, backlog=1)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        server.setblocking(False)
        child = await _whole(mounts, command, (null, null, null))
        try:
            terminal = await _terminal(server, child)
        except BaseException:
            child.kill()
            await asyncio.shield(child.wait())
            child.close()
            raise
    finally:
        server.close()
        os.close(null)
    if window is not None:
        set_window(terminal, *window)
    return child, Switchboard(terminal, {"STDOUT": terminal}, terminal=True)


async def _terminal(server: socket.socket, child: Child) -> int:
    connected = asyncio.ensure_future(receive_terminal(server))
    ended = asyncio.ensure_future(child.wait())
    try:
        await asyncio.wait([connected, ended], timeout=TERMINAL_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if not connected.done():
            # A command may be over before we look; then its terminal waits for us to take it.
            await asyncio.wait([connected], timeout=LATE_S)
        if not connected.done():
            raise ContainerError("the runtime made no terminal")
        return connected.result()
    finally:
        for waiting in (connected, ended):
            waiting.cancel()
        await asyncio.gather(connected, ended, return_exceptions=True)


async def receive_terminal(server: socket.socket) -> int:
    """Return the terminal that a runtime sends to this socket. Raises ContainerError when it sends something else."""
    connection, _ = await asyncio.get_running_loop().sock_accept(server)
    with connection:
        await readable(connection.fileno())
        _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
    if len(descriptors) != 1:
        raise ContainerError("the runtime sent no terminal")
    os.set_inheritable(descriptors[0], False)
    return descriptors[0]


async def first_pid(pid_file: Path, runtime: Child) -> int | None:
    """Return the process that a runtime has started in a container, once it says so; None when the runtime ended."""
    ended = asyncio.ensure_future(runtime.wait())
    try:
        while not ended.done():
            text = pid_file.read_text() if pid_file.exists() else ""
            if text.strip().isdecimal():
                return int(text)
            await asyncio.wait([ended], timeout=LOOK_EVERY_S)
        return None
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


async def _whole(mounts: MountNamespace, command: Sequence[str], streams: tuple[int, int, int]) -> Child:
    """Start a process; one whose start is not waited for any more is ended."""
    spawning = mounts.run(lambda: _spawn(command, streams))
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        child = await spawning
        child.kill()
        await child.wait()
        child.close()
        raise


def _spawn(command: Sequence[str], streams: tuple[int, int, int]) -> Child:
    stdin, stdout, stderr = streams
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        start_new_session=True,
    )
    process.returncode = 0  # Popen must not wait for it: `Child` does
    child = Child.open(process.pid)
    if not isinstance(child, Child):  # only if somebody else in this process reaps our children
        raise ContainerError("a session has vanished")
    return child
