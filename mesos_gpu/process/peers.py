"""Which users' programs may send libprocess messages: the flag, and what it asks of the kernel."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from mesos_gpu.base.linux.peers import PROC_NET, uid_of_peer

ROOT = 0


def is_same_user(connection: socket.socket, proc_net: Path = PROC_NET) -> bool:
    """Return whether the program at the other end of an accepted connection runs on this machine as root or as we do.

    False also when it cannot be told: it has closed its end already, or is on another machine or in another network
    namespace.
    """
    return uid_of_peer(connection, proc_net) in (ROOT, os.geteuid())
