"""The wire, byte for byte, against what went between a real master and a real agent."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mesos_gpu.agent.cluster.master_link import Incoming, LinkBroke, MasterLink, Ping, Welcome
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.operations import KeepResources
from mesos_gpu.agent.model.status import container_status, make_status
from mesos_gpu.agent.model.updates import Forward, TaskKey
from mesos_gpu.agent.model.verdict import Verdict
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, encode, evolve
from tests.support import places
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID

RECORDED = json.loads((places.RECORDED / "libprocess.json").read_text())
MASTER = Pid("master", "127.0.0.1", 5050)
PREFIX = "mesos.internal."


class Wire:
    """Stands where the endpoint stands, and keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Pid, str, bytes]] = []
        self.linked: list[Pid] = []

    def spawn(self, process_id: str, on_message: Any, on_exited: Any) -> None:
        self.deliver, self.exited = on_message, on_exited

    def pid(self, process_id: str) -> Pid:
        return Pid(process_id, "127.0.0.1", 5051)

    def is_open(self, connection: int) -> bool:
        return True

    def link(self, owner: str, to: Pid) -> None:
        self.linked.append(to)

    def send(self, from_id: str, to: Pid, name: str, body: bytes) -> None:
        self.sent.append((to, name.removeprefix(PREFIX), body))


class Setup:
    def __init__(self) -> None:
        self.wire = Wire()
        self.incoming: list[Incoming] = []
        self.link = MasterLink(self.wire, self.incoming.append)  # type: ignore[arg-type]
        self.link.master = MASTER

    def receive(self, name: str, body: bytes, sender: Pid = MASTER) -> list[Incoming]:
        self.incoming.clear()
        self.wire.deliver(Message(sender, "slave(1)", PREFIX + name, body))
        return list(self.incoming)


@pytest.fixture
def setup() -> Setup:
    return Setup()


def bodies(name: str) -> list[bytes]:
    return [base64.b64decode(m["body_base64"]) for m in RECORDED if m["message"] == PREFIX + name]


def test_the_recorded_messages_are_understood(setup: Setup) -> None:
    (run,) = setup.receive("RunTaskMessage", bodies("RunTaskMessage")[0])
    assert isinstance(run, ev.RunTask)
    assert run.framework["id"]["value"] == FRAMEWORK_ID
    assert run.tasks[0]["agent_id"]["value"] == AGENT_ID
    assert run.tasks[0]["command"]["value"] == "sleep 1"
    assert run.resource_version is not None
    (ping,) = setup.receive(
        "PingSlaveMessage", bodies("PingSlaveMessage")[0], Pid("slave-observer(1)", "127.0.0.1", 5050)
    )
    assert ping == Ping(Pid("slave-observer(1)", "127.0.0.1", 5050), connected=True, ours=True)
    for name in ("SlaveRegisteredMessage", "SlaveReregisteredMessage"):
        assert setup.receive(name, bodies(name)[0]) == [Welcome(AGENT_ID, 75.0)]
    acknowledged = setup.receive("StatusUpdateAcknowledgementMessage", bodies("StatusUpdateAcknowledgementMessage")[0])
    assert [type(event) for event in acknowledged] == [ev.Acknowledged]
    assert setup.receive("ShutdownFrameworkMessage", bodies("ShutdownFrameworkMessage")[0]) == [
        ev.ShutdownFramework(FRAMEWORK_ID)
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_our_status_updates_are_the_real_agents_bytes(setup: Setup, number: int) -> None:
    real = bodies("StatusUpdateMessage")[number]
    update = decode(f"{PREFIX}StatusUpdateMessage", real)["update"]
    status = evolve("mesos.TaskStatus", update["status"])
    container = status["container_status"]
    ours = make_status(
        Verdict(status["state"], message=status.get("message")),
        task_id=status["task_id"]["value"],
        agent_id=AGENT_ID,
        executor_id=status["task_id"]["value"],
        uuid=status["uuid"],
        wall_s=status["timestamp"],
        container=container_status(
            container["container_id"]["value"],
            [{"ip_addresses": [{"ip_address": "127.0.0.1"}]}],
            container["executor_pid"],
        ),
    )
    setup.link.forward(Forward(TaskKey(FRAMEWORK_ID, status["task_id"]["value"]), ours, update["latest_state"]))
    assert setup.wire.sent == [(MASTER, "StatusUpdateMessage", real)]


def test_our_registration_is_the_real_agents_but_for_its_capabilities(setup: Setup) -> None:
    (real,) = bodies("RegisterSlaveMessage")
    document = decode(f"{PREFIX}RegisterSlaveMessage", real)
    version = document["resource_version_uuid"]["value"]
    setup.link.register(evolve("mesos.SlaveInfo", document["slave"]), version, [])
    ((_, name, body),) = setup.wire.sent
    assert name == "RegisterSlaveMessage"
    assert setup.wire.linked == [MASTER]
    ours = decode(f"{PREFIX}RegisterSlaveMessage", body)
    assert {**ours, "agent_capabilities": []} == {**document, "agent_capabilities": []}
    assert all(capability in document["agent_capabilities"] for capability in ours["agent_capabilities"])


def test_a_pong_is_empty_and_goes_where_the_ping_came_from(setup: Setup) -> None:
    observer = Pid("slave-observer(7)", "127.0.0.1", 5050)
    setup.link.pong(observer)
    assert setup.wire.sent == [(observer, "PongSlaveMessage", b"")]
    assert b"" in bodies("PongSlaveMessage")


def test_only_the_master_is_listened_to_and_pings_of_others_are_marked(setup: Setup) -> None:
    stranger = Pid("master", "127.0.0.1", 5060)
    observers = [Pid("slave-observer(1)", ip, port) for ip, port in (("127.0.0.1", 5060), ("127.0.0.2", 5050))]
    assert setup.receive("RunTaskMessage", bodies("RunTaskMessage")[0], stranger) == []
    assert setup.receive("SlaveRegisteredMessage", bodies("SlaveRegisteredMessage")[0], stranger) == []
    for observer in observers:
        for connected in (True, False):
            body = encode(f"{PREFIX}PingSlaveMessage", {"connected": connected})
            assert setup.receive("PingSlaveMessage", body, observer) == [Ping(observer, connected, ours=False)]
    setup.link.master = None
    assert setup.receive("PingSlaveMessage", body, observers[0]) == [Ping(observers[0], connected=False, ours=False)]


def test_garbage_and_unknown_messages_are_ignored(setup: Setup) -> None:
    assert setup.receive("RunTaskMessage", b"\xff\xff garbage") == []
    assert setup.receive("RunTaskMessage", b"") == []
    assert setup.receive("NoSuchMessage", b"") == []


def test_what_would_end_a_real_agent_is_ignored(setup: Setup) -> None:
    """A uuid that is none, a task that is nobody's to run, one for versions of others' resources alone."""
    ids = {"slave_id": {"value": "s"}, "framework_id": {"value": "f"}, "task_id": {"value": "t"}}
    name = "StatusUpdateAcknowledgementMessage"
    for uuid in (b"", b"v" * 16):
        document = {**ids, "uuid": base64.b64encode(uuid).decode()}
        assert setup.receive(name, encode(PREFIX + name, document)) == []
    name = "RunTaskMessage"
    framework = {"user": "root", "name": "f", "id": {"value": "f"}}
    task: dict[str, Any] = {"name": "t", "task_id": {"value": "t"}, "slave_id": {"value": "s"}}
    assert setup.receive(name, encode(PREFIX + name, {"framework": framework, "task": task})) == []
    task["command"] = {"value": "true"}
    (run,) = setup.receive(name, encode(PREFIX + name, {"framework": framework, "task": task}))
    assert isinstance(run, ev.RunTask)
    versions = [{"resource_provider_id": {"value": "p"}, "uuid": {"value": "dQ=="}}]
    document = {"framework": framework, "task": task, "resource_version_uuids": versions}
    assert setup.receive(name, encode(PREFIX + name, document)) == []


def test_every_other_message_becomes_its_event(setup: Setup) -> None:
    framework_id, task_id = {"value": "f"}, {"value": "t"}
    policy = {"grace_period": {"nanoseconds": 5_000_000_000}}

    def incoming(name: str, **document: Any) -> list[Incoming]:
        return setup.receive(name, encode(PREFIX + name, document))

    assert incoming("KillTaskMessage", framework_id=framework_id, task_id=task_id, kill_policy=policy) == [
        ev.KillTask(TaskKey("f", "t"), 5.0)
    ]
    assert incoming("KillTaskMessage", framework_id=framework_id, task_id=task_id) == [ev.KillTask(TaskKey("f", "t"))]
    assert incoming("ShutdownMessage", message="go") == [ev.ShutdownAgent("go")]
    assert incoming("DrainSlaveMessage", config={"mark_gone": True}) == [ev.Drain(None, True)]
    assert incoming("DrainSlaveMessage", config={"max_grace_period": {"nanoseconds": 10**9}}) == [ev.Drain(1.0, False)]
    assert incoming("UpdateFrameworkMessage", framework_id=framework_id) == [ev.UpdateFramework("f", None)]
    assert incoming("CheckpointResourcesMessage") == [KeepResources(())]
    statuses = [{"task_id": task_id, "state": "TASK_RUNNING"}]
    reconciliation = {"framework_id": framework_id, "statuses": statuses}
    (welcome,) = incoming("SlaveReregisteredMessage", slave_id={"value": "s"}, reconciliations=[reconciliation])
    assert isinstance(welcome, Welcome)
    assert welcome.reconcile == (ev.Reconcile(TaskKey("f", "t"), partition_aware=False),)


def test_a_broken_link_counts_only_when_it_is_the_masters(setup: Setup) -> None:
    setup.wire.exited(Pid("master", "127.0.0.1", 5060))
    assert setup.incoming == []
    setup.wire.exited(MASTER)
    assert setup.incoming == [LinkBroke()]


def test_without_a_master_nothing_is_sent(setup: Setup) -> None:
    setup.link.master = None
    setup.link.unregister(AGENT_ID)
    setup.link.register({"hostname": "h"}, "", [])
    assert setup.wire.sent == []
