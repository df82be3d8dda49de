"""Which port a service of a box listens on that may have any: the one that it had, else one that it can keep.

A service is found at its port again after a restart: an agent whose tasks run on must have it, and links that people
kept stay good. The kernel lends the ports of a range to whoever connects somewhere, until a minute after the end: one
of these may be taken at just the moment when a box comes up again (net.ipv4.ip_local_port_range, ip-sysctl.rst of the
kernel's documentation).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Collection, Sequence
from pathlib import Path

from mesos_gpu.local.plan import LOOPBACK

LENT_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
KEPT = range(20000, 30000)
"""Below what Linux lends, and beside the ports that agents offer to tasks."""
TRIES = 20


def port_for(last: int, others: Collection[int] = ()) -> int:
    """Return the port that a service had `last` (0: none) if it is free, else a free one that nobody is lent.

    It is none of `others`, on which somebody is about to listen. 0, for any, on a machine where no such port is found.
    """
    if last and last not in others and is_free(last):
        return last
    ours = candidates(KEPT, lent(), others)
    tried = random.sample(ours, min(TRIES, len(ours)))
    return next((port for port in tried if is_free(port)), 0)


def candidates(ours: range, lent: range, others: Collection[int] = ()) -> Sequence[int]:
    """Return those of our ports that are neither lent nor somebody else's. Pure."""
    return [port for port in ours if port not in lent and port not in others]


def lent() -> range:
    """Return the ports that the kernel gives to who connects; its default where that cannot be read."""
    try:
        first, last = map(int, LENT_FILE.read_text().split())
    except (OSError, ValueError):
        first, last = 32768, 60999
    return range(first, last + 1)


def is_free(port: int) -> bool:
    """Return whether a service could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
