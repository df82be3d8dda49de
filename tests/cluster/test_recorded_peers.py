"""The recorded master towards our agent, and the recorded agent towards our master: their bytes, over real sockets.

Each answer of ours is compared field by field with what the real one answered. Ids, times, ports and addresses are each
run's own, and are left out by name; nothing else is.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support import places
from tests.support.cluster import ClusterAgent, cluster_agent
from tests.support.master.live import live_master, soon, until

RECORDED: list[dict[str, Any]] = json.loads((places.RECORDED / "libprocess.json").read_text())
PREFIX = "mesos.internal."
MASTER_PORT, AGENT_PORT = 5050, 5051
# What is each run's own. `resources`, `attributes`: of the machine; `cpus` and the like are compared by their names.
OWN = {
    "value",
    "uuid",
    "timestamp",
    "port",
    "hostname",
    "pid",
    "container_id",
    "executor_pid",
    "ip_address",
    "resource_version_uuid",
    "resource_version_uuids",
    "data",
    "cgroup_info",
    "ip_addresses",
    "message",
}


def recorded(name: str, number: int = 0) -> tuple[Document, bytes]:
    found = [m for m in RECORDED if m["message"] == PREFIX + name]
    body = base64.b64decode(found[number]["body_base64"])
    return decode(PREFIX + name, body), body


def shape(value: Any) -> Any:
    """The fields of a document, with the values that are the same in every run."""
    if isinstance(value, dict):
        return {
            key: None if key in OWN and not isinstance(item, (dict, list)) else shape(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [shape(item) for item in value]
    return value


class Replayer:
    """A port that speaks the recorded bytes under the recorded names, with this run's addresses and ids in them."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.got: asyncio.Queue[tuple[str, Document, Pid]] = asyncio.Queue()

    async def start(self) -> Replayer:
        await self.endpoint.start(make_app())
        for name in (self.process, "slave-observer(1)"):
            self.endpoint.spawn(name, self._on_message)
        return self

    def _on_message(self, message: Message) -> None:
        document = decode(message.name, message.body)
        self.got.put_nowait((message.name.removeprefix(PREFIX), document, message.sender))

    def say(self, to: Pid, name: str, body: bytes, *, sender: str | None = None) -> None:
        self.endpoint.send(sender or self.process, to, PREFIX + name, body)

    async def next(self, name: str, skip: tuple[str, ...] = ()) -> tuple[Document, Pid]:
        while True:
            found, document, sender = await soon(self.got.get())
            if found == name:
                return document, sender
            assert found in skip, f"{found} came before {name}"


@pytest.fixture
async def master() -> AsyncIterator[Replayer]:
    replayer = await Replayer("master").start()
    yield replayer
    await replayer.endpoint.stop()


@pytest.fixture
async def agent(tmp_path: Path, master: Replayer) -> AsyncIterator[ClusterAgent]:
    async with cluster_agent(tmp_path / "agent", f"127.0.0.1:{master.endpoint.port}") as running:
        yield running


async def test_the_recorded_master_registers_our_agent_and_runs_its_task(agent: ClusterAgent, master: Replayer) -> None:
    # Registration: ours has the fields of the real one; it may announce fewer capabilities, and has its own resources.
    ours, pid = await master.next("RegisterSlaveMessage")
    real, _ = recorded("RegisterSlaveMessage")
    assert pid.id == "slave(1)"
    assert pid.port == ours["slave"]["port"]
    assert set(ours) == set(real)
    assert ours["version"] == real["version"]
    named = {r["name"]: (r["type"], r["role"]) for r in real["slave"]["resources"]}
    assert {r["name"]: (r["type"], r["role"]) for r in ours["slave"]["resources"]} == named
    announced = [c["type"] for c in ours["agent_capabilities"]]
    assert announced == [c["type"] for c in real["agent_capabilities"] if c["type"] in announced]

    # The master's very bytes.
    master.endpoint.link("master", pid)
    welcome, body = recorded("SlaveRegisteredMessage")
    master.say(pid, "SlaveRegisteredMessage", body)
    master.say(pid, "PingSlaveMessage", recorded("PingSlaveMessage")[1], sender="slave-observer(1)")
    assert (await master.next("PongSlaveMessage", ("UpdateSlaveMessage",)))[0] == {}
    assert agent.agent.agent_id == welcome["slave_id"]["value"]
    assert agent.agent.membership.registration.ping_timeout_s == welcome["connection"]["total_ping_timeout_seconds"]

    # The task, but for the version of resources, which is this run's.
    run, _ = recorded("RunTaskMessage")
    run["resource_version_uuids"] = [{"uuid": ours["resource_version_uuid"]}]
    master.say(pid, "RunTaskMessage", encode(PREFIX + "RunTaskMessage", run))
    updates = [m for m in RECORDED if m["message"] == PREFIX + "StatusUpdateMessage"]
    skip = ("UpdateSlaveMessage",)
    for number, state in enumerate(["TASK_STARTING", "TASK_RUNNING"]):
        update, _ = await master.next("StatusUpdateMessage", skip)
        theirs = decode(PREFIX + "StatusUpdateMessage", base64.b64decode(updates[number]["body_base64"]))
        assert update["update"]["status"]["state"] == state
        theirs_shape, ours_shape = shape(theirs), shape(update)
        if state == "TASK_STARTING":  # it leaves while the container is being launched: docs/reference/differences.md
            theirs_shape["update"]["status"]["container_status"].pop("executor_pid", None)
            ours_shape["update"]["status"]["container_status"].pop("executor_pid", None)
        assert ours_shape == theirs_shape
        acknowledgement = {
            "slave_id": update["update"]["slave_id"],
            "framework_id": update["update"]["framework_id"],
            "task_id": update["update"]["status"]["task_id"],
            "uuid": update["update"]["uuid"],
        }
        real_ack, _ = recorded("StatusUpdateAcknowledgementMessage")
        assert shape(acknowledgement) == shape(real_ack)
        name = "StatusUpdateAcknowledgementMessage"
        master.say(pid, name, encode(PREFIX + name, acknowledgement))
    # And the end of its framework: the container is destroyed, and not a word is said.
    master.say(pid, "ShutdownFrameworkMessage", recorded("ShutdownFrameworkMessage")[1])
    await until(lambda: not agent.containers.running)
    assert master.got.empty()


async def test_our_master_takes_the_recorded_agent_through_its_life(tmp_path: Path) -> None:
    """Its registration, and after its restart its re-registration, with the very fields it sent then."""
    async with live_master(tmp_path) as ours:
        agent = await Replayer("slave(1)").start()
        try:
            to = ours.endpoint.pid("master")
            await _register(agent, to)
            welcomed, sender = await agent.next("SlaveRegisteredMessage", ("PingSlaveMessage",))
            real, _ = recorded("SlaveRegisteredMessage")
            assert sender == to
            assert shape(welcomed) == shape(real)
            (known,) = ours.engine.state.agents.values()
            _check_known(ours, known.id)

            document, _ = recorded("ReregisterSlaveMessage")
            document = json.loads(
                json.dumps(document).replace(document["slave"]["id"]["value"], welcomed["slave_id"]["value"])
            )
            document["slave"]["port"] = agent.endpoint.port
            name = "ReregisterSlaveMessage"
            agent.endpoint.link("slave(1)", to)
            agent.say(to, name, encode(PREFIX + name, document))
            again, _ = await agent.next("SlaveReregisteredMessage", ("PingSlaveMessage",))
            assert shape(again) == shape(recorded("SlaveReregisteredMessage")[0])
            assert {t.id for t in known.tasks.values()} == {t["task_id"]["value"] for t in document.get("tasks", [])}
        finally:
            await agent.endpoint.stop()


async def _register(agent: Replayer, to: Pid) -> None:
    document, _ = recorded("RegisterSlaveMessage")
    document["slave"]["port"] = agent.endpoint.port
    agent.endpoint.link("slave(1)", to)
    agent.say(to, "RegisterSlaveMessage", encode(PREFIX + "RegisterSlaveMessage", document))


def _check_known(master: RunningMaster, agent_id: str) -> None:
    """The master's books say of the agent what it said."""
    document, _ = recorded("RegisterSlaveMessage")
    agent = master.engine.state.agents[agent_id]
    assert agent.hostname == document["slave"]["hostname"]
    assert list(agent.capabilities) == [c["type"] for c in document["agent_capabilities"]]
    scalars = {r["name"]: r["scalar"]["value"] for r in document["slave"]["resources"] if "scalar" in r}
    booked = {r["name"]: r["scalar"]["value"] for r in agent.total.to_json() if "scalar" in r}
    assert booked == scalars
