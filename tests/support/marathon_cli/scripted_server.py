"""A scripted HTTP server on loopback, for the command line."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from click.testing import Result

GPU_APP = {"id": "train", "cmd": "nvidia-smi", "cpus": 1, "mem": 128, "gpus": 2}


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


class Answer(NamedTuple):
    """What the server says; a body that is bytes goes as it is, anything else as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = MappingProxyType({})


Script = Answer | Callable[[Request], Answer] | list[Answer]


@dataclass
class ScriptedServer:
    """Answers each (method, path) as told; a list is answered one by one, its last forever."""

    url: str = ""
    scripts: dict[tuple[str, str], Script] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def on(self, method: str, path: str, script: Script | dict[str, Any] | list[Any]) -> None:
        plain = isinstance(script, dict) or (isinstance(script, list) and not isinstance((script or [0])[0], Answer))
        self.scripts[method, path] = Answer(200, script) if plain else script  # type: ignore[assignment]

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        script = self.scripts.get((request.method, request.path))
        if script is None:
            return Answer(404, {"message": f"{request.path} does not exist"})
        if isinstance(script, Answer):
            return script
        if isinstance(script, list):
            return script.pop(0) if len(script) > 1 else script[0]
        return script(request)

    def sent(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]


class _Server(ThreadingHTTPServer):
    """Ends connections of clients that do not like us, or whom we do not like, without a word."""

    tls: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        with self.tls.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (ssl.SSLError, ConnectionError)):
            super().handle_error(request, client_address)


@contextmanager
def scripted_server(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """A server on loopback that answers as it is told, over TLS with a context."""
    scripted = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(data) if data else None
            query = dict(parse_qsl(parts.query))
            answer = scripted.answer(
                Request(self.command, unquote(parts.path), query, body, dict(self.headers.items()))
            )
            raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(raw)),
                **answer.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_DELETE = _handle

        def log_message(self, *_: object) -> None:
            pass

    http = _Server(("127.0.0.1", 0), Handler)
    http.tls = tls
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scripted.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{http.server_address[1]}"
    try:
        yield scripted
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


Run = Callable[..., Result]
