"""Thousands of agents in one process, for `./run bench scale`: the wire of real ones, and nothing behind it.

Each has an address of its own on the loopback (127.16.0.1 and so on), a connection to the master, and one from it, and
speaks libprocess messages as an agent does: it registers, answers pings, reports each task that it is sent as
TASK_RUNNING with a uuid of its own, and takes the acknowledgement. It is written for little work in Python, since it
has its part of the processors that it measures others on.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID as UUID4

from mesos_gpu.mesos.libprocess import MessageDecoder, Pid
from mesos_gpu.mesos.libprocess import encode as frame
from mesos_gpu.mesos.message_types import message_class
from mesos_gpu.mesos.messages import encode
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import UUID

PREFIX = "mesos.internal."
RESOURCES = Resources.parse("cpus:32;mem:131072;disk:1000000;gpus:8;ports:[31000-32000]").to_json()
CAPABILITIES = ("MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT")
AT_ONCE = 200
"""So many register at a time."""


def address(number: int) -> str:
    """Return the address of an agent."""
    return f"127.{16 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"


class SimulatedAgent(asyncio.Protocol):
    """One agent: its connection to the master, and what comes over that from it."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet, self.host = fleet, address(number)
        self.pid = Pid("slave(1)", self.host, fleet.port)
        self.id = ""
        self.registered = asyncio.Event()
        self._to_master: asyncio.Transport | None = None

    async def register(self) -> None:
        """Say who we are, and wait for the answer."""
        loop, master = asyncio.get_running_loop(), self._fleet.master
        self._to_master, _ = await loop.create_connection(
            asyncio.Protocol, master.ip, master.port, local_addr=(self.host, 0)
        )
        document = {
            "slave": {
                "hostname": f"node-{self.host}",
                "port": self._fleet.port,
                "checkpoint": True,
                "resources": RESOURCES,
            },
            "version": "1.12.0",
            "agent_capabilities": [{"type": capability} for capability in CAPABILITIES],
            "resource_version_uuid": {"value": UUID},
        }
        self.say("RegisterSlaveMessage", encode(f"{PREFIX}RegisterSlaveMessage", document))
        await self.registered.wait()

    def say(self, name: str, body: bytes, to: Pid | None = None) -> None:
        """Send the master a message."""
        if self._to_master is not None:
            self._to_master.write(frame(self.pid, to or self._fleet.master, PREFIX + name, body))

    def close(self) -> None:
        """Hang up."""
        if self._to_master is not None:
            self._to_master.close()

    def run(self, body: bytes) -> None:
        """Report a task of a RunTaskMessage as running."""
        asked: Any = message_class(f"{PREFIX}RunTaskMessage").FromString(body)
        update: Any = message_class(f"{PREFIX}StatusUpdateMessage")()
        self._fleet.launched += 1
        now_s, uuid = time.time(), UUID4(int=self._fleet.launched, version=4).bytes
        said = update.update
        said.framework_id.value = asked.framework.id.value
        said.slave_id.value = self.id
        said.executor_id.value = asked.task.task_id.value
        said.timestamp, said.uuid, said.latest_state = now_s, uuid, 1
        status = said.status
        status.task_id.value = asked.task.task_id.value
        status.slave_id.value = self.id
        status.executor_id.value = asked.task.task_id.value
        status.state, status.source, status.timestamp, status.uuid = 1, 2, now_s, uuid
        update.pid = str(self.pid)
        self.say("StatusUpdateMessage", update.SerializeToString())


class _FromMaster(asyncio.Protocol):
    """A connection from the master: to which agent, the address says that it was made to."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._decoder = fleet, MessageDecoder()
        self._agent: SimulatedAgent | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._agent = self._fleet.by_host.get(transport.get_extra_info("sockname")[0])
        self._fleet.incoming.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._fleet.incoming.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._agent is None:
            return
        for message in self._decoder.feed(data):
            name = message.name.removeprefix(PREFIX)
            if name == "RunTaskMessage":
                self._agent.run(message.body)
            elif name == "StatusUpdateAcknowledgementMessage":
                self._fleet.acknowledged += 1
            elif name == "PingSlaveMessage":
                self._agent.say("PongSlaveMessage", b"", message.sender)
            elif name == "SlaveRegisteredMessage":
                answer: Any = message_class(message.name).FromString(message.body)
                self._agent.id = answer.slave_id.value
                self._agent.registered.set()
        if self._decoder.error is not None and self._transport is not None:
            # Marathon asks agents over HTTP what their containers use; these have none to tell of.
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._transport.close()


class Fleet:
    """All agents of a run. `launched` and `acknowledged` count tasks since the start."""

    def __init__(self, master: str, count: int) -> None:
        ip, _, port = master.removeprefix("http://").partition(":")
        self.master = Pid("master", ip, int(port))
        self.count, self.port = count, 0
        self.launched = self.acknowledged = 0
        self.by_host: dict[str, SimulatedAgent] = {}
        self.incoming: set[asyncio.Transport] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Fleet:
        """Listen on the loopback alone, and register all agents."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        listening.bind(("0.0.0.0", 0))  # nosec B104 - of the loopback alone, see above
        self.port = listening.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _FromMaster(self), sock=listening, backlog=4096)
        agents = [SimulatedAgent(self, number) for number in range(self.count)]
        self.by_host = {agent.host: agent for agent in agents}
        for at in range(0, len(agents), AT_ONCE):
            await asyncio.wait_for(asyncio.gather(*(agent.register() for agent in agents[at : at + AT_ONCE])), 60)
        return self

    async def __aexit__(self, *_: object) -> None:
        for agent in self.by_host.values():
            agent.close()
        for transport in list(self.incoming):
            transport.abort()
        if self._server is not None:
            self._server.close()

    async def until(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Wait for something of ours, for so long at most; return whether it came."""
        end_s = time.monotonic() + limit_s
        while not done() and time.monotonic() < end_s:  # noqa: ASYNC110 - looked at ten times a second
            await asyncio.sleep(0.1)
        return done()
