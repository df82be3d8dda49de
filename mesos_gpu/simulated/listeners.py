"""Sockets at which the program that plays the cards is asked, made by whoever starts it. Small: agents read it."""

from __future__ import annotations

import array
import socket
from pathlib import Path

from mesos_gpu.base.linux.sockets import EVERY_USER, listen

LISTEN = b"listen\n"


def bound(path: Path) -> socket.socket:
    """Return a listener at a path of any length; what is there is replaced. Everybody may connect. Raises OSError."""
    return listen(path, mode=EVERY_USER)


def hand_over(control: socket.socket, listener: socket.socket) -> None:
    """Have a daemon serve a listener of ours too. Raises OSError."""
    words = array.array("i", [listener.fileno()])
    control.sendmsg([LISTEN], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, words)])
