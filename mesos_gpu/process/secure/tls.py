"""Connections with TLS: made, accepted, and where a change-over is under way, without.

A peer is handed to its protocol when its handshake is over and its certificate was found to be its own; until then
what it sent is kept. Handshakes go on side by side, and each ends within HANDSHAKE_S.
Source: Mesos 3rdparty/libprocess/src/{openssl.cpp,ssl/openssl_socket.cpp}, docs/ssl.md.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.mesos.security.tls_names import not_of
from mesos_gpu.mesos.security.tls_settings import CLIENT_HELLO, PREFIX, TlsSettings, read_tls_settings, tls_variables
from mesos_gpu.process.access import LOOK_S, file_print
from mesos_gpu.process.secure.tls_context import (
    client_context,
    expires_soon,
    own_certificate,
    renew,
    server_context,
    tls_problem,
)

log = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
"""How long a peer may take from its first byte, or from being connected, to the end of its handshake."""
REVERSE_S = 5.0
"""How long the name of a peer may take to be found."""
BACKLOG = 100
DAY_S = 86400.0
_NO_ROOM_PAUSE_S = 1.0

_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""

MakeProtocol = Callable[[], asyncio.Protocol]
Reverse = Callable[[str], Awaitable["str | None"]]


class _Held(asyncio.Protocol):
    """Keeps what comes from a peer until it is known who that is."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._eof = self._lost = False
        self._why: Exception | None = None

    def data_received(self, data: bytes) -> None:
        self._data += data

    def eof_received(self) -> None:
        self._eof = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost, self._why = True, exc

    def hand_over(self, transport: asyncio.Transport, to: asyncio.Protocol) -> None:
        """Let `to` have the connection, and all that it would have been told until now."""
        transport.set_protocol(to)
        to.connection_made(transport)
        if self._data:
            to.data_received(bytes(self._data))
        if self._eof:
            to.eof_received()
        if self._lost:
            to.connection_lost(self._why)


async def reverse_name(ip: str) -> str | None:
    """Return what an address resolves to, None when that is nothing or takes too long."""
    looking = asyncio.get_running_loop().getnameinfo((ip, 0), socket.NI_NAMEREQD)
    try:
        return (await asyncio.wait_for(looking, REVERSE_S))[0]
    except (OSError, asyncio.TimeoutError):
        return None


class Tls:
    """How one program speaks TLS."""

    def __init__(self, settings: TlsSettings, *, reverse: Reverse = reverse_name) -> None:
        """Read certificates and keys. Raises BadInput when they are not what they should be, or have expired."""
        self.settings, self._reverse = settings, reverse
        self._seen = self._refused = self._files()
        self._warned_s = -math.inf
        self._load()
        self._for_urls: list[ssl.SSLContext] = []
        self._without: set[tuple[str, int]] = set()

    def _load(self) -> None:
        certificate = own_certificate(self.settings)
        server, client = server_context(self.settings), client_context(self.settings)
        self.server, self.client, self._certificate = server, client, certificate

    def for_urls(self) -> ssl.SSLContext:
        """Return the context for HTTP clients, which verifies servers by the name in the URL.

        It follows a renewed certificate and added authorities. A removed authority is trusted until the program ends.
        """
        context = client_context(self.settings)
        context.check_hostname = self.settings.verify_server
        self._for_urls.append(context)
        return context

    def look(self, now_s: float) -> None:
        """Read the files again if they have changed, for new connections; warn if the certificate expires soon.

        Files that cannot be used change nothing: a certificate and its key are replaced one after the other.
        """
        files = self._files()
        if files != self._seen:
            try:
                self._load()
                for context in self._for_urls:
                    renew(context, self.settings)
            except BadInput as error:
                if files != self._refused:
                    log.warning("TLS goes on with the certificates of before: %s", error)
                self._refused = files
            else:
                self._seen, self._warned_s = files, -math.inf
                log.info("TLS: %s and what belongs to it was read again", self.settings.cert_file)
        if now_s - self._warned_s >= DAY_S and expires_soon(self._certificate, now_s):
            self._warned_s = now_s
            log.warning(
                "the certificate %s expires at %s: renew it; it is read again when the file changes",
                self.settings.cert_file,
                self._certificate["notAfter"],
            )

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self.look(time.time())
            await asyncio.sleep(LOOK_S)

    def _files(self) -> tuple[object, ...]:
        """Return what is different after each change of the files."""
        settings = self.settings
        paths = [settings.cert_file, settings.key_file, settings.ca_file, settings.ca_dir]
        return tuple(None if path is None else file_print(Path(path)) for path in paths)

    async def connect(self, make: MakeProtocol, address: tuple[str, int], name: str | None = None) -> None:
        """Connect to `address`, by TLS or, where that is allowed and TLS failed, without.

        `name` is how the peer is called by whoever said where it is. Raises OSError, Unavailable.
        """
        try:
            await self._connect(make, address, name)
        except (OSError, Unavailable) as error:
            if not self.settings.downgrade:
                raise Unavailable(tls_problem(error)) from None
            await asyncio.get_running_loop().create_connection(make, *address)
            if address not in self._without:
                self._without.add(address)
                log.warning("speaking without TLS to %s:%d: %s", *address, tls_problem(error))

    async def _connect(self, make: MakeProtocol, address: tuple[str, int], name: str | None) -> None:
        if self.client.check_hostname and name is None and not self.settings.verify_ip:
            raise Unavailable(
                f"its name is not known, and {PREFIX}VERIFY_IPADD is off, so its certificate cannot be compared"
            )
        transport, held = await self._handshake(address, [name, address[0]] if name else [address[0]])
        try:
            if self.settings.verify_server:
                await self._compare(transport, address[0], name)
        except BaseException:
            transport.abort()
            raise
        held.hand_over(transport, make())

    async def _handshake(self, address: tuple[str, int], names: list[str]) -> tuple[asyncio.Transport, _Held]:
        """Connect to a server that can prove one of these names to be its own. Raises OSError.

        With VERIFY_IPADD its address will do as well as the name that it was given: so it is on Mesos, where an agent
        forgets the name in its --master as soon as it knows the address.
        """
        if not self.settings.verify_ip or not self.client.check_hostname:
            names = names[:1]
        while True:
            called = names.pop(0)
            try:
                return await asyncio.get_running_loop().create_connection(
                    _Held, *address, ssl=self.client, server_hostname=called, ssl_handshake_timeout=HANDSHAKE_S
                )
            except ssl.SSLCertVerificationError as error:
                if not names or error.verify_code not in _OTHER_NAME:
                    raise

    async def admit(self, connection: socket.socket, ip: str, make: MakeProtocol) -> None:
        """Serve one accepted connection, without TLS if it begins so and that is allowed. Raises OSError, Unavailable.

        The connection is closed when this raises.
        """
        loop = asyncio.get_running_loop()
        if self.settings.downgrade and await _begins_with(connection) != CLIENT_HELLO:
            await loop.connect_accepted_socket(make, connection)
            return
        transport, held = await loop.connect_accepted_socket(
            _Held, connection, ssl=self.server, ssl_handshake_timeout=HANDSHAKE_S
        )
        try:
            if self.settings.require_client:
                await self._compare(transport, ip, None)
            held.hand_over(transport, make())
        except BaseException:
            transport.abort()
            raise

    async def _compare(self, transport: asyncio.Transport, ip: str, name: str | None) -> None:
        """Compare the certificate with its peer. Raises Unavailable when it is another's."""
        if self.settings.scheme != "legacy":
            return  # servers were compared in the handshake, clients are not
        certificate = transport.get_extra_info("peercert") or {}
        problem = not_of(certificate, ip, await self._reverse(ip) or name, by_ip=self.settings.verify_ip)
        if problem is not None:
            raise Unavailable(problem)


class TlsListener:
    """A port whose connections begin with a handshake; nobody waits for another's."""

    def __init__(self, tls: Tls, ip: str, port: int, make: MakeProtocol) -> None:
        """Listen. Raises OSError when the port cannot be had."""
        self._tls, self._make = tls, make
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        self._socket = socket.create_server((ip, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._coming: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Accept nobody more, and give up handshakes that are under way."""
        tasks = [self._accepting, *self._coming]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._socket)
            except OSError as error:
                if error.errno != errno.ECONNABORTED:  # that peer is gone already
                    log.error("cannot accept connections for now: %s", error.strerror)
                    await asyncio.sleep(_NO_ROOM_PAUSE_S)
                continue
            task = loop.create_task(self._admit(connection, peer))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _admit(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            await self._tls.admit(connection, peer[0], self._make)
        except (OSError, Unavailable) as error:
            log.warning("no connection with %s:%d: %s", *peer[:2], tls_problem(error))


async def _begins_with(connection: socket.socket) -> int | None:
    """Return the first byte that comes, and leave it there; None when the peer goes without a word.

    Raises Unavailable, with the connection closed, when it says nothing for HANDSHAKE_S.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(connection.fileno(), lambda: None if ready.done() else ready.set_result(None))
    try:
        await asyncio.wait_for(ready, HANDSHAKE_S)
        first = connection.recv(1, socket.MSG_PEEK)
    except BaseException as error:
        loop.remove_reader(connection.fileno())
        connection.close()
        if isinstance(error, asyncio.TimeoutError):
            raise Unavailable(f"nothing came from it for {HANDSHAKE_S:g} s") from None
        raise
    loop.remove_reader(connection.fileno())
    return first[0] if first else None


def for_children(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a program of ours in another folder speaks TLS as this one does; none if not."""
    if read_tls_settings(environ)[0] is None:
        return {}
    found = tls_variables(environ)
    paths = {name: str(Path(text).absolute()) for name, text in found.items() if name.endswith(("_FILE", "_DIR"))}
    return {**found, **paths}


def open_tls(environ: Mapping[str, str]) -> Tls | None:
    """Return how a program with this environment speaks TLS, None when it does not; the log says what is weak about it.

    Raises BadInput when it cannot be done as asked.
    """
    settings, said = read_tls_settings(environ)
    for line in said:
        log.warning("%s", line)
    return None if settings is None else Tls(settings)
