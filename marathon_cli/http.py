"""HTTP to a Marathon, a master or an agent: every way it can go wrong becomes one of our errors, in plain words."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests

from mesos_gpu.errors import BadInput, ProtocolError, Refused, Unavailable

CONNECT_S, READ_S = 5.0, 60.0


class HttpClient:
    """One server. `what` names it in messages; `advice` is what to do when it does not answer."""

    def __init__(self, url: str, *, what: str, advice: str = "") -> None:
        text = url.strip().rstrip("/")
        text = text if "://" in text else f"http://{text}"
        try:
            parts = urlsplit(text)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise BadInput(f"{url!r} is not the URL of a {what}; one looks like http://127.0.0.1:8080")
        self.what, self.advice = what, advice
        self._base = text
        self._session = requests.Session()
        # Proxies of the environment are for the world outside, never for this machine.
        self._session.trust_env = not _is_loopback(str(parts.hostname))

    @property
    def url(self) -> str:
        """The server's URL without a password."""
        parts = urlsplit(self._base)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def ask(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> requests.Response:
        """Return the server's answer, whatever its status. Raises Unavailable when there is none."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            return self._session.request(
                method, self._base + path, params=query, data=data, headers=headers, timeout=(CONNECT_S, READ_S)
            )
        except requests.ConnectTimeout:
            raise self._silent(f"no connection within {CONNECT_S:g} s") from None
        except requests.ReadTimeout:
            raise self._silent(f"no answer within {READ_S:g} s") from None
        except requests.exceptions.SSLError as error:
            raise self._silent(f"its certificate was not accepted: {_root_reason(error)}") from None
        except requests.RequestException as error:
            raise self._silent(_root_reason(error)) from None

    def lines(self, method: str, path: str, *, body: Any) -> Iterator[Any]:
        """Yield the JSON objects of an answer that comes line by line. Raises Unavailable, Refused, ProtocolError."""
        data = json.dumps(body, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"}
        try:
            with self._session.request(
                method, self._base + path, data=data, headers=headers, timeout=(CONNECT_S, None), stream=True
            ) as answer:
                if not answer.ok:
                    raise Refused(f"{self.url} refuses this: {answer.text.strip()}", status=answer.status_code)
                for line in answer.iter_lines():
                    if line:
                        yield json.loads(line)
        except ValueError:
            raise ProtocolError(f"{self.url} does not answer as a {self.what} does") from None
        except requests.RequestException as error:
            raise self._silent(_root_reason(error)) from None

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
        self._session.close()

    def _silent(self, reason: str) -> Unavailable:
        return Unavailable(f"no {self.what} answers at {self.url}: {reason}{'. ' if self.advice else ''}{self.advice}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
