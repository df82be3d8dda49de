"""TLS to the agent, as LIBPROCESS_SSL_* ask for it; imported by executors of agents that speak it, and by no other.

The standard library's ssl takes half as much memory again as the whole program.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.mesos.security.tls_names import not_of
from mesos_gpu.mesos.security.tls_settings import PREFIX, TlsSettings, read_tls_settings
from mesos_gpu.process.secure.tls_context import client_context, tls_problem


class Secure:
    """Puts TLS on connections to one agent."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read certificates. Raises BadInput when they are not what they should be.

        The key may be for root alone: a task's user then has no certificate to show, which most agents do not ask for.
        """
        self._settings = settings
        self._context = self._read()
        if self._context.check_hostname and not settings.verify_ip:
            raise BadInput(f"an agent is known by its address; {PREFIX}VERIFY_IPADD lets its certificate name that")

    def _read(self) -> ssl.SSLContext:
        settings = self._settings
        readable = os.access(settings.key_file, os.R_OK) and os.access(settings.cert_file, os.R_OK)
        return client_context(settings, show_certificate=readable)

    def wrap(self, connection: socket.socket, ip: str) -> socket.socket:
        """Return the connection with TLS on it. Raises Unavailable, with the connection closed.

        Certificates are read anew each time: a task can run for longer than they are valid. Files that cannot be used,
        as while they are being replaced, change nothing.
        """
        with suppress(BadInput):
            self._context = self._read()
        try:
            made = self._context.wrap_socket(connection, server_hostname=ip)
        except OSError as error:
            connection.close()
            raise Unavailable(f"no TLS with the agent at {ip}: {tls_problem(error)}") from None
        problem = None
        if self._settings.verify_server and self._settings.scheme == "legacy":
            problem = not_of(made.getpeercert() or {}, ip, _name_of(ip), by_ip=self._settings.verify_ip)
        if problem is not None:
            made.close()
            raise Unavailable(f"no TLS with the agent at {ip}: {problem}")
        return made


def open_secure(environ: Mapping[str, str]) -> Secure | None:
    """Return what the environment asks for, None where that is no TLS. Raises BadInput."""
    settings, _ = read_tls_settings(environ)
    return None if settings is None else Secure(settings)


def _name_of(ip: str) -> str | None:
    try:
        return socket.getnameinfo((ip, 0), socket.NI_NAMEREQD)[0]
    except OSError:
        return None
