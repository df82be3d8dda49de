"""Sockets at which the program that plays the cards is asked, made by whoever starts it. Small: agents read it."""

from __future__ import annotations

import array
import os
import socket
from pathlib import Path

LISTEN = b"listen\n"


def bound(path: Path) -> socket.socket:
    """Return a listener at a path of any length; what is there is replaced. Everybody may connect. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o666)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


def hand_over(control: socket.socket, listener: socket.socket) -> None:
    """Have a daemon serve a listener of ours too. Raises OSError."""
    words = array.array("i", [listener.fileno()])
    control.sendmsg([LISTEN], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, words)])
