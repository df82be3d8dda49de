"""HTTP/1.1 on connections that are kept: one request, one answer, and in plain words why there is none.

Over the standard library alone, because every command that asks a server waits until its HTTP client is imported.
What to do with an answer or a failure (redirects, other servers, errors of ours) is decided in http.py.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from marathon_cli.connection.access import IN_URLS, Access, NoAnswer, origin
from mesos_gpu.errors import BadInput

BROKE_OFF = "it broke off; it may want a client certificate (--client-cert), or another one, or speak http"
"""What a server means that hangs up before its reason has been read: it refuses our certificate, or wants one."""
_REASONS = (
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet; is this machine's clock right?"),
    ("hostname mismatch", "its certificate is for another host name"),
    ("ip address mismatch", "its certificate is for another address"),
    ("self-signed certificate", "no trusted authority signed its certificate; --ca FILE names the authority that did"),
    ("self signed certificate", "no trusted authority signed its certificate; --ca FILE names the authority that did"),
    (
        "unable to get local issuer",
        "no trusted authority signed its certificate; --ca FILE names the authority that did",
    ),
    ("unable to get issuer", "no trusted authority signed its certificate; --ca FILE names the authority that did"),
    ("certificate_required", "it wants a client certificate: --client-cert FILE"),
    ("certificate required", "it wants a client certificate: --client-cert FILE"),
    ("unknown ca", "it does not trust our client certificate"),
    ("unknown_ca", "it does not trust our client certificate"),
    ("bad certificate", "it does not accept our client certificate"),
    ("eof occurred in violation", BROKE_OFF),
    ("wrong version number", "it does not speak TLS on this port; perhaps its URL begins with http://"),
    ("record layer failure", "it does not speak TLS on this port; perhaps its URL begins with http://"),
)


@lru_cache(maxsize=8)
def context(access: Access) -> ssl.SSLContext:
    """Return the TLS context of an access: TLS 1.2 or newer, the machine's authorities or the one named.

    Raises BadInput when a file cannot be read or is no certificate or key.
    """
    made = ssl.create_default_context(cafile=None if access.ca is None else str(_pem_file(access.ca, "--ca")))
    if access.insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if access.client_cert is not None:
        certificate = _pem_file(access.client_cert, "--client-cert")
        key = None if access.client_key is None else _pem_file(access.client_key, "--client-key")
        try:
            made.load_cert_chain(str(certificate), None if key is None else str(key))
        except (ssl.SSLError, OSError) as error:
            named = f"{certificate}{'' if key is None else f' and {key}'}"
            raise BadInput(f"{named}: no client certificate with its key can be read from it ({error})") from None
    return made


def tls_reason(text: str) -> str | None:
    """Return what a failed handshake means, None when the text is of something else."""
    small = text.lower()
    if "ssl" not in small and "certificate" not in small and "tls" not in small:
        return None
    return next((meaning for sign, meaning in _REASONS if sign in small), None)


def _pem_file(path: Path, option: str) -> Path:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{option} {path}: {(error.strerror or str(error)).lower()}") from None
    if b"-----BEGIN " not in content:
        raise BadInput(f"{option} {path}: this is not a PEM file (text with a line -----BEGIN ...-----)")
    if option == "--ca" and b"-----BEGIN CERTIFICATE-----" not in content:
        raise BadInput(f"{option} {path}: there is no certificate in it")
    return path


PIECE = 64 * 1024
_KEEPALIVE_S = 30
_SAFE = ("GET", "HEAD")
_BROKEN = (OSError, http.client.HTTPException)


class Answer:
    """What a server answered to `method` on `target`; the body is here, or comes as it is read from a stream."""

    def __init__(self, method: str, target: str, response: http.client.HTTPResponse, lent: _Lent) -> None:
        self.method, self.target = method, target
        self.status_code, self.reason = response.status, response.reason
        self.headers: Mapping[str, str] = response.headers  # type: ignore[assignment]  # finds names in either case
        self._response, self._lent = response, lent
        self._content: bytes | None = None

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ok(self) -> bool:
        """Whether the server did not refuse."""
        return self.status_code < 400

    @property
    def content(self) -> bytes:
        """The whole body. Raises NoAnswer when it breaks off."""
        if self._content is None:
            self._content = b"".join(self.pieces())
        return self._content

    @property
    def text(self) -> str:
        """The whole body as text: UTF-8, unless the answer says otherwise. Raises NoAnswer when it breaks off."""
        charset = self._response.headers.get_content_charset("utf-8")
        try:
            return self.content.decode(charset, "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the whole body as JSON. Raises ValueError when it is none, NoAnswer when it breaks off."""
        return json.loads(self.content)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raises NoAnswer when it breaks off."""
        coding = self.headers.get("Content-Encoding", "identity").strip().lower()
        if coding in ("gzip", "x-gzip", "deflate"):
            yield from self._unpacked(coding)
        else:
            yield from self._raw()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the body as they come, without their ends. Raises NoAnswer when it breaks off."""
        begun = b""
        for piece in self.pieces():
            *whole, begun = (begun + piece).split(b"\n")
            yield from (line.rstrip(b"\r") for line in whole)
        if begun:
            yield begun

    def close(self) -> None:
        """Be done with it; what has not been read is lost, with the connection."""
        whole = self._response.isclosed()
        self._response.close()
        self._lent.give_back(whole=whole)

    def cut(self) -> None:
        """End the connection under whoever reads the answer, from any thread: no more comes."""
        self._lent.cut()

    def wait_without_end(self) -> None:
        """Wait for the rest of the body however long it takes; the kernel detects a server that is gone."""
        self._lent.wait_without_end()

    def _raw(self) -> Iterator[bytes]:
        left = self._response.length
        try:
            # Counted here: http.client takes an answer that is cut short for a whole one when it is read in pieces.
            while left is None or left > 0:
                piece = self._response.read1(PIECE if left is None else min(left, PIECE))
                if not piece:
                    break
                left = None if left is None else left - len(piece)
                yield piece
            if left:
                raise http.client.IncompleteRead(b"", left)
        except (*_BROKEN, ValueError) as error:
            self._response.close()
            self._lent.give_back(whole=False)
            raise NoAnswer(self._lent.why(error), may_have_arrived=True) from None
        self._response.close()
        self._lent.give_back(whole=True)

    def _unpacked(self, coding: str) -> Iterator[bytes]:
        import zlib

        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32) if coding != "deflate" else zlib.decompressobj()
        try:
            for piece in self._raw():
                yield unpacker.decompress(piece)
            yield unpacker.flush()
        except zlib.error as error:
            self.close()
            raise NoAnswer(f"what came is not {coding}: {error}", may_have_arrived=True) from None


class Transport:
    """The connections that one access allows. Threads may share it; each request has a connection of its own."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._idle: dict[tuple[object, ...], list[http.client.HTTPConnection]] = {}
        self._closed = False

    def request(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        data: bytes | None,
        read_s: float | None,
        proxy: str | None,
        stream: bool,
        tunnel: bool = False,
    ) -> Answer:
        """Send a request and return the answer; with `stream`, when its head is here, and the body is to be read.

        `read_s` is how long the server may be silent, None without end. `tunnel`: a proxy passes bytes on and reads no
        request, with TLS or without, and the connection is used once. Raises NoAnswer, BadInput (files for TLS).
        """
        target = _target(url, query)
        sent = {"Accept": "*/*", "User-Agent": "mesos-gpu", **headers}
        sent.setdefault("Accept-Encoding", "identity" if stream else "gzip")
        key = (*origin(url), proxy, tunnel)
        line = target
        if proxy is not None and urlsplit(url).scheme == "http" and not tunnel:
            line = f"{url.partition('://')[0]}://{urlsplit(url).netloc.rpartition('@')[2]}{target}"
            sent |= proxy_login(proxy)
        kept = self._kept(key)
        while True:
            lent = _Lent(self, key, kept or self.connected(url, proxy, tunnel=tunnel), read_s)
            try:
                response = lent.exchange(method, line, data, sent)
            except _BROKEN as error:
                lent.give_back(whole=False)
                # A server may close a connection that it has kept for long just when it is used again.
                if kept is not None and method in _SAFE and not isinstance(error, TimeoutError):
                    kept = None
                    continue
                raise NoAnswer(lent.why(error), may_have_arrived=True) from None
            answer = Answer(method, target, response, lent)
            if not stream:
                answer.content  # noqa: B018 (read now, so that the connection is free)
            return answer

    def close(self) -> None:
        """Close the connections that are kept. A request that another thread has sent closes its own at its end."""
        self._closed = True
        for kept in self._idle.values():
            while kept:
                kept.pop().close()

    def keep(self, key: tuple[object, ...], connection: http.client.HTTPConnection) -> None:
        """Keep a connection for the next request, or close it if there will be none."""
        if self._closed or key[-1]:  # a tunnel
            connection.close()
            return
        self._idle.setdefault(key, []).append(connection)

    def _kept(self, key: tuple[object, ...]) -> http.client.HTTPConnection | None:
        """Return a connection that is still open."""
        kept = self._idle.setdefault(key, [])
        while kept:
            try:
                connection = kept.pop()
            except IndexError:  # another thread was quicker
                break
            # Nothing is to be read on an open connection that nobody has asked anything.
            if connection.sock is not None and not _readable(connection.sock.fileno()):
                return connection
            connection.close()
        return None

    def connected(self, url: str, proxy: str | None, *, tunnel: bool) -> http.client.HTTPConnection:
        """Return a new connection to a server. Raises NoAnswer, BadInput (files for TLS)."""
        made = connection(url, self._access, proxy, tunnel=tunnel or urlsplit(url).scheme == "https")
        try:
            made.connect()
        except (*_BROKEN, UnicodeError) as error:  # a host name may be none
            made.close()
            raise NoAnswer(_not_connected(error, self._access.connect_s, proxy), may_have_arrived=False) from None
        return made


class _Lent:
    """A connection that one request has; it is given back once."""

    def __init__(
        self, owner: Transport, key: tuple[object, ...], taken: http.client.HTTPConnection, read_s: float | None
    ) -> None:
        self._owner, self._key, self._read_s = owner, key, read_s
        self._connection: http.client.HTTPConnection | None = taken
        # http.client lets go of its socket when the answer says that it is the last one.
        self._socket = taken.sock

    def exchange(
        self, method: str, line: str, data: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request; return the head of the answer. Raises OSError, HTTPException."""
        used = self._connection
        if used is None or used.sock is None:
            raise http.client.NotConnected
        used.sock.settimeout(self._read_s)
        try:
            used.request(method, line, data, dict(headers))
        except BrokenPipeError:
            pass  # a server that hangs up before it has heard everything may have said why
        return used.getresponse()

    def give_back(self, *, whole: bool) -> None:
        """Let the connection be used again when its answer was read as a whole, else close it."""
        used, self._connection = self._connection, None
        if used is None:
            return
        if whole and used.sock is not None:
            self._owner.keep(self._key, used)
        else:
            used.close()

    def wait_without_end(self) -> None:
        """Set no limit for how long the server may be silent."""
        wait_without_end(self._socket)

    def cut(self) -> None:
        """End the connection, whoever uses it."""
        try:
            # Not SSLSocket.shutdown, which would take the TLS state away from under the reader.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except (OSError, AttributeError, TypeError):
            pass  # it has ended by itself, or is TLS within TLS, which has no socket of its own

    def why(self, error: BaseException) -> str:
        """Return in words why there is no answer."""
        if isinstance(error, TimeoutError):
            return f"no answer within {self._read_s:g} s"
        if isinstance(error, (ConnectionResetError, BrokenPipeError)) and isinstance(self._socket, ssl.SSLSocket):
            # With TLS 1.3 a client's certificate is refused after the handshake, and the reason may be lost with it.
            return BROKE_OFF
        return reason(error)


def connection(url: str, access: Access, proxy: str | None, *, tunnel: bool) -> http.client.HTTPConnection:
    """Return a connection for requests to `url`, not yet connected; through a proxy, with a tunnel or without.

    Raises BadInput when a file for TLS cannot be read.
    """
    scheme, host, port = origin(url)
    if proxy is None:
        return _plain_or_tls(scheme, host, port, access)
    through = urlsplit(proxy)
    at = str(through.hostname), through.port or (443 if through.scheme == "https" else 80)
    if not tunnel:
        return _plain_or_tls(through.scheme, *at, access)
    made = _Tunnel(*at, timeout=access.connect_s)
    made.outer = context(access) if through.scheme == "https" else None
    made.inner = (context(access), host) if scheme == "https" else None
    made.default_port = 443 if scheme == "https" else 80
    made.set_tunnel(host, port, headers=proxy_login(proxy))
    return made


def wait_without_end(connected: socket.socket) -> None:
    """Set no time limit on a connection; keepalive probes detect a peer that is gone."""
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", _KEEPALIVE_S), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)


def proxy_login(proxy: str) -> dict[str, str]:
    """Return the header with the credentials of a proxy's URL; nothing when it has none."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    who = replace(Access(), user=unquote(parts.username), password=unquote(parts.password or ""))
    return {"Proxy-Authorization": str(who.authorization)}


def reason(error: BaseException) -> str:
    """Return why a connection broke, without class names and numbers."""
    text = str(error)
    meant = tls_reason(text) if isinstance(error, ssl.SSLError) else None
    if meant is not None:
        return meant
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not accepted: {text.lower()}"
    if isinstance(error, ssl.SSLError):
        return f"TLS with it failed: {text.lower()}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke in the midst of the answer"
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    elif isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
        return "it does not speak HTTP"
    return text.strip().lower() or "the connection broke"


class _Tunnel(http.client.HTTPConnection):
    """A connection through a proxy that passes everything on; TLS to the proxy, and within the tunnel, or not."""

    outer: ssl.SSLContext | None = None
    inner: tuple[ssl.SSLContext, str] | None = None

    def connect(self) -> None:
        """Connect to the proxy, ask for the tunnel, then agree on TLS with the server. Raises OSError."""
        self._create_connection = self._to_proxy
        super().connect()
        if self.inner is not None:
            context, host = self.inner
            if self.outer is None:
                self.sock = context.wrap_socket(self.sock, server_hostname=host)
            else:
                # The standard library knows no TLS within TLS on sockets.
                from urllib3.util.ssltransport import SSLTransport

                self.sock = SSLTransport(self.sock, context, host)

    def _to_proxy(self, address: Any, timeout: Any, source: Any) -> Any:
        made = socket.create_connection(address, timeout, source)
        return made if self.outer is None else self.outer.wrap_socket(made, server_hostname=self.host)


def _plain_or_tls(scheme: str, host: str, port: int, access: Access) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=access.connect_s, context=context(access))
    return http.client.HTTPConnection(host, port, timeout=access.connect_s)


def _target(url: str, query: Mapping[str, Any] | None) -> str:
    """Return path and query as they stand in a request."""
    parts = urlsplit(url)
    given = {name: value for name, value in (query or {}).items() if value is not None}
    asked = "&".join(part for part in (parts.query, urlencode(given, doseq=True)) if part)
    return quote(f"{parts.path or '/'}{'?' if asked else ''}{asked}", safe=IN_URLS)


def _not_connected(error: BaseException, connect_s: float, proxy: str | None) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {connect_s:g} s"
    if isinstance(error, ssl.SSLError) or proxy is None:
        return reason(error)
    return f"the proxy does not let us through: {reason(error)}"


def _readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
