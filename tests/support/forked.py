"""Services for tests, forked from one process that has imported their code: a start takes milliseconds, not a second.

Each process of pytest has one such process, from its first start of a service until it ends. The installed programs and
`python -m` are started as they are in tests/packaging, tests/master/test_service.py and the tests of the box.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from mesos_gpu.local.forking.forked import SERVICES, fork_service, preload

_PACKET = 1 << 20
_ROOM = "-" * 4000
"""An argument that leaves room for the command lines of services, which are written over this process's own."""


class Service:
    """A running service. `reap` waits for its end on behalf of its parent, and returns the exit status."""

    def __init__(self, pid: int, reap: Callable[[], int]) -> None:
        self.pid, self._reap = pid, reap
        self.returncode: int | None = None
        self._watch = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return the exit status, minus the signal that ended it, or None while the service runs."""
        if self.returncode is None and select.select([self._watch], [], [], 0)[0]:
            self.returncode = self._reap()
            os.close(self._watch)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once the service has ended. Raises TimeoutExpired."""
        if self.poll() is None and not select.select([self._watch], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        status = self.poll()
        assert status is not None
        return status

    async def ended(self) -> int:
        """Return the exit status once the service has ended."""
        if self.poll() is None:
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            watch = os.dup(self._watch)  # others may wait, too
            loop.add_reader(watch, over.set)
            try:
                await over.wait()
            finally:
                loop.remove_reader(watch)
                os.close(watch)
        return self.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal, if the service still runs."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._watch, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Server:
    """The process that services are forked from."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.support.forked", str(theirs.fileno()), _ROOM]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def ask(self, request: Mapping[str, Any], *descriptors: int) -> Any:
        """Return the answer to a request."""
        socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
        return json.loads(self._channel.recv(_PACKET))

    def end(self) -> None:
        """End the process, and with it what it was forked into and still runs."""
        self._channel.close()
        self._process.wait()


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.end)
    return server


def _read_at_start() -> tuple[Path, dict[str, str]]:
    """Return what the loader and Python read when a program starts, and a fork cannot change."""
    return Path.cwd(), {name: value for name, value in os.environ.items() if name.startswith(("LD_", "PYTHON"))}


_AT_FIRST = _read_at_start()


def executed(command: Sequence[str], log: int) -> Service:
    """Start a program that is not forked."""
    process = subprocess.Popen(command, stdout=log, stderr=log)
    return Service(process.pid, process.wait)


def start(module: str, flags: Sequence[str], log: int) -> Service:
    """Start the `main` of a module as `python -m` does; `log` is its output."""
    if _read_at_start() != _AT_FIRST:
        return executed([sys.executable, "-m", module, *flags], log)
    server = _server()
    end = signal.SIGUSR1 if module.endswith("agent.service") else signal.SIGTERM
    request = {"do": "start", "module": module, "flags": list(flags), "environ": dict(os.environ), "end": end}
    pid = server.ask(request, log)
    return Service(pid, lambda: int(server.ask({"do": "reap", "pid": pid})))


def _serve(channel: socket.socket) -> None:
    while True:
        packet, descriptors, _, _ = socket.recv_fds(channel, _PACKET, 1)
        if not packet:
            return
        request = json.loads(packet)
        if request["do"] == "reap":
            _, status = os.waitpid(request["pid"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            (log,) = descriptors
            os.environ.clear()
            os.environ.update(request["environ"])
            name = request["module"].split(".")[-2]
            answer = fork_service(request["module"], request["flags"], name=name, log=log, end=request["end"])
            os.close(log)
        channel.send(json.dumps(answer).encode())


def _main() -> NoReturn:
    channel = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for _ in preload(SERVICES):
        pass
    _serve(channel)
    sys.exit()


if __name__ == "__main__":
    _main()
