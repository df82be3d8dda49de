"""Calls of an agent's v1 API whose answer, or whose request, is a stream of records that continues while it is used."""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from marathon_cli.connection.access import NoAnswer, stranger
from marathon_cli.connection.http import HttpClient
from mesos_gpu.errors import NotFound, Refused, Unavailable
from mesos_gpu.mesos.recordio import RecordDecoder

PATH = "/api/v1"
RECORDIO, JSON = "application/recordio", "application/json"
_PIECE = 64 * 1024
_LAST_WORDS_S = 2.0


class Answers:
    """A call whose answer is a stream of records. Made when the agent has accepted the call.

    Raises Unavailable when the agent cannot be reached, NotFound and Refused when it says no.
    """

    def __init__(self, agent: HttpClient, call: Mapping[str, Any]) -> None:
        self._agent, self._left = agent, False
        headers = {"Content-Type": JSON, "Accept": RECORDIO, "Message-Accept": JSON}
        self._answer = agent.records(PATH, headers=headers, data=json.dumps(call).encode())
        if self._answer.status_code != 200:
            with self._answer:
                raise _refusal(agent, self._answer.status_code, self._answer.reason, self._body())

    def records(self) -> Iterator[bytes]:
        """Yield the records as they come, until the agent ends them or `leave` is called. Raises Unavailable."""
        decoder = RecordDecoder()
        try:
            for chunk in self._answer.pieces():
                yield from decoder.feed(chunk)
        except (NoAnswer, ValueError) as error:
            if not self._left:
                raise Unavailable(f"the connection to the agent {self._agent.url} broke: {error}") from None
        if decoder.pending and not self._left:
            raise Unavailable(f"the connection to the agent {self._agent.url} broke in the midst of a record")

    def leave(self) -> None:
        """End the call, from any thread: whoever waits for records gets no more."""
        self._left = True
        self._answer.cut()

    def close(self) -> None:
        """Close the connection. With a session's, the agent ends the session."""
        self._left = True
        self._answer.close()

    def _body(self) -> bytes:
        try:
            return next(self._answer.pieces(), b"")
        except NoAnswer:
            return b""


class Feed:
    """A call whose request is a stream of records, sent when they are there; for one thread at a time."""

    def __init__(self, agent: HttpClient) -> None:
        self._agent = agent
        headers = {"Content-Type": RECORDIO, "Message-Content-Type": JSON, "Transfer-Encoding": "chunked"}
        self._connection = agent.begin(PATH, headers=headers)
        # http.client lets go of its socket when the answer says that it is the last one.
        self._socket: socket.socket = self._connection.sock

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the agent says something (`look` then)."""
        return self._socket.fileno()

    def send(self, record: bytes) -> None:
        """Send a record. Raises OSError when the agent no longer listens; `look` may tell why."""
        self._socket.sendall(b"%x\r\n%b\r\n" % (len(record), record))

    def look(self) -> bool:
        """Return whether the agent has ended the call by itself; raise NotFound or Refused when it refused it."""
        said = self._glance()
        if said is None:
            return False
        if said.startswith(b"HTTP/"):
            response = http.client.HTTPResponse(_Bytes(said))  # type: ignore[arg-type]
            response.begin()
            if response.status != 200:
                raise _refusal(self._agent, response.status, response.reason, response.read(_PIECE))
        return True

    def end(self) -> None:
        """Say that no more records follow, and close; an agent that is gone by now has missed nothing."""
        try:
            self._socket.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        self._connection.close()

    def close(self) -> None:
        """Close the connection at once."""
        self._connection.close()

    def _glance(self) -> bytes | None:
        """Return the whole answer when there is one (nothing when the connection ended without), else None.

        A readable TLS socket need not have an answer: the peer may have sent tickets.
        """
        said = b""
        try:
            self._socket.setblocking(False)
            said = self._socket.recv(_PIECE)
            self._socket.settimeout(_LAST_WORDS_S)
            while said and not _whole(said) and (more := self._socket.recv(_PIECE)):
                said += more
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            pass  # what was said before the connection broke may be a whole answer
        finally:
            self._socket.settimeout(None)
        return said


def ask(agent: HttpClient, call: Mapping[str, Any]) -> tuple[int, bytes]:
    """Make a call and wait for its answer without end; return status and body. Raises Unavailable."""
    headers = {"Content-Type": JSON, "Accept": JSON}
    with agent.records(PATH, headers=headers, data=json.dumps(call).encode(), read_s=None) as answer:
        try:
            return answer.status_code, answer.content
        except NoAnswer as error:
            raise Unavailable(f"the connection to the agent {agent.url} broke: {error}") from None


def _refusal(agent: HttpClient, status: int, reason: str, content: bytes) -> NotFound | Refused | Unavailable:
    body = content.decode("utf-8", "replace").strip()
    words = body or reason
    if status == 404:
        return NotFound(words)
    if status == 401:
        said = f" ({body})" if body else ""
        return Refused(f"the agent {agent.url} {stranger(agent.access)}{said}", status=status, body=body)
    if status == 403:
        return Refused(f"the agent {agent.url} does not let us do this: {words}", status=status, body=body)
    if status == 503:
        return Unavailable(f"the agent {agent.url} cannot answer now: {words}")
    return Refused(f"the agent {agent.url} refuses this: {words}", status=status, body=body)


def _whole(said: bytes) -> bool:
    """Return whether an answer is complete, as far as its head says."""
    head, gap, body = said.partition(b"\r\n\r\n")
    if not gap:
        return False
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return False


class _Bytes:
    """What http.client takes for a socket that has received these bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)
