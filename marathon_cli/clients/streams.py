"""Calls of an agent's v1 API whose answer, or whose request, is a stream of records that continues while it is used."""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from marathon_cli.connection import transport
from marathon_cli.connection.access import proxy_for, stranger
from marathon_cli.connection.http import HttpClient
from marathon_cli.connection.transport import connection
from mesos_gpu.errors import NotFound, Refused, Unavailable
from mesos_gpu.mesos.recordio import RecordDecoder

PATH = "/api/v1"
RECORDIO, JSON = "application/recordio", "application/json"
_PIECE = 64 * 1024
_KEEPALIVE_S = 30
_LAST_WORDS_S = 2.0


class Answers:
    """A call whose answer is a stream of records. Made when the agent has accepted the call.

    Raises Unavailable when the agent cannot be reached, NotFound and Refused when it says no.
    """

    def __init__(self, agent: HttpClient, call: Mapping[str, Any]) -> None:
        self._agent, self._left = agent, False
        self._connection = _Connection(agent)
        headers = {"Content-Type": JSON, "Accept": RECORDIO, "Message-Accept": JSON}
        body = json.dumps(call).encode()
        try:
            self._response = self._connection.post(headers, body)
            if self._response.status != 200:
                raise _refusal(agent, self._response)
        except BaseException:
            self._connection.close()
            raise
        # A process may be silent for days. That the agent is still there is for the kernel to find out.
        self._connection.wait_for_ever()

    def records(self) -> Iterator[bytes]:
        """Yield the records as they come, until the agent ends them or `leave` is called. Raises Unavailable."""
        decoder = RecordDecoder()
        try:
            while chunk := self._response.read1(_PIECE):
                yield from decoder.feed(chunk)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._left:
                raise Unavailable(f"the connection to the agent {self._agent.url} broke: {_said(error)}") from None
        if decoder.pending and not self._left:
            raise Unavailable(f"the connection to the agent {self._agent.url} broke in the midst of a record")

    def leave(self) -> None:
        """End the call, from any thread: whoever waits for records gets no more."""
        self._left = True
        self._connection.cut()

    def close(self) -> None:
        """Close the connection. With a session's, the agent ends the session."""
        self._left = True
        self._connection.close()


class Feed:
    """A call whose request is a stream of records, sent when they are there; for one thread at a time."""

    def __init__(self, agent: HttpClient) -> None:
        self._agent = agent
        self._connection = _Connection(agent)
        headers = {"Content-Type": RECORDIO, "Message-Content-Type": JSON, "Transfer-Encoding": "chunked"}
        try:
            self._connection.begin(headers)
        except BaseException:
            self._connection.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the agent says something (`look` then)."""
        return self._connection.socket.fileno()

    def send(self, record: bytes) -> None:
        """Send a record. Raises OSError when the agent no longer listens; `look` may tell why."""
        self._connection.socket.sendall(b"%x\r\n%b\r\n" % (len(record), record))

    def look(self) -> bool:
        """Return whether the agent has ended the call by itself; raise NotFound or Refused when it refused it."""
        said = self._connection.glance()
        if said is None:
            return False
        if said.startswith(b"HTTP/"):
            response = http.client.HTTPResponse(_Bytes(said))  # type: ignore[arg-type]
            response.begin()
            if response.status != 200:
                raise _refusal(self._agent, response)
        return True

    def end(self) -> None:
        """Say that no more records follow, and close; an agent that is gone by now has missed nothing."""
        try:
            self._connection.socket.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        self._connection.close()

    def close(self) -> None:
        """Close the connection at once."""
        self._connection.close()


def ask(agent: HttpClient, call: Mapping[str, Any]) -> tuple[int, bytes]:
    """Make a call on a connection of its own and wait for its answer without end; return status and body.

    Raises Unavailable.
    """
    connection = _Connection(agent)
    try:
        response = connection.post({"Content-Type": JSON, "Accept": JSON}, json.dumps(call).encode(), patient=True)
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"the connection to the agent {agent.url} broke: {_said(error)}") from None
    finally:
        connection.close()


class _Connection:
    """One connection to an agent: through a proxy or not, with TLS or not. Raises Unavailable when there is none."""

    def __init__(self, agent: HttpClient) -> None:
        self._agent, self._access = agent, agent.access
        parts = urlsplit(agent.url)
        self._target = f"{parts.path}{PATH}"
        proxy = proxy_for(agent.url, self._access, os.environ)
        if proxy is not None and (parts.scheme, urlsplit(proxy).scheme) == ("https", "https"):
            raise Unavailable(f"{agent.url} cannot be used like this through a proxy that speaks TLS itself")
        # A tunnel also without TLS: a proxy that understands requests would wait for the end of what has none.
        self._http = connection(agent.url, self._access, proxy, tunnel=True)
        try:
            self._http.connect()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            why = transport.tls_reason(str(error)) if isinstance(error, ssl.SSLError) else None
            raise Unavailable(f"no {agent.what} answers at {agent.url}: {why or _said(error)}") from None
        # http.client lets go of its socket when the answer says that it is the last one.
        self.socket: socket.socket = self._http.sock
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in (("TCP_KEEPIDLE", _KEEPALIVE_S), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                self.socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)

    def post(self, headers: Mapping[str, str], body: bytes, *, patient: bool = False) -> http.client.HTTPResponse:
        """Send a request and return the answer's begin."""
        self.socket.settimeout(None if patient else self._access.read_s)
        try:
            self._http.request("POST", self._target, body, {**self._shared(), **headers})
            return self._http.getresponse()
        except (OSError, http.client.HTTPException) as error:
            why = transport.tls_reason(str(error)) if isinstance(error, ssl.SSLError) else None
            raise Unavailable(f"{self._agent.url} does not answer: {why or _said(error)}") from None

    def begin(self, headers: Mapping[str, str]) -> None:
        """Send the head of a request whose body follows on the socket."""
        try:
            self._http.putrequest("POST", self._target)
            for name, value in {**self._shared(), **headers}.items():
                self._http.putheader(name, value)
            self._http.endheaders()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self._agent.url} does not listen: {_said(error)}") from None
        self.wait_for_ever()

    def wait_for_ever(self) -> None:
        self.socket.settimeout(None)

    def glance(self) -> bytes | None:
        """Return the whole answer when there is one (nothing when the connection ended without), else None.

        A readable TLS socket need not have an answer: the peer may have sent tickets.
        """
        said = b""
        try:
            self.socket.setblocking(False)
            said = self.socket.recv(_PIECE)
            self.socket.settimeout(_LAST_WORDS_S)
            while said and not _whole(said) and (more := self.socket.recv(_PIECE)):
                said += more
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            pass  # what was said before the connection broke may be a whole answer
        finally:
            self.socket.settimeout(None)
        return said

    def cut(self) -> None:
        """End the connection under whoever reads it."""
        try:
            # Not SSLSocket.shutdown, which would take the TLS state away from under the reader.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass

    def close(self) -> None:
        self._http.close()

    def _shared(self) -> dict[str, str]:
        who = self._access.authorization
        return {} if who is None else {"Authorization": who}


def _refusal(agent: HttpClient, response: http.client.HTTPResponse) -> NotFound | Refused | Unavailable:
    body = response.read(_PIECE).decode("utf-8", "replace").strip()
    words = body or response.reason
    if response.status == 404:
        return NotFound(words)
    if response.status == 401:
        said = f" ({body})" if body else ""
        return Refused(f"the agent {agent.url} {stranger(agent.access)}{said}", status=response.status, body=body)
    if response.status == 403:
        return Refused(f"the agent {agent.url} does not let us do this: {words}", status=response.status, body=body)
    if response.status == 503:
        return Unavailable(f"the agent {agent.url} cannot answer now: {words}")
    return Refused(f"the agent {agent.url} refuses this: {words}", status=response.status, body=body)


def _said(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "the agent went away"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.lower() or type(error).__name__


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
