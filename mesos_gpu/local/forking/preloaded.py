"""The process that the services of a box are forked from; the supervisor tells it which, and when.

    python -P -m mesos_gpu.local.forking.preloaded DESCRIPTOR WORK_DIR ROOM MODULE...

Requests and answers are packets of JSON over a socket. A service starts with its log beside the request, and the answer
has a descriptor of the process (a pidfd), so that its owner never signals another. How a service ended is told by
itself. When the supervisor is gone, however it went, the services are told to end: agents leave their tasks running.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.local.forking.forked import fork_service, preload, rename
from mesos_gpu.local.plan import program

PACKET = 1 << 16


@dataclass(slots=True)
class Preloaded:
    """Forks services for who is at the other end of `channel`, until that one is gone."""

    channel: socket.socket
    modules: Sequence[str]
    running: dict[int, int] = field(default_factory=dict)
    """The number of the request by pid, of services that run."""

    def serve(self) -> None:
        """Read the code, and start what is asked for as soon as it is there."""
        woken, wakes = socket.socketpair()
        for end in (woken, wakes):
            end.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        reading = preload(self.modules)
        read = next(reading, None)
        while True:
            ready, _, _ = select.select([self.channel, woken], [], [], None if read is None else 0)
            if woken in ready:
                woken.recv(PACKET)
                self._tell_ends()
            if self.channel in ready and not self._answer():
                break
            if not ready:
                read = next(reading, None)
        for pid in self.running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _answer(self) -> bool:
        """Do what is asked for; False when nobody will ask any more."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self.channel, PACKET, 1)
        except OSError:
            return False
        if not packet:
            return False
        (log,) = descriptors
        try:
            asked = json.loads(packet)
            pid = fork_service(asked["module"], asked["flags"], name=asked["name"], log=log, end=signal.SIGTERM)
        except OSError as error:  # no memory for one more process
            self._say({"asked": asked["number"], "error": error.errno})
        else:
            self.running[pid] = asked["number"]
            watch = os.pidfd_open(pid)
            self._say({"asked": asked["number"], "pid": pid}, watch)
            os.close(watch)
        finally:
            os.close(log)
        return True

    def _tell_ends(self) -> None:
        for pid, number in list(self.running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.running[pid]
                self._say({"ended": number, "status": os.waitstatus_to_exitcode(status)})

    def _say(self, document: Mapping[str, Any], *descriptors: int) -> None:
        with suppress(OSError):  # nobody there: the next look at the channel says so
            socket.send_fds(self.channel, [json.dumps(document).encode()], descriptors)


def serve(channel: socket.socket, work_dir: str, modules: Sequence[str]) -> None:
    """Be the process that services are forked from, until the other end of `channel` is closed."""
    rename("preloaded", [*program("mesos_gpu.local.forking.preloaded"), work_dir])
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Preloaded(channel, modules).serve()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[4:])
