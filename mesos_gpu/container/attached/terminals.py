"""The terminal of a container: starting the program that holds it, and being connected to that.

See supervisor/holder.py for what the two say to each other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path

from mesos_gpu.base.linux.sockets import ONLY_OWNER, listen, short_path
from mesos_gpu.container.attached.switchboard import MAX_BEHIND, Attachment, Stream, Switchboard
from mesos_gpu.container.host.beside import start_beside
from mesos_gpu.container.host.processes import Process, readable
from mesos_gpu.container.supervisor import holder

CONSOLE, ATTACH = "console", "attach"
CONNECT_TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class TerminalBoard(Switchboard):
    """Input and output of a container on a terminal that somebody else holds: closing this ends nothing.

    Nobody slows the container down: an attachment that is too far behind is cut off, even if it is the only one.
    """

    def __init__(self, terminal: int, heard: int) -> None:
        super().__init__(terminal, {"STDOUT": heard}, terminal=True)
        self._heard = heard
        self.caught_up()  # to learn of its end, also when nobody is attached

    def attach(self) -> Attachment:
        """Return what hears all output from now on."""
        self._tell(holder.LISTEN)
        return super().attach()

    def detach(self, attachment: Attachment) -> None:
        """Let go of an attachment."""
        super().detach(attachment)
        if not self._attached:
            self._tell(holder.MUTE)

    def caught_up(self) -> None:
        """Read on."""
        self._cut([one for one in self._attached if one.behind > MAX_BEHIND])
        super().caught_up()

    def _take(self, stream: Stream, data: bytes) -> None:
        if data[:1] == holder.SAID:
            self.say(stream, data[1:])
        elif data[:1] == holder.GAP:
            self._cut(list(self._attached))

    def _tell(self, word: bytes) -> None:
        if self.ended.is_set() or "STDOUT" not in self._outputs:
            return
        try:
            os.write(self._heard, word)
        except OSError:
            pass  # it is at its end, which we are about to read


def start_holder(bundle: Path, stdout: int) -> Process:
    """Start what will hold the terminal that a runtime sends to the socket CONSOLE in `bundle`. Raises OSError.

    It writes to `stdout`, and is found by its argument `bundle`.
    """
    with (
        listen(bundle / CONSOLE, mode=ONLY_OWNER) as console,
        listen(bundle / ATTACH, mode=ONLY_OWNER, kind=socket.SOCK_SEQPACKET) as door,
    ):
        numbers = (console.fileno(), door.fileno())
        words = [str(bundle), *map(str, numbers)]
        return start_beside(holder.__file__, words, numbers, stdout=stdout, what="the holder of the terminal")


async def connect(bundle: Path) -> TerminalBoard | None:
    """Return what reaches the terminal of a container, None when it is gone already."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with connection:
        connection.setblocking(False)
        try:
            with short_path(bundle / ATTACH) as name:
                connection.connect(name)
            await asyncio.wait_for(readable(connection.fileno()), CONNECT_TIMEOUT_S)
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        except (OSError, asyncio.TimeoutError) as error:
            log.info("the terminal of %s cannot be reached: %s", bundle.name, error)
            return None
        if not descriptors:
            return None
        os.set_inheritable(descriptors[0], False)
        return TerminalBoard(descriptors[0], connection.detach())
