"""How a server is reached and who we say we are: credentials, TLS, proxies, patience. Values, no sockets."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from mesos_gpu.errors import BadInput

IN_URLS = "!#$%&'()*+,/:;=?@[]~"
"""What has a meaning in a URL, or is escaped already; the rest is escaped before it travels."""


class NoAnswer(Exception):
    """A request that got no answer, or half of one. `may_have_arrived`: the server may have acted on it."""

    def __init__(self, reason: str, *, may_have_arrived: bool) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


CONNECT_S, READ_S = 5.0, 60.0
NO_PROXY = "none"
"""The value of `proxy` that means: none, whatever the environment says."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Access:
    """What is the same for every request to a server. Times are in seconds.

    `proxy` None leaves it to the environment. Without `ca` the machine's own certificate authorities are trusted.
    """

    user: str | None = None
    password: str | None = None
    token: str | None = None
    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    insecure: bool = False
    proxy: str | None = None
    connect_s: float = CONNECT_S
    read_s: float = READ_S

    @property
    def authorization(self) -> str | None:
        """Return the value of the Authorization header: a token's (DC/OS' form), else that of Basic (RFC 7617)."""
        if self.token is not None:
            return f"token={self.token}"
        if self.user is None:
            return None
        pair = f"{self.user}:{self.password or ''}".encode()
        return f"Basic {base64.b64encode(pair).decode('ascii')}"

    def anonymous(self) -> Access:
        """Return the same without credentials, for a server that nobody named."""
        return replace(self, user=None, password=None, token=None)


@dataclass(frozen=True, slots=True)
class Address:
    """One server's URL without credentials, and those that were in it."""

    url: str
    user: str | None = None
    password: str | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return scheme, host and port."""
        return origin(self.url)

    def access(self, general: Access) -> Access:
        """Return how to reach it; credentials in a URL are for that server and count most."""
        return general if self.user is None else replace(general, token=None, user=self.user, password=self.password)


def addresses(text: str, *, what: str) -> list[Address]:
    """Read the URL of a server, or several between commas. Raises BadInput. `what` names the server in messages."""
    found = [_address(part.strip(), what) for part in text.split(",") if part.strip()]
    if not found:
        raise BadInput(f"{text!r} is not the URL of a {what}; one looks like http://127.0.0.1:8080")
    return found


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, str(parts.hostname), parts.port or _PORTS.get(parts.scheme, 0)


def proxy_for(url: str, access: Access, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that requests to `url` go through, None for none.

    Proxies of the environment (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and NO_PROXY for exceptions, in either case) are for
    the world outside, never for this machine. A proxy that is named for us is for every server.
    """
    if access.proxy is not None:
        return None if access.proxy == NO_PROXY else access.proxy
    parts = urlsplit(url)
    host = str(parts.hostname)
    if is_loopback(host) or _excepted(host, origin(url)[2], _variable(environ, "no_proxy")):
        return None
    found = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    if not found:
        return None
    return found if "://" in found else f"http://{found}"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(text: str, what: str) -> Address:
    full = (text if "://" in text else f"http://{text}").rstrip("/")
    try:
        parts = urlsplit(full)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise BadInput(f"{text!r} is not the URL of a {what}; one looks like http://127.0.0.1:8080")
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.username is None:
        return Address(bare)
    return Address(bare, unquote(parts.username), unquote(parts.password or ""))


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _excepted(host: str, port: int, exceptions: str) -> bool:
    """Return whether NO_PROXY names a host: itself, a domain above it, a network it is in, or * for all."""
    for item in (part.strip().lower() for part in exceptions.split(",")):
        if item == "*":
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(item, strict=False):
                return True
        except ValueError:
            pass
        name, _, number = item.partition(":")
        name = name.lstrip(".").removeprefix("*.")
        matches = host.lower() == name or host.lower().endswith(f".{name}")
        if name and matches and number in ("", str(port)):
            return True
    return False


def stranger(access: Access) -> str:
    """Return what to say of a Mesos master or agent that does not know who we are (401)."""
    if access.authorization is not None:
        return "does not accept this name and password, or token"
    return "needs credentials: keep `mesos-user` and `mesos-password` with `mesos-gpu config set`"
