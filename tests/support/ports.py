"""Ports of this machine for tests."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of the loopback where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])
