"""The process that the services of a box are forked from; the supervisor tells it which, and when.

    python -P -m mesos_gpu.local.forking.preloaded DESCRIPTOR WORK_DIR ROOM MODULE...

Requests and answers are packets of JSON over a socket. A service starts with its log beside the request, and the answer
has a descriptor of the process (a pidfd), so that its owner never signals another. The supervisor is the parent of each
service: this process is in nobody's way when it ends, as it does when the other end of its socket is closed.
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
from typing import Any

from mesos_gpu.local.forking.forked import preload, rename
from mesos_gpu.local.forking.handed import hand_over
from mesos_gpu.local.plan import program

PACKET = 1 << 16


def answer_requests(channel: socket.socket, modules: Sequence[str]) -> None:
    """Read the code, and start what is asked for as soon as it is there, until nobody will ask any more."""
    reading = preload(modules)
    read = next(reading, None)
    while True:
        ready, _, _ = select.select([channel], [], [], None if read is None else 0)
        if not ready:
            read = next(reading, None)
        elif not _answer(channel):
            return


def _answer(channel: socket.socket) -> bool:
    """Do what is asked for; False when nobody will ask any more."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(channel, PACKET, 1)
    except OSError:
        return False
    if not packet:
        return False
    (log,) = descriptors
    asked = json.loads(packet)
    try:
        handed = hand_over(
            asked["module"],
            asked["flags"],
            name=asked["name"],
            log=log,
            end=signal.SIGTERM,
            parent=asked["parent"],
        )
    except OSError as error:  # no memory for one more process
        _say(channel, {"asked": asked["number"], "error": error.errno})
    else:
        _say(channel, {"asked": asked["number"], "pid": handed.pid}, handed.watch)
        handed.begin()
    finally:
        os.close(log)
    return True


def _say(channel: socket.socket, document: Mapping[str, Any], *descriptors: int) -> None:
    with suppress(OSError):  # nobody there: the next look at the channel says so
        socket.send_fds(channel, [json.dumps(document).encode()], descriptors)


def serve(channel: socket.socket, work_dir: str, modules: Sequence[str]) -> None:
    """Be the process that services are forked from, until the other end of `channel` is closed."""
    rename("preloaded", [*program("mesos_gpu.local.forking.preloaded"), work_dir])
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    answer_requests(channel, modules)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[4:])
