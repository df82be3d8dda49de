"""Ends our helpers: asks each that listens in our folder. What they have begun goes on to its end first."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from marathon_cli.resident import frames, place

PATIENCE_S = 2.0


def end_helpers(environ: Mapping[str, str]) -> int:
    """Ask all helpers of this user, of whatever installation, to end; return how many were there."""
    where = place.folder(environ)
    found = 0
    for name in [] if where is None else os.listdir(where):
        path = f"{where}/{name}"
        if not name.endswith(place.SOCKET) or not place.is_our_socket(path):
            continue
        with suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PATIENCE_S)
            line.connect(path)
            line.sendall(frames.leave())
            found += 1
            line.recv(1)
    return found
