"""Calls of the default executor to its agent, each over a connection of its own; they block, so threads make them."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mesos_gpu.base.linux import sockets
from mesos_gpu.errors import ProtocolError, Unavailable
from mesos_gpu.executor.http1 import Answer, post
from mesos_gpu.mesos.ids import ExecutorId, FrameworkId

CONNECT_S = 10.0
Wrap = Callable[[socket.socket, str], socket.socket]
"""Puts TLS on a connection to an address."""
GONE = (502, 503, 504)
"""Answers of an agent that is not ready: as good as none."""


class Agent:
    """The agent at `endpoint` (`ip:port`), spoken to by one executor. Every method may be called from any thread.

    `socket_path` leads to the same agent where that address does not, as from a network of the executor's own. `token`
    is what the agent gave us to show who we are, None where it asks nobody. `wrap` puts TLS on connections to the
    address; a socket of the file system has none.
    """

    def __init__(
        self,
        endpoint: str,
        framework_id: FrameworkId,
        executor_id: ExecutorId,
        socket_path: str | None = None,
        token: str | None = None,
        *,
        wrap: Wrap | None = None,
    ) -> None:
        self._socket_path, self._token = socket_path, token
        self._host, self._wrap = endpoint, wrap
        address, _, port = endpoint.rpartition(":")
        self._address = (address.strip("[]"), int(port))
        self._who = {"framework_id": {"value": framework_id}, "executor_id": {"value": executor_id}}
        self._stream: socket.socket | None = None

    def events(self, subscribe: Mapping[str, Any]) -> Iterator[Any]:
        """Subscribe, and yield events until the stream ends. Raises Unavailable when there is no stream to be had."""
        call = {**self._who, "type": "SUBSCRIBE", "subscribe": subscribe}
        with self._connect() as connection:
            if self._socket_path is None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            try:
                answer = post(connection, self._host, "/api/v1/executor", call, self._token)
                if answer.status != 200:
                    raise Unavailable(f"SUBSCRIBE: {answer.status} {answer.body().decode(errors='replace')}")
                self._stream = connection
                yield from answer.records()
            except (OSError, ProtocolError, ValueError) as error:
                raise Unavailable(f"the agent's stream of events broke: {error}") from None
            finally:
                self._stream = None

    def hang_up(self) -> None:
        """Break the stream of events, so that all that may have been lost is told again."""
        stream = self._stream
        if stream is not None:
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it broke by itself

    def executor_call(self, call: Mapping[str, Any]) -> tuple[int, str]:
        """Make a call of the executor API; return status and body. Raises Unavailable."""
        return self._call("/api/v1/executor", {**self._who, **call})

    def container_call(self, kind: str, body: Mapping[str, Any], timeout_s: float | None = None) -> tuple[int, str]:
        """Make a call such as WAIT_NESTED_CONTAINER; return status and body. Raises Unavailable, TimeoutError."""
        return self._call("/api/v1", {"type": kind, kind.lower(): body}, timeout_s)

    def ended(self, container_id: Mapping[str, Any], timeout_s: float | None = None) -> Mapping[str, Any] | None:
        """Return how a nested container ended, once it has; None when it is not known. Raises as container_call."""
        kind = "WAIT_NESTED_CONTAINER"
        status, body = self.container_call(kind, {"container_id": container_id}, timeout_s)
        if status != 200:
            return None
        found = json.loads(body).get(kind.lower(), {})
        return found if isinstance(found, dict) else None

    def _call(self, path: str, document: Mapping[str, Any], timeout_s: float | None = None) -> tuple[int, str]:
        with self._connect() as connection:
            connection.settimeout(timeout_s)
            try:
                answer: Answer = post(connection, self._host, path, document, self._token)
                body = answer.body().decode(errors="replace")
            except TimeoutError:
                raise TimeoutError(f"{document['type']} took longer than {timeout_s} s") from None
            except (OSError, ProtocolError, ValueError) as error:
                raise Unavailable(f"{document['type']}: {error}") from None
        if answer.status in GONE:
            raise Unavailable(f"{document['type']}: {answer.status} {body}")
        return answer.status, body

    def _connect(self) -> socket.socket:
        try:
            if self._socket_path is not None:
                connection = sockets.connect(self._socket_path, timeout_s=CONNECT_S)
            else:
                connection = socket.create_connection(self._address, timeout=CONNECT_S)
        except OSError as error:
            raise Unavailable(f"no agent at {self._host}: {error}") from None
        if self._wrap is not None and self._socket_path is None:
            connection = self._wrap(connection, self._address[0])
        connection.settimeout(None)
        return connection
