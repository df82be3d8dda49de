"""HTTP to a Marathon, a master or an agent: every way it can go wrong becomes one of our errors, in plain words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

import requests
import urllib3
from requests.adapters import HTTPAdapter

from marathon_cli import tls
from marathon_cli.access import Access, Address, addresses, origin, proxy_for
from mesos_gpu.errors import ProtocolError, Refused, Unavailable

MAX_REDIRECTS = 5
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
        self._sessions: dict[str | None, requests.Session] = {}
        self.what, self.advice = what, advice
        if self._access.insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the program says it, once

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
    ) -> requests.Response:
        """Return the server's answer, whatever its status. Raises Unavailable when there is none."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        sent = {"Accept": "application/json"}
        if data is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        failures: list[str] = []
        count = len(self._addresses)
        for index in [(self._now + step) % count for step in range(count)]:
            try:
                answer = self._follow(self._addresses[index], method, path, params=query, data=data, headers=sent)
            except requests.RequestException as error:
                failures.append(f"{self._addresses[index].url}: {self._why(error)}" if count > 1 else self._why(error))
                if method not in _SAFE and not _never_sent(error):
                    break
                continue
            if answer.status_code == 503 and len(failures) + 1 < count:
                failures.append(f"{self._addresses[index].url}: 503")
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
                for line in answer.iter_lines():
                    if line:
                        yield json.loads(line)
        except ValueError:
            raise ProtocolError(f"{self.url} does not answer as a {self.what} does") from None
        except requests.RequestException as error:
            raise self._silent(self._why(error)) from None

    def stream(
        self, method: str, path: str, *, read_s: float | None, query: Mapping[str, Any] | None = None, **parts: Any
    ) -> requests.Response:
        """Return an answer whose body is still to be read. Raises Unavailable, Refused."""
        address = self._addresses[self._now]
        try:
            answer = self._follow(address, method, path, params=query, stream=True, read_s=read_s, **parts)
        except requests.RequestException as error:
            raise self._silent(self._why(error)) from None
        if not answer.ok:
            with answer:
                raise Refused(f"{self.url} refuses this: {answer.text.strip()}", status=answer.status_code)
        return answer

    def read(self, answer: requests.Response) -> Any:
        """Return the JSON of an answer. Raises ProtocolError when it is none."""
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError):
            begin = answer.text[:60].replace("\n", " ")
            raise ProtocolError(
                f"{self.url} does not answer as a {self.what} does "
                f"({answer.request.method} {answer.request.path_url}: {answer.status_code}, {begin!r})"
            ) from None

    def close(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            session.close()

    def _follow(
        self,
        address: Address,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        read_s: float | None = -1.0,
        **parts: Any,
    ) -> requests.Response:
        """Send a request, and again to wherever the answer leads."""
        url, patience = address.url + path, (self._access.connect_s, self._access.read_s if read_s == -1.0 else read_s)
        trusted = {one.origin: one.access(self._access) for one in (*self._addresses, address)}
        for _ in range(MAX_REDIRECTS + 1):
            who = trusted.get(origin(url), self._access.anonymous()).authorization
            sent = {**(headers or {}), **({} if who is None else {"Authorization": who})}
            proxy = proxy_for(url, self._access, os.environ)
            answer = self._session(proxy).request(
                method, url, params=params, headers=sent, timeout=patience, allow_redirects=False, **parts
            )
            target = answer.headers.get("Location")
            if target is None or not (_REDIRECTS.get(answer.status_code, False) or _leads(answer, method)):
                return answer
            answer.close()
            url, params = urljoin(url, target), None
            if origin(url)[0] not in ("http", "https"):
                break
        raise requests.TooManyRedirects(f"it leads from one address to another and ends nowhere, last at {url}")

    def _session(self, proxy: str | None) -> requests.Session:
        """Return the connections through a proxy, or without one."""
        if proxy not in self._sessions:
            session = requests.Session()
            # Not requests' own look at the environment, which would send credentials of ~/.netrc to any server.
            session.trust_env = False
            if proxy is not None:
                session.proxies = {"http": proxy, "https": proxy}
            session.mount("https://", _Adapter(self._access))
            self._sessions[proxy] = session
        return self._sessions[proxy]

    def _why(self, error: requests.RequestException) -> str:
        if isinstance(error, requests.ConnectTimeout):
            return f"no connection within {self._access.connect_s:g} s"
        if isinstance(error, requests.ReadTimeout):
            return f"no answer within {self._access.read_s:g} s"
        if isinstance(error, requests.exceptions.ProxyError):
            return f"the proxy does not let us through: {_root_reason(error)}"
        meant = tls.reason(str(error))
        if meant is not None:
            return meant
        if isinstance(error, requests.exceptions.SSLError):
            return f"its certificate was not accepted: {_root_reason(error)}"
        return _root_reason(error)

    def _silent(self, reason: str) -> Unavailable:
        where = self.url if len(self._addresses) == 1 else ", ".join(one.url for one in self._addresses)
        return Unavailable(f"no {self.what} answers at {where}: {reason}{'. ' if self.advice else ''}{self.advice}")


class _Adapter(HTTPAdapter):
    """Speaks TLS with the context of an access, which knows the machine's authorities and our certificate."""

    def __init__(self, access: Access) -> None:
        self._of = access
        super().__init__()

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send, with the context made by now: a file that cannot be read concerns only who speaks TLS."""
        settings = self.poolmanager.connection_pool_kw
        settings["ssl_context"] = tls.context(self._of)
        return super().send(request, *args, **kwargs)

    def proxy_manager_for(self, proxy: Any, **settings: Any) -> Any:
        """Speak to servers behind a proxy with that context, too."""
        return super().proxy_manager_for(proxy, **settings, ssl_context=tls.context(self._of))

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Leave trust to the context; requests would put its own list of authorities in its place."""
        conn.cert_reqs = "CERT_NONE" if self._of.insecure else "CERT_REQUIRED"
        conn.ca_certs = conn.ca_cert_dir = None


def _leads(answer: requests.Response, method: str) -> bool:
    return method in _SAFE and answer.status_code in _REDIRECTS


def _never_sent(error: requests.RequestException) -> bool:
    """Tell whether a request failed before anything of it reached the server."""
    if isinstance(error, (requests.ConnectTimeout, requests.exceptions.SSLError, requests.exceptions.ProxyError)):
        return True
    inner = getattr(error.args[0], "reason", None) if error.args else None
    return type(inner).__name__ in ("NewConnectionError", "NameResolutionError")


def _root_reason(error: requests.RequestException) -> str:
    """Return the innermost reason of a failed request, without class names and numbers."""
    inner: BaseException = error
    while inner.args and isinstance(inner.args[0], BaseException):
        inner = inner.args[0]
    reason = getattr(inner, "reason", None) or inner
    text = str(reason.args[-1]) if isinstance(reason, BaseException) and reason.args else str(reason)
    text = re.sub(r"\[Errno -?\d+\] ", "", text.rpartition("> ")[2].rpartition(": Failed to ")[2] or text)
    found = re.search(r"(Connection refused|Name or service not known|No route to host|Network is unreachable)", text)
    return (found.group(1) if found else text).strip().lower() or "the connection broke"
