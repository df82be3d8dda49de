"""Which of several Marathons leads, through ZooKeeper; alone, one leads from the start.

A Marathon that was elected leads until its process ends: it never goes back to standing by.

Source: Marathon core/election/CuratorElectionStream.scala.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING

from mesos_gpu.mesos.leader import Leader, ZkUrl, write_node

if TYPE_CHECKING:
    from mesos_gpu.process.zookeeper import ZkSession

log = logging.getLogger(__name__)

EXIT_ZOOKEEPER_LOST, EXIT_LEADERSHIP_LOST = 101, 103
"""Exit statuses. Source: Marathon docs/docs/exit-codes.md."""
ABDICATION_S = 0.5
"""From the answer to DELETE /v2/leader to the end, so that the answer gets out."""


class Election:
    """Who leads, as far as is known here. `elected` is done once we are, `over` once we must end: its exit status."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.address = ""
        """Our own host:port, as others are told it."""
        self.scheme = "http"
        """How we are called there: `https` where that is all that we speak."""
        self.leading = False
        self.leader: str | None = None
        self.leader_https: str | None = None
        """The leader's host:port for https, None where it has no https."""
        self.elected: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[int] = loop.create_future()
        self._changed = asyncio.Event()

    def url(self) -> str:
        """Return our own address as a URL."""
        return f"{self.scheme}://{self.address}"

    def stand_alone(self) -> None:
        """Be elected: there is nobody else."""
        self._won()

    def take(self) -> None:
        """Lead from now on: what the store has is known."""
        self.leading = True
        self._note()

    def abdicate(self) -> None:
        """End this process in a moment, so that another leads."""
        asyncio.get_running_loop().call_later(ABDICATION_S, self.end, EXIT_LEADERSHIP_LOST, "asked to give up leading")

    def end(self, status: int, why: str) -> None:
        """End this process with an exit status; the first reason counts."""
        if not self.over.done():
            log.error("%s; ending, to be started again by its service manager", why)
            self.over.set_result(status)

    async def settled(self, patience_s: float) -> bool:
        """Return whether it is known who leads: we do, or another; wait a while for it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while not self.leading and self.leader in (None, self.address):
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - loop.time())
            except asyncio.TimeoutError:
                return False
        return True

    def heard(self, leader: str | None, https: str | None = None) -> None:
        """Take note of who leads now, nobody for None, and where it has https."""
        self.leader, self.leader_https = leader, https
        self._note()
        if leader == self.address:
            self._won()
        elif self.elected.done():
            self.end(EXIT_LEADERSHIP_LOST, f"lost the leadership to {leader or 'nobody'}")
        elif leader is not None:
            log.info("standing by at %s; %s leads", self.address, leader)

    def _won(self) -> None:
        self.leader = self.address
        self._note()
        if not self.elected.done():
            self.elected.set_result(None)

    def _note(self) -> None:
        self._changed.set()


class Candidacy:
    """Our place in an election through ZooKeeper, below `<path>/leader`."""

    def __init__(self, election: Election, url: ZkUrl, *, session_timeout_s: float) -> None:
        # kazoo takes memory and time, and most Marathons have no ZooKeeper.
        from mesos_gpu.process.zookeeper import ZkGroup

        self._election, self._id = election, uuid.uuid4().hex
        below = ZkUrl(url.hosts, f"{url.path}/leader", url.credentials)
        self._group = ZkGroup(below, self._heard, session_timeout_s=session_timeout_s, on_lost=self._lost)

    @property
    def session(self) -> ZkSession:
        """Return the session, which the state is kept through as well."""
        return self._group.session

    def enter(self, hostname: str, port: int, https_port: int | None = None) -> None:
        """Become a candidate under this address; the one who has been so for the longest leads."""
        # The node has the form of a Mesos master's, which everybody knows how to read.
        pid = f"marathon@{hostname}:{port}"
        log.info("taking part in the election at %s as %s:%d", self._group.session.url, hostname, port)
        https = {} if https_port is None else {"https_port": https_port}
        self._group.join(write_node({"id": self._id, "pid": pid, "hostname": hostname, "port": port, **https}))

    async def close(self) -> None:
        """Leave: when this returns another leads, if ZooKeeper answers."""
        await self._group.close()

    def _heard(self, leader: Leader | None) -> None:
        if leader is None:
            self._election.heard(None)
        elif leader.info.get("id") == self._id:
            self._election.heard(self._election.address)
        else:
            https = leader.info.get("https_port")
            self._election.heard(
                f"{leader.hostname}:{leader.pid.port}", f"{leader.hostname}:{https}" if isinstance(https, int) else None
            )

    def _lost(self) -> None:
        if self._election.elected.done():
            self._election.end(EXIT_ZOOKEEPER_LOST, "the session with ZooKeeper is over, so another may lead")
