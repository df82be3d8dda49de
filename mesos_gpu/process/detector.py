"""Finding the leading master: a fixed address, several to ask, or a group in ZooKeeper.

Source: Mesos src/master/detector. A list with commas is ours: Mesos knows one address or ZooKeeper.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import aiohttp

from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.leader import MASTER_ID, SESSION_TIMEOUT_S, HostPort, Leader, ZkUrl, parse_master
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.process.secure.tls import Tls

if TYPE_CHECKING:
    from mesos_gpu.process.zookeeper import ZkGroup

log = logging.getLogger(__name__)

OnLeader = Callable[[Pid | None], None]
ASK_INTERVAL_S = 5.0
"""How often the masters of a list are asked who leads, while that is in doubt."""
_SURE_AFTER, _SURE_TIMES = 12, 3
"""When so many answers in a row have named the same one, it is not; then they are asked so many times more seldom."""
_ASK_TIMEOUT_S = 3.0


class Detector(Protocol):
    """Tells who leads: once it knows, and at every change."""

    async def start(self, on_leader: OnLeader) -> None:
        """Tell `on_leader` in the event loop from now on, None while nobody leads. Raises Unavailable."""

    def doubt(self) -> None:
        """Look at once: the leader that was told of does not answer, or its connection broke."""

    async def close(self) -> None:
        """Tell nothing more."""


class FixedDetector:
    """One address; the name in it is resolved once, as in Mesos."""

    def __init__(self, where: HostPort) -> None:
        self._where = where

    async def start(self, on_leader: OnLeader) -> None:
        """Tell who leads, once. Raises Unavailable when the name does not resolve."""
        on_leader(await resolve(self._where))

    def doubt(self) -> None:
        """There is no other."""

    async def close(self) -> None:
        """Nothing to stop."""


class ListDetector:
    """Several masters: any of them says who leads, and is asked every few seconds (GET /master/redirect).

    Once the same has led for a minute that is every 15 s, and at once when there is doubt.
    """

    def __init__(
        self, where: Sequence[HostPort], *, interval_s: float = ASK_INTERVAL_S, tls: Tls | None = None
    ) -> None:
        self._where, self._interval_s = tuple(where), interval_s
        self._schemes = ("http",) if tls is None else ("https", "http") if tls.settings.downgrade else ("https",)
        self._context = None if tls is None else tls.for_urls()
        self._asking: asyncio.Task[None] | None = None
        self._leader: Pid | None = None
        self._doubted = asyncio.Event()

    async def start(self, on_leader: OnLeader) -> None:
        """Begin to ask."""
        self._asking = asyncio.create_task(self._ask(on_leader))

    def doubt(self) -> None:
        """Ask at once, and often from now on."""
        self._doubted.set()

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self, on_leader: OnLeader) -> None:
        timeout = aiohttp.ClientTimeout(total=_ASK_TIMEOUT_S)
        # A connection lasts from one question to the next.
        kept_s = 2 * _SURE_TIMES * self._interval_s
        connector = aiohttp.TCPConnector(ssl=True if self._context is None else self._context, keepalive_timeout=kept_s)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            said, sure_times = False, 0
            while True:
                self._doubted.clear()
                leader = await self._leading(session)
                sure_times = sure_times + 1 if leader is not None and leader == self._leader else 0
                if leader is not None and leader != self._leader:
                    self._leader = leader
                    on_leader(leader)
                if leader is None and not said:
                    log.warning("none of the masters %s knows the leader", ", ".join(map(str, self._where)))
                said = leader is None
                if await self._pause(self._interval_s * (1 if sure_times < _SURE_AFTER else _SURE_TIMES)):
                    sure_times = 0

    async def _pause(self, seconds: float) -> bool:
        """Wait for so long; return at once, and true, when there is doubt."""
        try:
            await asyncio.wait_for(self._doubted.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def _leading(self, session: aiohttp.ClientSession) -> Pid | None:
        """Return whom the first that answers calls the leader."""
        for where, scheme in itertools.product(self._where, self._schemes):
            try:
                async with session.get(f"{scheme}://{where}/{MASTER_ID}/redirect", allow_redirects=False) as answer:
                    to = urlsplit(answer.headers.get("Location", ""))
                if answer.status == 307 and to.hostname is not None and to.port is not None:
                    return await resolve(HostPort(to.hostname, to.port))
            except (aiohttp.ClientError, asyncio.TimeoutError, ValueError, Unavailable) as error:
                log.debug("asking %s who leads: %r", where, error)
        return None


class ZkDetector:
    """A group in ZooKeeper."""

    def __init__(self, url: ZkUrl, session_timeout_s: float = SESSION_TIMEOUT_S) -> None:
        self._url, self._timeout_s = url, session_timeout_s
        self._group: ZkGroup | None = None

    async def start(self, on_leader: OnLeader) -> None:
        """Begin to follow the group; ZooKeeper need not be there yet."""
        # kazoo takes memory and time, and most clusters have no ZooKeeper.
        from mesos_gpu.process.zookeeper import ZkGroup

        def tell(leader: Leader | None) -> None:
            log.info("%s: %s", self._url, "no master leads" if leader is None else f"{leader.pid} leads")
            on_leader(None if leader is None else leader.pid)

        self._group = ZkGroup(self._url, tell, session_timeout_s=self._timeout_s)
        self._group.follow()

    def doubt(self) -> None:
        """ZooKeeper tells of each change by itself."""

    async def close(self) -> None:
        """End the session."""
        if self._group is not None:
            await self._group.close()


def open_detector(
    flag: str, text: str | None, *, session_timeout_s: float = SESSION_TIMEOUT_S, tls: Tls | None = None
) -> Detector:
    """Return what finds the master that the value of `flag` means. Raises BadFlag."""
    where = parse_master(flag, text)
    if isinstance(where, ZkUrl):
        return ZkDetector(where, session_timeout_s)
    return FixedDetector(where[0]) if len(where) == 1 else ListDetector(where, tls=tls)


async def resolve(where: HostPort) -> Pid:
    """Return the pid of the master at an address: IPv4, as libprocess wants it. Raises Unavailable."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            where.host, where.port, family=socket.AF_INET, type=socket.SOCK_STREAM
        )
    except OSError as error:
        raise Unavailable(f"--master: cannot resolve {where.host}: {error.strerror}") from None
    ip, port = found[0][4][:2]
    return Pid(MASTER_ID, str(ip), int(port), None if _is_ip(where.host) else where.host)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
