"""A master that says what a test tells it to: libprocess messages over a real socket, in Mesos' internal form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support.patience import TIMES

PREFIX = "mesos.internal."
Document = dict[str, Any]


class ScriptedMaster:
    """Keeps what it was sent; answers registrations with `agent_id` while `answers`, and acknowledges while told to."""

    def __init__(self, agent_id: str, *, port: int = 0) -> None:
        self.agent_id = agent_id
        self.answers = True
        self.acknowledges = True
        self.reconciliations: list[Document] = []
        self.received: list[tuple[str, Document]] = []
        self.agent: Pid | None = None
        self.broken: list[Pid] = []
        self.pongs: list[str] = []
        self._news = asyncio.Event()
        self._endpoint = Endpoint("127.0.0.1", port)

    async def start(self) -> ScriptedMaster:
        await self._endpoint.start(make_app())
        self._endpoint.spawn("master", self._on_message, self._on_exited)
        return self

    async def stop(self) -> None:
        await self._endpoint.stop()

    @property
    def pid(self) -> Pid:
        return self._endpoint.pid("master")

    def pid_of(self, observer: int) -> Pid:
        return self._endpoint.pid(f"slave-observer({observer})")

    def observe(self, number: int) -> None:
        """Take pongs for slave-observer(number)."""
        name = f"slave-observer({number})"
        self._endpoint.spawn(name, lambda message: self._pong(name, message), None)

    def send(self, name: str, document: Document, *, sender: str = "master") -> None:
        assert self.agent is not None
        self._endpoint.send(sender, self.agent, PREFIX + name, encode(PREFIX + name, document))

    def ping(self, *, connected: bool = True, observer: int = 1) -> None:
        self.send("PingSlaveMessage", {"connected": connected}, sender=f"slave-observer({observer})")

    def run(self, framework: Document, task: Document, **more: Any) -> None:
        document = {"framework": framework, "task": task, "pid": "@0.0.0.0:0", "launch_executor": True, **more}
        self.send("RunTaskMessage", document)

    def acknowledge(self, update: Document) -> None:
        status = update["status"]
        document = {
            "slave_id": {"value": self.agent_id},
            "framework_id": update["framework_id"],
            "task_id": status["task_id"],
            "uuid": update["uuid"],
        }
        self.send("StatusUpdateAcknowledgementMessage", document)

    def messages(self, name: str) -> list[Document]:
        return [document for received, document in self.received if received == name]

    def updates(self, task_id: str) -> list[Document]:
        found = [document["update"] for document in self.messages("StatusUpdateMessage")]
        return [update for update in found if update["status"]["task_id"]["value"] == task_id]

    def news(self, task_id: str) -> list[Document]:
        """Return each update once: an agent sends it until it is acknowledged, and after it has registered again."""
        return list({update["uuid"]: update for update in self.updates(task_id)}.values())

    def states(self, task_id: str) -> list[str]:
        return [update["status"]["state"] for update in self.updates(task_id)]

    async def until(self, true: Callable[[], bool], timeout_s: float = 20.0 * TIMES) -> None:
        """Wait until something is true; it is looked at whenever a message has come."""

        async def wait() -> None:
            while not true():
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(wait(), timeout_s)

    async def got(self, name: str, count: int = 1) -> Document:
        """Wait for the `count`th message of a name."""
        await self.until(lambda: len(self.messages(name)) >= count)
        return self.messages(name)[count - 1]

    async def reaches(self, task_id: str, state: str) -> Document:
        """Wait until a task was reported in a state; return that update."""
        await self.until(lambda: state in self.states(task_id))
        return self.updates(task_id)[self.states(task_id).index(state)]

    def _on_message(self, message: Message) -> None:
        name = message.name.removeprefix(PREFIX)
        document = decode(message.name, message.body)
        self.received.append((name, document))
        if name in ("RegisterSlaveMessage", "ReregisterSlaveMessage"):
            if self.agent != message.sender:
                self.agent = message.sender
            if self.answers:
                self._endpoint.link("master", message.sender)
                self._welcome(name)
        elif name == "StatusUpdateMessage" and self.acknowledges:
            self.acknowledge(document["update"])
        self._news.set()

    def _welcome(self, name: str) -> None:
        document: Document = {
            "slave_id": {"value": self.agent_id},
            "connection": {"total_ping_timeout_seconds": 75.0},
        }
        if name == "RegisterSlaveMessage":
            self.send("SlaveRegisteredMessage", document)
        else:
            self.send("SlaveReregisteredMessage", {**document, "reconciliations": self.reconciliations})

    def _pong(self, name: str, message: Message) -> None:
        assert message.body == b""
        self.pongs.append(name)
        self._news.set()

    def _on_exited(self, pid: Pid) -> None:
        self.broken.append(pid)
        self._news.set()
