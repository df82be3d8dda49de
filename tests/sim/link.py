"""Marathon's connection to the master without pymesos' threads: its driver's own code makes and reads the messages.

Connections, pauses and patience are those of `mesos_gpu.marathon.engine.driver`; only who waits for a socket is
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import json

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.engine import driver as real
from mesos_gpu.marathon.engine.mesos_link import Inbox, LinkEvent
from mesos_gpu.marathon.state.actions import Call, Launch, Resubscribe, UpdateRoles
from mesos_gpu.marathon.state.events import CallFailed, Status
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.leader import SCHEME, Leader, parse_zk_url
from mesos_gpu.process.zookeeper import ZkGroup
from tests.sim.http import Connection

CALLS = "/api/v1/scheduler"


class _Driver(real.Driver):
    """pymesos' driver, whose messages are put down for the link to send."""

    def __init__(self, inbox: Inbox, framework: dict[str, Any], master: str) -> None:
        super().__init__(inbox, framework, master, lambda driver: None)
        self.named = self._master = master
        self.stream: str | None = None
        self.outgoing: list[Any] = []

    @property
    def connected(self) -> bool:
        return self.stream is not None

    @property
    def master(self) -> str:
        return self._master

    def _send(self, body: Any, path: str = CALLS, method: str = "POST", headers: Any = None) -> Any:
        self.sent += 1
        self.outgoing.append(body)
        return {}


class SimulatedLink:
    """A MesosLink, made as PymesosLink is."""

    def __init__(
        self,
        master: str,
        framework: Callable[[], Mapping[str, Any]],
        *,
        secret: str | None = None,
        heartbeat_s: float = real.HEARTBEAT_S,
        silent_heartbeats: int = real.SILENT_HEARTBEATS,
        through: Callable[[str], str] = str,
    ) -> None:
        self._master: str | None = None if master.startswith(SCHEME) else master
        self._framework = framework
        self._found = asyncio.Event()
        self._group: ZkGroup | None = None
        self._open: Connection | None = None
        if self._master is None:
            self._group = ZkGroup(parse_zk_url("master", master), self._heard)
        else:
            self._found.set()
        self._silence_s = heartbeat_s * silent_heartbeats
        self._inbox: Inbox = lambda event: None
        self._id: FrameworkId | None = None
        self._roles: Any = None
        self._driver: _Driver | None = None
        self._jobs: asyncio.Queue[Call] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._calls: Connection | None = None

    def start(self, framework_id: FrameworkId | None, inbox: Inbox) -> None:
        """See MesosLink."""
        self._id, self._inbox = framework_id, inbox
        self._tasks = [asyncio.ensure_future(self._subscribe()), asyncio.ensure_future(self._work())]
        if self._group is not None:
            self._group.follow()

    def _heard(self, leader: Leader | None) -> None:
        """Go to another master, as pymesos does: the connection to the one before is closed."""
        self._master = None if leader is None else f"{leader.pid.ip}:{leader.pid.port}"
        if self._master is None:
            self._found.clear()
        else:
            self._found.set()
        if self._open is not None:
            self._open.close()

    def on_status(self, status: dict[str, Any]) -> None:
        """Told of every TaskStatus that comes."""

    def _tell(self, event: LinkEvent) -> None:
        if isinstance(event, Status):
            self.on_status(dict(event.status))
        self._inbox(event)

    def call(self, call: Call) -> None:
        """See MesosLink."""
        self._jobs.put_nowait(call)

    def stop(self) -> None:
        """See MesosLink."""
        for task in self._tasks:
            task.cancel()

    def consume_interrupt(self) -> bool:
        """Nobody is interrupted here."""
        return False

    async def _subscribe(self) -> None:
        failures = 0
        while True:
            await self._found.wait()
            master = self._master
            if master is None:
                continue
            framework = dict(self._framework())
            if self._roles is not None:
                framework["roles"] = list(self._roles)
            if self._id is not None:
                framework["id"] = {"value": self._id}
            self._driver = driver = _Driver(self._tell, framework, master)
            try:
                await self._listen(driver)
            except (OSError, asyncio.TimeoutError):
                pass
            failures = 0 if driver.subscriptions else failures + 1
            self._id = driver.framework_id or self._id
            if driver.stream is not None:
                driver.stream = None
            self._drop_calls()  # as pymesos: the connection for calls ends with that of events
            driver.sched.disconnected(driver)
            await asyncio.sleep(min(real.LONGEST_PAUSE_S, real.FIRST_PAUSE_S * 2 ** min(failures, 10)))

    async def _listen(self, driver: _Driver) -> None:
        connection = await asyncio.wait_for(Connection.open(driver.master), real.CALL_TIMEOUT_S)
        self._open = connection
        try:
            request: dict[str, Any] = {"type": "SUBSCRIBE", "subscribe": {"framework_info": driver.framework}}
            if self._id is not None:
                request["framework_id"] = {"value": self._id}
            head = await connection.begin("POST", CALLS, request, patience_s=self._silence_s)
            if head.status != 200:
                return
            driver.stream = head.headers["mesos-stream-id"]
            waiting = b""
            while (chunk := await connection.chunk(patience_s=self._silence_s)) is not None:
                waiting += chunk
                while b"\n" in waiting:
                    size, rest = waiting.split(b"\n", 1)
                    if len(rest) < int(size):
                        break
                    driver.on_event(json.decode(rest[: int(size)]))
                    waiting = rest[int(size) :]
        finally:
            self._open = None
            connection.close()

    async def _work(self) -> None:
        while True:
            call = await self._jobs.get()
            try:
                await self._perform(call)
            except (OSError, asyncio.TimeoutError, Unavailable) as error:
                self._drop_calls()
                self._inbox(CallFailed(call, str(error) or type(error).__name__))

    async def _perform(self, call: Call) -> None:
        driver = self._driver
        if isinstance(call, Resubscribe):
            self._id = None
            self._tasks[0].cancel()
            self._tasks[0] = asyncio.ensure_future(self._subscribe())
            return
        if isinstance(call, UpdateRoles):
            self._roles = call.roles
        if driver is None or not driver.connected:
            raise Unavailable("there is no connection to a master")
        driver.outgoing.clear()
        real.send(driver, call)
        for body in list(driver.outgoing):
            try:
                await self._post(driver, body)
            except (OSError, asyncio.TimeoutError):
                if isinstance(call, Launch):
                    raise
                self._drop_calls()
                await self._post(driver, body)

    async def _post(self, driver: _Driver, body: Any) -> None:
        if self._calls is None:
            self._calls = await asyncio.wait_for(Connection.open(driver.master), real.CALL_TIMEOUT_S)
        headers = {"Mesos-Stream-Id": driver.stream or ""}
        answer = await self._calls.ask("POST", CALLS, body, headers, patience_s=real.CALL_TIMEOUT_S)
        if not 200 <= answer.status < 300:
            raise Unavailable(f"Failed to send request {answer.status}: {answer.body!r}")

    def _drop_calls(self) -> None:
        if self._calls is not None:
            self._calls.close()
            self._calls = None
