"""What a Marathon tells on /v2/events, kept as it comes."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit


class Listener:
    """Listens in a thread of its own from `with` on; what was told before is not heard."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        self._heard: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Listener:
        self._connection.connect()
        self._socket: socket.socket = self._connection.sock
        self._connection.request("GET", "/v2/events", headers={"Accept": "text/event-stream"})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self._socket.settimeout(None)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # closing alone would wait for who reads
        self._thread.join()
        self._answer.close()
        self._connection.close()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return what was told of a kind, in order."""
        return [one for one in list(self._heard) if one["eventType"] == kind]

    def _listen(self) -> None:
        try:
            while line := self._answer.readline():
                if line.startswith(b"data:"):
                    self._heard.append(json.loads(line.removeprefix(b"data:")))
        except (OSError, ValueError, http.client.HTTPException):
            pass  # it was closed while it read
