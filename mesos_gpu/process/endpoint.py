"""One TCP port of a Mesos program: its HTTP API, incoming libprocess messages, and links to other programs."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from mesos_gpu.base.linux.sockets import EVERY_USER, listen
from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.process.connections import Connections, Listener
from mesos_gpu.process.front import Front
from mesos_gpu.process.http import SHORT_REFUSALS
from mesos_gpu.process.links import Links, close_all
from mesos_gpu.process.peers import is_same_user
from mesos_gpu.process.secure.tls import BACKLOG, Tls, TlsListener
from mesos_gpu.process.streams import close_streams

log = logging.getLogger(__name__)

# pymesos keeps one connection for its calls and fails a call when it was closed for being idle.
_KEEPALIVE_S = 30 * 86400.0
# How long a stop waits for HTTP answers that are under way; streams are closed first.
_SHUTDOWN_S = 2.0
# A sender that was refused in the middle of its body has so long to read why.
_LINGER_S = 10.0


class _Local(Struct, frozen=True):
    on_message: Callable[[Message], None]
    on_exited: Callable[[Pid], None] | None


class Endpoint:
    """The port of one program. Everything happens in the event loop's thread; callbacks must not block it."""

    def __init__(
        self,
        ip: str,
        port: int,
        *,
        advertise_ip: str | None = None,
        advertise_port: int | None = None,
        tls: Tls | None = None,
        most_connections: int | None = None,
        same_user_peers: bool = False,
    ) -> None:
        """Describe the port; 0 takes a free one at start. `advertise_*` is what others are told to answer to.

        `most_connections` at a time; by default as many as this process may have open files. With `same_user_peers`
        messages are taken only from this machine's programs that run as root or as we do.
        """
        self.ip, self.port = ip, port
        self._advertise_ip, self._advertise_port = advertise_ip or ip, advertise_port
        self._last_pid = Pid("", "", 0)
        self._locals: dict[str, _Local] = {}
        self._tls, self._same_user_peers = tls, same_user_peers
        self._links = Links(self._link_broken, tls)
        self._connections = Connections(most_connections)
        self._accepted = 0
        self._listeners: list[TlsListener] = []
        self._plain: list[Listener] = []
        self._socket_path: Path | None = None
        self._runner: web.AppRunner | None = None
        self._following: list[asyncio.Task[None]] = []
        """Looks for changed certificates."""

    def pid(self, process_id: str) -> Pid:
        """Return the pid of a process of this endpoint, as others see it; valid after start."""
        port = self._advertise_port or self.port
        if self._last_pid.id != process_id or self._last_pid.port != port:
            self._last_pid = Pid(process_id, self._advertise_ip, port)
        return self._last_pid

    @property
    def url(self) -> str:
        """Return where others find the HTTP API; valid after start."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self._advertise_ip}:{self._advertise_port or self.port}"

    async def start(
        self, app: web.Application, socket_path: Path | None = None, *, socket_mode: int = EVERY_USER
    ) -> None:
        """Listen, and serve `app` to whoever speaks HTTP; `socket_path` is a second way in, for this machine alone.

        There nothing is encrypted. By default whoever sees that file may use it, as every user of the machine may use
        a port of the loopback. Raises Unavailable when the port, or the file, cannot be had.
        """
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEPALIVE_S,
            shutdown_timeout=_SHUTDOWN_S,
            lingering_time=_LINGER_S,
            auto_decompress=False,  # bodies are decompressed, and bounded, in bodies.py
        )
        app.on_shutdown.append(close_streams)
        logging.getLogger("aiohttp.server").addFilter(SHORT_REFUSALS)
        await runner.setup()
        http = runner.server
        if http is None:
            raise RuntimeError("an application runner that was set up has a server")
        try:
            self._listen(lambda: self._front(http))
        except OSError as error:
            await runner.cleanup()
            raise Unavailable(_why_no_port(self.ip, self.port, error)) from None
        self._runner = runner
        if socket_path is not None:
            self._socket_path = socket_path
            try:
                listening = listen(socket_path, mode=socket_mode)
                listening.listen(BACKLOG)
                self._plain.append(Listener(listening, lambda: self._front(http), self._connections))
            except OSError as error:
                await self.stop()
                raise Unavailable(f"cannot listen at {socket_path}: {error.strerror or error}") from None

    def _listen(self, front: Callable[[], Front]) -> None:
        if self._tls is not None:
            self._listeners.append(TlsListener(self._tls, self.ip, self.port, front))
            self.port = self._listeners[0].port
            self._follow(self._tls)
        else:
            family = socket.AF_INET6 if ":" in self.ip else socket.AF_INET
            listening = socket.create_server((self.ip, self.port), family=family, backlog=BACKLOG)
            self._plain.append(Listener(listening, front, self._connections))
            self.port = self._plain[0].port

    async def also_listen(self, tls: Tls, ip: str, port: int) -> int:
        """Serve the same over TLS at another port, to be called after start; return that port. Raises Unavailable."""
        http = None if self._runner is None else self._runner.server
        if http is None:
            raise RuntimeError("an endpoint that was started has a server")
        try:
            listener = TlsListener(tls, ip, port, lambda: self._front(http))
        except OSError as error:
            raise Unavailable(_why_no_port(ip, port, error)) from None
        self._listeners.append(listener)
        self._follow(tls)
        return listener.port

    def _follow(self, tls: Tls) -> None:
        self._following.append(asyncio.get_running_loop().create_task(tls.follow()))

    def spawn(
        self,
        process_id: str,
        on_message: Callable[[Message], None],
        on_exited: Callable[[Pid], None] | None = None,
    ) -> None:
        """Take messages for `process_id` from now on; `on_exited` is told of broken links this process made."""
        self._locals[process_id] = _Local(on_message, on_exited)

    def terminate(self, process_id: str) -> None:
        """Take no more messages for `process_id`: senders get 404, as from libprocess."""
        self._locals.pop(process_id, None)

    def link(self, owner_id: str, to: Pid) -> None:
        """Keep a connection to `to`; when it breaks, `owner_id` is told once and the link is gone."""
        self._links.link(owner_id, to)

    def unlink(self, to: Pid, *, silent: bool = False) -> None:
        """Give up the connection to `to`: it is somebody else's turn, or the connection is thought to be dead.

        With `silent` what was sent and has not arrived is dropped; else it may arrive much later, when a network heals.
        """
        self._links.unlink(to, silent=silent)

    def send(self, from_id: str, to: Pid, name: str, body: bytes) -> None:
        """Send a message: at most once, in order over one link, and no word when it is lost."""
        sender = self.pid(from_id)
        if to.address == sender.address:
            asyncio.get_running_loop().call_soon(self._deliver, Message(sender, to.id, name, body))
        else:
            self._links.write(to, libprocess.encode(sender, to, name, body))

    async def stop(self) -> None:
        """Stop listening, close streams and links, and let answers under way finish (up to 2 s)."""
        self._connections.closing = True
        for task in self._following:
            task.cancel()
        for plain in self._plain:
            plain.close()
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)
        for listener in self._listeners:
            await listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        fronts = list(self._connections)
        for front in fronts:
            front.close()
        await asyncio.gather(self._links.stop(), close_all({front.lost: front.abort for front in fronts}))

    def is_open(self, connection: int) -> bool:
        """Return whether a connection that messages came over is still there."""
        return any(front.number == connection and not front.lost.done() for front in self._connections)

    def hang_up(self, connection: int) -> None:
        """Close a connection that messages came over, if it is still there."""
        for front in self._connections:
            if front.number == connection:
                front.abort()

    def _front(self, http: Callable[[], asyncio.Protocol]) -> Front:
        self._accepted += 1
        front = Front(http, self._deliver, self._may_send, self._accepted)
        self._connections.admit(front)
        return front

    def _may_send(self, transport: asyncio.Transport) -> bool:
        connection: socket.socket | None = transport.get_extra_info("socket")
        # A socket file is for HTTP. Its clients show no certificate, and are users of this machine.
        if not self._same_user_peers and (connection is None or connection.family != socket.AF_UNIX):
            return True
        return connection is not None and is_same_user(connection)

    def _deliver(self, message: Message) -> bool:
        local = self._locals.get(message.target)
        if local is None:
            return False
        try:
            local.on_message(message)
        except Exception:
            # One bad message must not take the connection, and with it every later message, away.
            log.exception("could not handle %s from %s", message.name, message.sender)
        return True

    def _link_broken(self, owner_id: str, to: Pid) -> None:
        local = self._locals.get(owner_id)
        if local is not None and local.on_exited is not None:
            local.on_exited(to)


def _why_no_port(ip: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {ip} is taken by another program; stop that one or choose another port (0: any free one)"
        )
    return f"cannot listen on {ip}:{port}: {error.strerror or error}"
