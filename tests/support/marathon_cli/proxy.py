"""A proxy on loopback: passes requests with whole URLs on, and opens tunnels for CONNECT."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Proxy:
    """What went through: request lines, and what each client said of itself to the proxy."""

    url: str = ""
    seen: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    refuses: bool = False


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.0"

    def do_CONNECT(self) -> None:
        self._note()
        if self.server.made.refuses:
            self.send_error(403, "not through here")
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as beyond:
            self.send_response(200, "Connection established")
            self.end_headers()
            self._carry(beyond)

    def _pass_on(self) -> None:
        self._note()
        parts = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        connection = HTTPConnection(str(parts.hostname), parts.port or 80, timeout=10)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "proxy-connection")}
        connection.request(self.command, target, data, headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _pass_on

    def _note(self) -> None:
        self.server.made.seen.append(f"{self.command} {self.path}")
        self.server.made.logins.append(self.headers.get("Proxy-Authorization"))

    def _carry(self, beyond: socket.socket) -> None:
        ends = {self.connection: beyond, beyond: self.connection}
        while True:
            for end in select.select(list(ends), [], [], 10)[0]:
                data = end.recv(65536)
                if not data:
                    return
                ends[end].sendall(data)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self, made: Proxy, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.made, self._tls = made, tls

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)


@contextmanager
def proxy(tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    """A proxy on a free port; with a context it speaks TLS itself."""
    made = Proxy()
    server = _Server(made, tls)
    made.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
