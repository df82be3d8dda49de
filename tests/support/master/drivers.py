"""Scheduler drivers of libmesos, by hand: processes of one port that send messages and note what comes back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support.master.live import PREFIX, until

CALL = "mesos.scheduler.Call"


class ScriptedDrivers:
    """Any number of drivers behind one port, as in one program; each is named by the id of its process."""

    def __init__(self, master: str) -> None:
        host, _, port = master.removeprefix("http://").partition(":")
        self.master = Pid("master", host, int(port))
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.told: dict[str, list[tuple[str, Document]]] = defaultdict(list)
        """What each was told, in order: names without package, and bodies."""
        self.senders: set[str] = set()
        """Pids that anything came from."""
        self._read: dict[str, int] = defaultdict(int)

    async def start(self) -> ScriptedDrivers:
        await self.endpoint.start(make_app())
        return self

    async def stop(self) -> None:
        await self.endpoint.stop()

    def pid(self, driver: str) -> str:
        return str(self.endpoint.pid(driver))

    def say(self, driver: str, name: str, document: Document) -> None:
        """Send a message, named in full."""

        def note(message: Message) -> None:
            self.senders.add(str(message.sender))
            found = message.name.removeprefix(PREFIX)
            self.told[driver].append((found, decode(message.name, message.body)))

        self.endpoint.spawn(driver, note)
        self.endpoint.send(driver, self.master, name, encode(name, document))

    def call(self, driver: str, kind: str, framework_id: str, **body: Any) -> None:
        """Make a call as drivers since 0.23 do."""
        document: Document = {"framework_id": {"value": framework_id}, "type": kind}
        self.say(driver, CALL, document | ({kind.lower(): body} if body else {}))

    def subscribe(self, driver: str, info: Document, *, force: bool = False) -> None:
        document: Document = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info, "force": force}}
        self.say(driver, CALL, document | ({"framework_id": info["id"]} if "id" in info else {}))

    async def next(self, driver: str, name: str, *, skip: tuple[str, ...] = ()) -> Document:
        """Return the next message to a driver, which has this name; those in `skip` are passed over."""
        while True:
            await until(lambda: len(self.told[driver]) > self._read[driver])
            found, document = self.told[driver][self._read[driver]]
            self._read[driver] += 1
            if found == name:
                return document
            assert found in skip, f"{found} came before {name}: {document}"

    async def settle(self) -> None:
        """Let what is on the way arrive: an answer of the master's to a message that follows all others."""
        probe = f"scheduler-probe-{len(self.told)}"
        self.say(
            probe, f"{PREFIX}RegisterFrameworkMessage", {"framework": {"user": "u", "name": "n", "id": {"value": "x"}}}
        )
        await asyncio.wait_for(self.next(probe, "FrameworkErrorMessage"), 60)
