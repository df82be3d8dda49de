"""An agent under a scripted master: what is reserved and created survives its death, and is said until heard."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import aiohttp

from mesos_gpu.agent.cluster.membership import TRIES_BEFORE_A_WORD
from mesos_gpu.agent.decisions.registration import Cause
from mesos_gpu.mesos.messages import decode, devolve, encode
from mesos_gpu.mesos.uuids import random_uuid
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, framework, task
from tests.support.agent.internal import wait_for
from tests.support.agent.running import Start
from tests.support.golden import Golden

VERSION = {"uuid": {"value": base64.b64encode(random_uuid(b"v" * 16)).decode()}}
RESERVED = {
    "name": "disk",
    "type": "SCALAR",
    "scalar": {"value": 64.0},
    "reservations": [{"type": "DYNAMIC", "role": "ml"}],
}
VOLUME = {**RESERVED, "disk": {"persistence": {"id": "v"}, "volume": {"container_path": "data", "mode": "RW"}}}


def uuid(number: int) -> dict[str, str]:
    return {"value": base64.b64encode(random_uuid(number.to_bytes(16, "big"))).decode()}


def apply(master: ScriptedMaster, number: int, kind: str, name: str | None = None) -> None:
    resource, field = (VOLUME, "volumes") if kind in ("CREATE", "DESTROY") else (RESERVED, "resources")
    info: dict[str, Any] = {"type": kind, kind.lower(): {field: [resource]}}
    if name is not None:
        info["id"] = {"value": name}
    document = {"operation_info": info, "operation_uuid": uuid(number), "resource_version_uuid": VERSION}
    master.send("ApplyOperationMessage", {**document, "framework_id": {"value": FRAMEWORK_ID}})


def acknowledge(master: ScriptedMaster, update: dict[str, Any]) -> None:
    document = {"status_uuid": update["status"]["uuid"], "operation_uuid": update["operation_uuid"]}
    master.send("AcknowledgeOperationStatusMessage", document)


async def test_an_agent_introduces_itself_as_a_real_one_does(start: Start, master: ScriptedMaster) -> None:
    await start()
    update = await master.got("UpdateSlaveMessage")
    assert list(update) == [
        "slave_id",
        "update_oversubscribed_resources",
        "operations",
        "resource_version_uuid",
        "resource_providers",
    ]
    assert (update["operations"], update["resource_providers"]) == ({}, {})
    assert update["update_oversubscribed_resources"] is False


async def test_whoever_finds_the_leader_is_asked_when_its_connection_breaks(
    start: Start, master: ScriptedMaster
) -> None:
    running = await start()
    await master.got("UpdateSlaveMessage")
    membership, tries = running.agent.membership, list[int]()
    membership.doubt = lambda: tries.append(membership.registration.tries)
    running.agent.membership.happened(Cause.CHANGED)
    await master.got("ReregisterSlaveMessage")
    assert not tries, "what it offers has changed: the master is there"
    await master.stop()
    await wait_for(lambda: len(tries) > 1 and tries[-1] >= TRIES_BEFORE_A_WORD)
    assert tries[0] < TRIES_BEFORE_A_WORD, "at once, and again when it has tried for long"


async def test_a_volume_and_its_operation_survive_the_agents_death(
    start: Start, master: ScriptedMaster, tmp_path: Path
) -> None:
    running = await start()
    apply(master, 1, "RESERVE")
    reserved = await master.got("UpdateOperationStatusMessage")
    assert "uuid" not in reserved["status"], "nobody acknowledges it"
    apply(master, 2, "CREATE", "create-v")
    created = await master.got("UpdateOperationStatusMessage", 2)
    assert created["status"]["operation_id"] == {"value": "create-v"}
    assert created["status"]["state"] == created["latest_status"]["state"] == "OPERATION_FINISHED"
    assert created["framework_id"] == {"value": FRAMEWORK_ID}
    assert created["slave_id"] == created["status"]["slave_id"] == {"value": AGENT_ID}
    folder = tmp_path / "volumes" / "roles" / "ml" / "v"
    (folder / "weights").write_text("w")
    await running.die()

    running = await start(running.containers)
    again = await master.got("ReregisterSlaveMessage")
    assert again["checkpointed_resources"] == [VOLUME]
    (listed,) = (await master.got("UpdateSlaveMessage", 2))["operations"]["operations"]
    assert listed["uuid"] == uuid(2)
    assert listed["info"]["id"] == {"value": "create-v"}
    resent = await master.got("UpdateOperationStatusMessage", 3)
    assert resent["status"] == created["status"], "the same status, with the same uuid"
    assert (folder / "weights").read_text() == "w"

    acknowledge(master, resent)
    apply(master, 3, "DESTROY")
    await master.got("UpdateOperationStatusMessage", 4)
    assert not folder.exists()
    apply(master, 4, "UNRESERVE")
    await master.got("UpdateOperationStatusMessage", 5)
    master.ping(connected=False)
    assert "checkpointed_resources" not in await master.got("ReregisterSlaveMessage", 2)
    assert (await master.got("UpdateSlaveMessage", 3))["operations"] == {}
    await running.die()


async def test_what_was_reserved_while_another_try_was_on_its_way_is_said_again(
    start: Start, master: ScriptedMaster
) -> None:
    await start()
    apply(master, 1, "RESERVE")
    await master.got("UpdateOperationStatusMessage")
    assert master.messages("ReregisterSlaveMessage") == []
    # The answer to an older try: the master goes by that now, which names no reservation.
    connection = {"total_ping_timeout_seconds": 75.0}
    master.send("SlaveReregisteredMessage", {"slave_id": {"value": AGENT_ID}, "connection": connection})
    again = await master.got("ReregisterSlaveMessage")
    assert again["checkpointed_resources"] == [RESERVED]
    master.send("SlaveReregisteredMessage", {"slave_id": {"value": AGENT_ID}, "connection": connection})
    await master.got("UpdateSlaveMessage", 4)  # after each answer, its own among them
    assert len(master.messages("ReregisterSlaveMessage")) == 1, "once is enough"


async def test_an_operation_the_agent_never_got_was_dropped(start: Start, master: ScriptedMaster) -> None:
    await start()
    master.send("ReconcileOperationsMessage", {"operations": [{"operation_uuid": uuid(7)}]})
    update = await master.got("UpdateOperationStatusMessage")
    assert (update["operation_uuid"], update["status"]["state"]) == (uuid(7), "OPERATION_DROPPED")
    assert "uuid" not in update["status"], "nobody is to acknowledge it"


async def test_a_master_that_is_mistaken_is_told_the_truth(start: Start, master: ScriptedMaster) -> None:
    await start()
    apply(master, 1, "UNRESERVE", "op")
    update = await master.got("UpdateOperationStatusMessage")
    assert update["status"]["state"] == "OPERATION_DROPPED"
    assert "checkpointed_resources" not in await master.got("ReregisterSlaveMessage")


async def test_a_task_with_a_volume_that_is_not_here_is_dropped(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    aware = devolve("mesos.FrameworkInfo", framework("PARTITION_AWARE", "MULTI_ROLE"))
    resources = [*task()["resources"], {**VOLUME, "allocation_info": {"role": "ml"}}]
    master.run(aware, devolve("mesos.TaskInfo", task("t1", resources=resources)))
    status = (await master.reaches("t1", "TASK_DROPPED"))["status"]
    assert status["reason"] == "REASON_RESOURCES_UNKNOWN"
    assert running.containers.launched == []
    for number, kind in enumerate(("RESERVE", "CREATE"), 1):
        apply(master, number, kind)
    master.run(aware, devolve("mesos.TaskInfo", task("t2", resources=resources)))
    await master.reaches("t2", "TASK_RUNNING")
    (config,) = running.containers.launched
    (volume,) = config.volumes
    assert (Path(volume.source).name, volume.destination, volume.owned) == ("v", "data", True)


async def test_endpoints_show_what_is_reserved_and_the_volume(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    before = float(running.agent.info["resources"][3]["scalar"]["value"])
    apply(master, 1, "RESERVE")
    apply(master, 2, "CREATE")
    await master.got("UpdateOperationStatusMessage", 2)
    async with aiohttp.ClientSession() as session, session.get(f"{running.url}/state") as response:
        state = await response.json()
    assert state["resources"]["disk"] == before
    assert state["reserved_resources"] == {"ml": {"cpus": 0.0, "gpus": 0.0, "mem": 0.0, "disk": 64.0}}
    assert state["unreserved_resources"]["disk"] == before - 64.0
    assert state["reserved_resources_full"]["ml"] == [{**VOLUME, "role": "ml", "reservation": {}}]


async def test_an_agent_whose_folder_cannot_be_written_to_stops(
    start: Start, master: ScriptedMaster, tmp_path: Path, golden: Golden
) -> None:
    running = await start()
    (tmp_path / "meta" / "resources").write_text("in the way")
    apply(master, 1, "RESERVE")
    await asyncio.wait_for(running.agent.stopped.wait(), 60)
    assert str(running.agent.stop_reason) == golden
    assert master.messages("UpdateOperationStatusMessage") == []


async def test_an_agent_that_cannot_write_down_its_name_stops(
    start: Start, master: ScriptedMaster, tmp_path: Path, golden: Golden
) -> None:
    running = await start(follow=False)
    (tmp_path / "meta" / "slaves").write_text("in the way")
    running.agent.follow(master.pid)
    await asyncio.wait_for(running.agent.stopped.wait(), 60)
    assert str(running.agent.stop_reason) == golden


def test_the_recorded_update_of_a_real_agent_has_the_same_form() -> None:
    body = base64.b64decode(
        "CikKJ2UyMWJlZTViLWQ1NTQtNDUxNi1iNWMyLTY3MmUzN2UyNDkwYy1TMCgAMgA6EgoQN2ctbTtLSJS8R3ahggSB80IA"
    )
    document = decode("mesos.internal.UpdateSlaveMessage", body)
    assert encode("mesos.internal.UpdateSlaveMessage", document) == body
    assert (document["operations"], document["resource_providers"]) == ({}, {})
