"""A master at work: its parts, put together, and how it begins to lead and ends."""

from __future__ import annotations

import asyncio
import logging
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.agent_link.authentication import Authenticators
from mesos_gpu.master.agent_link.link import PROCESS_ID, AgentLink
from mesos_gpu.master.agent_link.observers import RemovalLimit
from mesos_gpu.master.api.operator_api import OperatorApi
from mesos_gpu.master.configuration import Configuration, Election
from mesos_gpu.master.driver_link.link import DriverLink
from mesos_gpu.master.engine.engine import Engine, clock
from mesos_gpu.master.engine.registrar import Registrar
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.events.stored import Elected
from mesos_gpu.master.events.timers import CollectRegistry
from mesos_gpu.master.leadership import Leadership
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views.views import master_info
from mesos_gpu.mesos.leader import Leader, write_node
from mesos_gpu.mesos.libprocess import Message
from mesos_gpu.mesos.version import MESOS_VERSION
from mesos_gpu.process.browsers import names_of, protect
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.secure.tls import Tls

if TYPE_CHECKING:
    from mesos_gpu.process.zookeeper import ZkGroup, ZkValue

log = logging.getLogger(__name__)


class RunningMaster:
    """One master. After `serve` it leads, or stands by until it does."""

    def __init__(self, configuration: Configuration, tls: Tls | None = None) -> None:
        """Make its parts; nothing is opened yet."""
        self._configuration = configuration
        self.live = configuration.access.live
        address = configuration.address
        self.endpoint = Endpoint(
            address.ip,
            address.port,
            advertise_ip=address.advertise_ip,
            advertise_port=address.advertise_port,
            tls=tls,
            same_user_peers=address.same_user_peers,
        )
        state = MasterState({"id": str(uuid.uuid4())}, configuration.settings, clock())
        self.leadership = Leadership(state.id)
        election = configuration.election
        self.group = None if election is None else self._group_of(election)
        self.registrar = Registrar(Registry(self._keeper(election, self.group)))
        self.engine = Engine(state, self.registrar)
        authenticators = Authenticators(self.endpoint, configuration.access.secrets)
        agents = configuration.agents
        self.link = AgentLink(
            self.engine,
            self.endpoint,
            agents.pace,
            authenticators,
            only_authenticated=agents.only_authenticated,
            limit=RemovalLimit(agents.removal_interval_s),
            patience_s=agents.patience_s,
            most_missing=agents.most_missing,
        )
        self.engine.agents = self.link
        self.link.drivers = DriverLink(self.engine, self.endpoint, authenticators)

    @property
    def url(self) -> str:
        """Return where the HTTP API is."""
        return self.endpoint.url

    async def serve(self) -> None:
        """Open the port, and lead or stand by. Raises Unavailable when that cannot be, or the registry not be had."""
        state, group = self.engine.state, self.group
        record = await self.registrar.recover(state.id) if group is None else None
        shown = dict(self._configuration.shown)
        app = OperatorApi(
            self.engine,
            shown,
            cluster=self._configuration.cluster,
            json_suffixes=self._configuration.json_suffixes,
            log_file=self._configuration.log_file,
            gate=self._configuration.access.gate,
        ).make_app()
        app.middlewares.append(self.leadership.middleware())
        protect(app, names_of(self._configuration.address.hostname, self._configuration.http_hosts))
        self.endpoint.spawn(PROCESS_ID, _not_leading)
        await self.endpoint.start(app)
        # Nobody has been answered yet: a request takes more turns of the loop than there were since the port opened.
        pid = self.endpoint.pid(PROCESS_ID)
        shown["port"] = str(pid.port)
        state.master_info = master_info(state.id, self._configuration.address.hostname or pid.ip, MESOS_VERSION, pid)
        if record is not None:
            self._lead(record)
        elif group is not None:
            log.info("master %s at %s waits for its election in %s", state.id, pid, group.session.url)
            group.join(write_node(state.master_info))

    async def close(self) -> None:
        """Stop serving; agents and schedulers see their connections end, and another master may lead."""
        self.engine.stop()
        self.link.stop()
        await self.endpoint.stop()
        if self.group is not None:
            await self.group.close()
        await self.registrar.close()

    def _lead(self, record: Record) -> None:
        """Begin to lead: what the registry holds is ours now."""
        self.engine.do(Elected(record))
        self.leadership.take()
        self.link.listen()
        self.engine.start()
        self.link.await_recovered()
        self.engine.every(self._configuration.registry_gc_interval_s, CollectRegistry())
        state, pid = self.engine.state, self.endpoint.pid(PROCESS_ID)
        log.info("master %s leads at %s, %d agents in the registry", state.id, pid, len(state.recovered))

    # Of several masters.

    def _group_of(self, election: Election) -> ZkGroup:
        """Return the group of masters that this one is about to join."""
        # kazoo takes memory and time, and most masters have no ZooKeeper.
        from mesos_gpu.process.zookeeper import ZkGroup

        return ZkGroup(
            election.url, self._heard, session_timeout_s=election.session_timeout_s, on_lost=self._session_lost
        )

    def _keeper(self, election: Election | None, group: ZkGroup | None) -> Path | ZkValue:
        """Return where the registry lies."""
        if election is None or group is None:
            return self._configuration.work_dir
        from mesos_gpu.process.zookeeper import ZkValue

        return ZkValue(group.session, "mesos-gpu-registry", patience_s=election.store_timeout_s)

    def _heard(self, leader: Leader | None) -> None:
        """Take note of who leads.

        A master that was elected leads until it ends: when another leads, or it cannot know whether, it stops (as
        Mesos).
        """
        was_elected = self.leadership.elected
        ours = self.leadership.heard(leader)
        if was_elected and not ours:
            successor = leader.pid if leader is not None else "nobody"
            self.engine.fail(f"lost the leadership to {successor}; start it again to stand by")
        elif ours and not was_elected:
            recovery = asyncio.ensure_future(self.registrar.recover(self.engine.state.id))
            recovery.add_done_callback(self._recovered)
        elif leader is not None and not ours:
            log.info("standing by; %s leads", leader.pid)

    def _session_lost(self) -> None:
        if self.leadership.elected:
            self.engine.fail("lost the session with ZooKeeper, so another master may lead; start it again to stand by")

    def _recovered(self, recovery: asyncio.Future[Record]) -> None:
        if recovery.cancelled() or self.engine.stopped:
            recovery.cancelled() or recovery.exception()
            return
        try:
            record = recovery.result()
        except Unavailable as error:
            self.engine.fail(str(error))
            return
        self._lead(record)


def _not_leading(message: Message) -> None:
    """Drop a message: a master that does not lead never redirects one. Source: Mesos src/master/master.cpp, visit."""
    log.debug("not leading: dropping %s from %s", message.name, message.sender)
