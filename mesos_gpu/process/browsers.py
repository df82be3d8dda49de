"""What web pages may do here: read as their own site lets them, and change nothing, whatever their name leads to.

A browser sends whatever a page asks it to, also to services of the reader's own machine and network, which trust that
network. It tells of which site the page is (Origin: RFC 6454, 7.3; the Fetch standard sends it with every POST, PUT,
PATCH and DELETE) and by which name it came (Host: RFC 9110, 7.2). Neither can be chosen by the page. A page whose own
name was made to lead to us (DNS rebinding) is of the same site as we are then; the name gives it away.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from aiohttp import web
from aiohttp.typedefs import Middleware
from msgspec import Struct
from yarl import URL

from mesos_gpu.process.http import error_response

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
ANYBODY = "*"
_PRIVATE = ("localhost", "local", "internal", "home.arpa", "test", "example", "invalid", "mesos")
"""Domains that nobody can buy (RFC 6761, 6762, 8375, ICANN on .internal), and Mesos-DNS' own."""
_PORTS = {"http": 80, "https": 443}
MAX_KEPT = 256
"""Characters of the longest Host header whose answer is remembered; no name is longer (RFC 1035, 2.3.4)."""


class Names(Struct, frozen=True):
    """The names of a service: `own` are its machine's, `allowed` those of `--http_hosts`."""

    own: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    def knows(self, host: str) -> bool:
        """Return whether a Host header (NAME, NAME:PORT, [IPv6]:PORT) names us, as far as browsers can be fooled."""
        name = _name(host)
        if ANYBODY in self.allowed or "." not in name or _is_address(name):
            return True
        return (
            name.endswith(tuple(f".{domain}" for domain in _PRIVATE))
            or any(name == own or _of_domain(name, own) for own in map(str.lower, self.own))
            or self.allows(host, default_port=None)
        )

    def allows(self, host: str, *, default_port: int | None) -> bool:
        """Return whether NAME[:PORT] is among `allowed`; an entry without a port means `default_port`, None any."""
        name, port = _name(host), _port(host)
        for entry in map(str.lower, self.allowed):
            entry_name, entry_port = _name(entry), _port(entry)
            if entry == ANYBODY:
                return True
            same_name = name == entry_name or (entry_name.startswith("*.") and name.endswith(entry_name[1:]))
            if same_name and (entry_port or default_port or port) == port:
                return True
        return False


@lru_cache(maxsize=64)
def _knows(names: Names, host: str) -> bool:
    return names.knows(host)


def problem(method: str, host: str | None, origin: str | None, names: Names) -> str | None:
    """Return why a request is refused, None when it is not. `host` and `origin` are its headers of these names."""
    # Whoever asks comes by the same name each time; a long one is not kept for them.
    if host and not (_knows(names, host) if len(host) <= MAX_KEPT else names.knows(host)):
        return (
            f"this service has no name {_name(host)!r}; if it is one of its names, start it with "
            f"--http_hosts={_name(host)}"
        )
    if origin is None or method in SAFE_METHODS:
        return None
    try:
        url = URL(origin)
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:
        url, port = URL(), None
    if not url.host or port is None:
        return f"a web page without an origin ({origin[:100]!r}) may not change anything here"
    authority = f"{url.raw_host}:{port}" if ":" not in str(url.raw_host) else f"[{url.raw_host}]:{port}"
    same_site = host is not None and (_name(host), _port(host) or _PORTS[url.scheme]) == (_name(authority), port)
    if same_site or names.allows(authority, default_port=_PORTS[url.scheme]):
        return None
    return (
        f"a web page of {origin[:100]!r} may not change anything here; if it is a page of this service behind a proxy, "
        f"start it with --http_hosts={url.host if url.is_default_port() else authority}"
    )


def protect(app: web.Application, names: Names, refuse: Callable[[int, str], web.Response] = error_response) -> None:
    """Have an application answer 403, by `refuse`, to what `problem` finds, before anything else looks at it."""
    app.middlewares.insert(0, _guard(names, refuse))


def _guard(names: Names, refuse: Callable[[int, str], web.Response]) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        found = problem(request.method, request.headers.get("Host"), request.headers.get("Origin"), names)
        if found is None:
            return await handler(request)
        response = refuse(403, f"403 Forbidden: {found}.")
        response.force_close()  # its body, if any, is not read
        return response

    return middleware


def names_of(hostname: str | None, allowed: Sequence[str]) -> Names:
    """Return the names of a service of this machine, which others know as `hostname` where that is given."""
    return Names(tuple(name for name in (hostname, socket.gethostname()) if name), tuple(allowed))


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


def _port(host: str) -> int | None:
    after = host.rpartition("]")[2] if host.startswith("[") else host
    port = after.partition(":")[2]
    return int(port) if port.isdigit() and len(port) < 6 else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _of_domain(name: str, own: str) -> bool:
    """Return whether a name lies in the domain of a machine's: db.lab.org in that of gpu1.lab.org."""
    domain = own.partition(".")[2]
    return "." in domain and not _is_address(own) and name.endswith(f".{domain}")
