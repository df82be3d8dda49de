"""Peers that do what none should, over real sockets: no crash, no task lost, and a line in the log that names them."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.messages import devolve, encode
from tests.fakes.master import ScriptedMaster
from tests.support import places
from tests.support.agent.documents import AGENT_ID, framework, task
from tests.support.cluster import ClusterAgent, cluster_agent
from tests.support.histories import examples
from tests.support.master.live import ScriptedAgent, live_master, soon

PREFIX = "mesos.internal."
RECORDED: list[dict[str, Any]] = json.loads((places.RECORDED / "libprocess.json").read_text())


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedMaster]:
    master = await ScriptedMaster(AGENT_ID).start()
    yield master
    await master.stop()


@pytest.fixture
async def agent(tmp_path: Path, scripted: ScriptedMaster) -> AsyncIterator[ClusterAgent]:
    async with cluster_agent(tmp_path / "agent", f"127.0.0.1:{scripted.pid.port}") as running:
        await soon(running.agent.registered.wait())
        yield running


async def send(to: tuple[str, int], data: bytes) -> bytes:
    """Write bytes to a port, close our side, and return what comes back before the end."""
    reader, writer = await asyncio.open_connection(*to)
    try:
        writer.write(data)
        writer.write_eof()
        return await soon(reader.read())
    except ConnectionError:
        return b""
    finally:
        writer.close()


def run_task(scripted: ScriptedMaster, task_id: str) -> None:
    info = devolve("mesos.FrameworkInfo", framework("PARTITION_AWARE"))
    scripted.run(info, devolve("mesos.TaskInfo", task(task_id)))


async def test_half_messages_unknown_ones_and_wrong_types_harm_nobody(
    agent: ClusterAgent, scripted: ScriptedMaster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run_task(scripted, "t")
    await scripted.reaches("t", "TASK_RUNNING")
    us, master = agent.endpoint.pid("slave(1)"), scripted.pid
    kill = encode(f"{PREFIX}KillTaskMessage", {"framework_id": {"value": "f"}, "task_id": {"value": "t"}})
    whole = libprocess.encode(master, us, f"{PREFIX}KillTaskMessage", kill)
    for cut in (1, 20, len(whole) - 9, len(whole) - 1):
        assert b"202" not in await send(us.address, whole[:cut])  # half a message is none
    for name, body in (
        ("NoSuchMessage", b""),
        ("KillTaskMessage", b"\xff\xfe not protobuf"),
        ("KillTaskMessage", b""),  # required fields missing
        ("RunTaskMessage", kill),  # another type's bytes
        ("StatusUpdateAcknowledgementMessage", kill),
        ("SlaveRegisteredMessage", b"\n\x00"),
    ):
        answer = await send(us.address, libprocess.encode(master, us, PREFIX + name, body))
        assert b"202 Accepted" in answer, name
    assert str(master) in caplog.text
    assert f"{PREFIX}NoSuchMessage" in caplog.text
    # It is as before: known to the master, and its task runs until it is told to end.
    run_task(scripted, "u")
    await scripted.reaches("u", "TASK_RUNNING")
    assert set(scripted.states("t")) == {"TASK_STARTING", "TASK_RUNNING"}


async def test_two_that_claim_to_lead_only_the_detected_one_is_obeyed(
    agent: ClusterAgent, scripted: ScriptedMaster, caplog: pytest.LogCaptureFixture
) -> None:
    run_task(scripted, "t")
    await scripted.reaches("t", "TASK_RUNNING")
    usurper = await ScriptedMaster(AGENT_ID).start()
    try:
        usurper.agent = scripted.agent
        usurper.observe(1)
        usurper.send("SlaveRegisteredMessage", {"slave_id": {"value": "another-S0"}})
        usurper.send("ShutdownMessage", {"message": "go away"})
        usurper.send("ShutdownFrameworkMessage", {"framework_id": {"value": framework()["id"]["value"]}})
        run_task(usurper, "theirs")
        usurper.ping()
        await usurper.until(lambda: usurper.pongs == ["slave-observer(1)"])  # anyone may ping, as in Mesos
        assert any(str(usurper.pid) in message for message in caplog.messages)
        assert agent.agent.agent_id == AGENT_ID
        assert scripted.states("t") == ["TASK_STARTING", "TASK_RUNNING"]
        assert usurper.messages("StatusUpdateMessage") == []
    finally:
        await usurper.stop()


@pytest.mark.parametrize("kind", ["newer", "older"])
async def test_agents_newer_and_older_than_we_know_are_taken(tmp_path: Path, kind: str) -> None:
    """Newer: fields we have no name for, a capability too. Older: what 1.0 did not send is missing."""
    recorded = next(m for m in RECORDED if m["message"] == f"{PREFIX}RegisterSlaveMessage")
    body = base64.b64decode(recorded["body_base64"])
    if kind == "newer":
        body += b"\xd2\x3e\x03new" + b"\xfa\x01\x02\x08\x2a"  # fields 1002 and 31
        body += b"\x22\x02\x08\x63"  # agent_capabilities { type: 99 }
    else:
        old = {"hostname": "old", "port": 5051, "resources": [_scalar("cpus", 4.0), _scalar("mem", 512.0)]}
        body = encode(f"{PREFIX}RegisterSlaveMessage", {"slave": old, "version": "1.0.0"})
    async with live_master(tmp_path) as master:
        agent = ScriptedAgent(master.url)
        await agent.start()
        try:
            agent.endpoint.send("slave(1)", agent.master, f"{PREFIX}RegisterSlaveMessage", body)
            agent.id = (await agent.message("SlaveRegisteredMessage"))["slave_id"]["value"]
            known = master.engine.state.agents[agent.id]
            assert known.version == {"newer": "1.12.0", "older": "1.0.0"}[kind]
            assert ("RESERVATION_REFINEMENT" in known.capabilities) is (kind == "newer")
        finally:
            await agent.stop()


def _scalar(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}}


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), name=st.sampled_from(sorted({m["message"] for m in RECORDED})))
def test_whatever_bytes_a_message_has_the_master_goes_on(tmp_path: Path, data: bytes, name: str) -> None:
    asyncio.run(_fuzz(tmp_path, data, name))


async def _fuzz(folder: Path, data: bytes, name: str) -> None:
    async with live_master(folder) as master:
        pid = master.endpoint.pid("master")
        liar = Pid("slave(1)", "127.0.0.1", 1)
        assert b"202" in await send(pid.address, libprocess.encode(liar, pid, name, data))
        await send(pid.address, data)
        _alive(master)


def _alive(master: RunningMaster) -> None:
    assert not master.engine.failed.done()
    assert not master.engine._stopped
