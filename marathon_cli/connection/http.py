"""HTTP to a Marathon, a master or an agent: every way it can go wrong becomes one of our errors, in plain words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit

from marathon_cli.connection.access import IN_URLS, Access, Address, NoAnswer, addresses, origin, proxy_for
from mesos_gpu.errors import ProtocolError, Refused, Unavailable

if TYPE_CHECKING:
    from http.client import HTTPConnection

    from marathon_cli.connection.transport import Answer

MAX_REDIRECTS = 5
_USUAL = -1.0
_SAFE = ("GET", "HEAD")
_REDIRECTS = {301: False, 302: False, 303: False, 307: True, 308: True}
"""Statuses that lead elsewhere, and whether a request that changes something may follow as it is."""


class HttpClient:
    """One server, or the several of a cluster: `url` may list them between commas.

    The one that answered last is asked first; another is tried when it cannot be reached, or cannot answer (503). A
    request that may have been carried out is never sent twice. Redirects, such as a master's to the leading one, are
    followed; credentials go to the servers named and nowhere else. `what` names the server in messages; `advice` is
    what to do when none answers. Raises BadInput when a URL is none.
    """

    def __init__(self, url: str, *, what: str, advice: str = "", access: Access | None = None) -> None:
        self._addresses = addresses(url, what=what)
        self._now = 0
        self._access = access or Access()
        # Here: http.client and ssl take as long to import as the rest of the program, and --help asks no server.
        from marathon_cli.connection.transport import Transport

        self._transport = Transport(self._access)
        self.what, self.advice = what, advice

    @property
    def url(self) -> str:
        """The server's URL without a password."""
        return self._addresses[self._now].url

    @property
    def access(self) -> Access:
        """How the server is reached, and who we are to it."""
        return self._addresses[self._now].access(self._access)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        read_s: float | None = _USUAL,
    ) -> Answer:
        """Return the server's answer, whatever its status. Raises Unavailable when there is none.

        `read_s`: for how long it may keep silent, None without end; the usual time, when nothing is said.
        """
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        sent = {"Accept": "application/json"}
        if data is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        failures: list[str] = []
        count = len(self._addresses)
        for index in [(self._now + step) % count for step in range(count)]:
            address = self._addresses[index]
            try:
                answer = self._follow(address, method, path, query=query, data=data, headers=sent, read_s=read_s)
            except NoAnswer as error:
                failures.append(f"{address.url}: {error}" if count > 1 else str(error))
                if method not in _SAFE and error.may_have_arrived:
                    break
                continue
            if answer.status_code == 503 and len(failures) + 1 < count:
                failures.append(f"{address.url}: 503")
                continue
            self._now = index
            return answer
        raise self._silent("; ".join(failures))

    def lines(self, method: str, path: str, *, body: Any) -> Iterator[Any]:
        """Yield the JSON objects of an answer that comes line by line. Raises Unavailable, Refused, ProtocolError."""
        data = json.dumps(body, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"}
        try:
            with self.stream(method, path, data=data, headers=headers, read_s=None) as answer:
                for line in answer.lines():
                    if line:
                        yield json.loads(line)
        except ValueError:
            raise ProtocolError(f"{self.url} does not answer as a {self.what} does") from None
        except NoAnswer as error:
            raise self._silent(str(error)) from None

    def stream(
        self,
        method: str,
        path: str,
        *,
        read_s: float | None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answer:
        """Return an answer whose body is still to be read. Raises Unavailable, Refused."""
        address = self._addresses[self._now]
        try:
            answer = self._follow(
                address, method, path, query=query, headers=headers, data=data, read_s=read_s, stream=True
            )
            if answer.ok:
                return answer
            with answer:
                raise Refused(f"{self.url} refuses this: {answer.text.strip()}", status=answer.status_code)
        except NoAnswer as error:
            raise self._silent(str(error)) from None

    def records(self, path: str, *, headers: Mapping[str, str], data: bytes, read_s: float | None = _USUAL) -> Answer:
        """Return an answer of any status to a POST, on its own connection; its body may continue for days.

        `read_s`: how long its head may take, None without end. Raises Unavailable.
        """
        self._refuse_tls_within_tls()
        try:
            answer = self._follow(
                self._addresses[self._now],
                "POST",
                path,
                headers=headers,
                data=data,
                read_s=read_s,
                stream=True,
                tunnel=True,
            )
        except NoAnswer as error:
            raise self._silent(str(error)) from None
        if answer.ok:
            answer.wait_without_end()
        return answer

    def begin(self, path: str, *, headers: Mapping[str, str]) -> HTTPConnection:
        """Return a connection on which the head of a POST was sent; its body follows on the socket.

        Raises Unavailable.
        """
        from http.client import HTTPException

        from marathon_cli.connection.transport import reason, wait_without_end

        self._refuse_tls_within_tls()
        access, who = self.access, self.access.authorization
        try:
            made = self._transport.connected(self.url, proxy_for(self.url, access, os.environ), tunnel=True)
        except NoAnswer as error:
            raise self._silent(str(error)) from None
        try:
            made.putrequest("POST", urlsplit(self.url).path + path)
            for name, value in {**({} if who is None else {"Authorization": who}), **headers}.items():
                made.putheader(name, value)
            made.endheaders()
            wait_without_end(made.sock)
        except (OSError, HTTPException) as error:
            made.close()
            raise self._silent(reason(error)) from None
        return made

    def _refuse_tls_within_tls(self) -> None:
        # TLS within TLS has no socket of its own, which could be waited for or cut.
        proxy = proxy_for(self.url, self.access, os.environ)
        if proxy is not None and (urlsplit(self.url).scheme, urlsplit(proxy).scheme) == ("https", "https"):
            raise Unavailable(f"{self.url} cannot be used like this through a proxy that speaks TLS itself")

    def read(self, answer: Answer) -> Any:
        """Return the JSON of an answer. Raises ProtocolError when it is none."""
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError):
            begin = answer.text[:60].replace("\n", " ")
            raise ProtocolError(
                f"{self.url} does not answer as a {self.what} does "
                f"({answer.method} {answer.target}: {answer.status_code}, {begin!r})"
            ) from None

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _follow(
        self,
        address: Address,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        data: bytes | None = None,
        read_s: float | None = _USUAL,
        stream: bool = False,
        tunnel: bool = False,
    ) -> Answer:
        """Send a request, and again to wherever the answer leads."""
        url, patience = address.url + path, self._access.read_s if read_s == _USUAL else read_s
        trusted = {one.origin: one.access(self._access) for one in (*self._addresses, address)}
        for _ in range(MAX_REDIRECTS + 1):
            who = trusted.get(origin(url), self._access.anonymous()).authorization
            sent = {**(headers or {}), **({} if who is None else {"Authorization": who})}
            proxy = proxy_for(url, self._access, os.environ)
            answer = self._transport.request(
                method,
                url,
                query=query,
                headers=sent,
                data=data,
                read_s=patience,
                proxy=proxy,
                stream=stream,
                tunnel=tunnel,
            )
            target = answer.headers.get("Location")
            if target is None or not (_REDIRECTS.get(answer.status_code, False) or _leads(answer, method)):
                return answer
            answer.close()
            # Its bytes as they came, whatever characters http.client takes them for.
            target = quote(target.encode("latin-1", "replace"), safe=IN_URLS)
            url, query = urldefrag(urljoin(url, target)).url, None
            if origin(url)[0] not in ("http", "https"):
                break
        where = f"it redirects without end, the last time to {url}"
        raise NoAnswer(where, may_have_arrived=True)

    def _silent(self, reason: str) -> Unavailable:
        where = self.url if len(self._addresses) == 1 else ", ".join(one.url for one in self._addresses)
        return Unavailable(f"no {self.what} answers at {where}: {reason}{'. ' if self.advice else ''}{self.advice}")


def fetch(url: str) -> Answer:
    """Return the answer to a GET of one URL, with the same proxies and redirects. Raises Unavailable, BadInput."""
    parts = urlsplit(url)
    client = HttpClient(f"{parts.scheme}://{parts.netloc}", what="server")
    try:
        return client.ask("GET", urlunsplit(("", "", parts.path or "/", parts.query, "")), headers={"Accept": "*/*"})
    finally:
        client.close()


def _leads(answer: Answer, method: str) -> bool:
    return method in _SAFE and answer.status_code in _REDIRECTS
