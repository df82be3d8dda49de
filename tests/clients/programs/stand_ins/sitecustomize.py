"""Clients that bind all addresses bind loopback here: a test opens no port to the world."""

import socket

_bind = socket.socket.bind


def _bind_loopback(self, address):
    if isinstance(address, tuple) and address[0] in ("", "0.0.0.0"):
        address = ("127.0.0.1", *address[1:])
    return _bind(self, address)


socket.socket.bind = _bind_loopback
socket.gethostname = lambda: "localhost"
