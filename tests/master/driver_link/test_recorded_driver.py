"""What a genuine 1.11.0 master and its scheduler driver said to each other, said again to ours: 44 messages.

The driver's side is sent as it was, with ids of ours; an agent by hand reports what the agent of that day reported.
What our master says is held against what the genuine one said, conversation by conversation. The recorder saw the
messages to the driver about 35 ms late, so an acknowledgement stands before its update; nothing else depends on it.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.mesos.messages import decode, with_defaults
from mesos_gpu.mesos.resource import Document
from tests.support.master.drivers import ScriptedDrivers
from tests.support.master.live import ScriptedAgent, live_master, until
from tests.support.places import RECORDED

MASTER_ID = "43ae65c5-8b94-48e5-aecb-ad83b2134773"
RESOURCES = "ports:[31000-32000];cpus:2;gpus:4;mem:23081;disk:252899"
OFFERS = "ResourceOffersMessage"


class Recorded:
    """One recorded message."""

    def __init__(self, number: int, line: dict[str, Any]) -> None:
        _, target, full_name = line["request"].split(" ")[1].split("/")
        self.number, self.name = number, full_name
        self.to_master = line["dir"] == "to master"
        self.driver = line["headers"]["Libprocess-From"].partition("@")[0] if self.to_master else target
        self.body = decode(full_name, base64.b64decode(line["body"]))

    @property
    def short(self) -> str:
        return self.name.removeprefix("mesos.internal.")


@pytest.fixture(scope="module")
def recorded() -> list[Recorded]:
    lines = json.loads((RECORDED / "v0-driver-1.11.0.json").read_text())["messages"]
    return [Recorded(number, line) for number, line in enumerate(lines)]


class Twin:
    """Our master, between the recorded drivers and an agent that plays its part again."""

    def __init__(
        self, recorded: list[Recorded], drivers: ScriptedDrivers, agent: ScriptedAgent, master_id: str
    ) -> None:
        self.recorded, self.drivers, self.agent = recorded, drivers, agent
        self._ids = [(MASTER_ID, master_id), (f"{master_id}-0001", f"{master_id}-0000")]
        self._updates: dict[str, list[Document]] = defaultdict(list)
        for one in recorded:
            if one.short == "StatusUpdateMessage" and "uuid" in one.body["update"]:
                self._updates[one.body["update"]["status"]["task_id"]["value"]].append(one.body)

    def ours(self, document: Document) -> Document:
        """Return a recorded document with our ids in it."""
        text = json.dumps(document)
        for theirs, our in self._ids:
            text = text.replace(theirs, our)
        return json.loads(text)  # type: ignore[no-any-return]

    def theirs(self, document: Document) -> Document:
        """Return a document of ours as it would have been recorded: with that day's ids and ports, and no times."""
        text = json.dumps(document)
        for theirs, our in reversed(self._ids):
            text = text.replace(our, theirs)
        text = text.replace(f":{self.agent.endpoint.port}", ":15053").replace(
            f": {self.agent.endpoint.port}", ": 15053"
        )
        port = self.drivers.master.port
        text = text.replace(f":{port}", ":15063").replace(f": {port}", ": 15063")
        return json.loads(text)  # type: ignore[no-any-return]

    def report(self, task_id: str) -> None:
        """Have the agent send the next update of a task."""
        message = self.ours(self._updates[task_id].pop(0))
        self.agent.say("StatusUpdateMessage", {**message, "pid": self.agent.pid})

    async def play(self) -> None:
        for one in self.recorded:
            if one.to_master:
                await self._wait(one)
                self.drivers.say(one.driver, one.name, self.ours(one.body))
                await self._follow(one)
        await self.drivers.settle()

    async def _wait(self, one: Recorded) -> None:
        """Wait until the driver has been told what it had been told when it said this."""
        if one.body.get("type") == "ACKNOWLEDGE":
            uuid = one.body["acknowledge"]["uuid"]
            await until(
                lambda: any(said["update"].get("uuid") == uuid for said in self._told(one, "StatusUpdateMessage"))
            )
            return
        before = [m for m in self.recorded[: one.number] if not m.to_master and m.driver == one.driver]
        await until(lambda: len(self.drivers.told[one.driver]) >= len(before))

    def _told(self, one: Recorded, name: str) -> Iterator[Document]:
        return (document for found, document in self.drivers.told[one.driver] if found == name)

    async def _follow(self, one: Recorded) -> None:
        """Have the agent do what the master wants of it after this."""
        kind = one.body.get("type")
        if kind == "ACCEPT":
            for task_id in ("long", "short"):
                run = await self.agent.message("RunTaskMessage", skip=("UpdateFrameworkMessage",))
                assert (run["task"]["task_id"]["value"], run["pid"]) == (task_id, self.drivers.pid(one.driver))
                self.report(task_id)
        elif kind == "ACKNOWLEDGE":
            said = await self.agent.message("StatusUpdateAcknowledgementMessage", skip=("UpdateFrameworkMessage",))
            assert said["uuid"] == one.body["acknowledge"]["uuid"]
            task_id = said["task_id"]["value"]
            if len(self._updates[task_id]) > (task_id == "long"):  # its last one is that it was killed
                self.report(task_id)
        elif kind == "KILL":
            await self.agent.message("KillTaskMessage", skip=("UpdateFrameworkMessage",))
            self.report("long")


def conversation(driver: str, name: str, body: Document) -> tuple[str, str]:
    """What a message is compared in the order of: updates of one task, offers, and all else that a driver is told."""
    if name == "StatusUpdateMessage":
        return driver, str(body["update"]["status"]["task_id"]["value"])
    return driver, name if name == OFFERS else "framework"


def comparable(name: str, body: Document) -> tuple[str, Document]:
    """Return a message with fields that say their default filled in, and without times and the master's version."""
    return name, _without_times(with_defaults(f"mesos.internal.{name}", body))


def _without_times(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _without_times(value) for key, value in document.items() if key not in ("timestamp", "version")}
    return [_without_times(item) for item in document] if isinstance(document, list) else document


async def test_the_recorded_driver_is_told_by_our_master_what_a_genuine_one_told_it(
    recorded: list[Recorded], tmp_path: Path
) -> None:
    assert len(recorded) == 44
    expected: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for one in recorded:
        if not one.to_master:
            expected[conversation(one.driver, one.short, one.body)].append(comparable(one.short, one.body))
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    async with live_master(tmp_path, "--hostname=localhost") as master:
        drivers, agent = await ScriptedDrivers(master.url).start(), ScriptedAgent(master.url)
        await agent.start()
        try:
            (attributes,) = {
                json.dumps(o["attributes"]) for m in recorded if m.short == OFFERS for o in m.body["offers"]
            }
            slave = {**agent.info(RESOURCES), "attributes": json.loads(attributes)}
            agent.introduce("RegisterSlaveMessage", slave=slave)
            agent.id = (await agent.message("SlaveRegisteredMessage"))["slave_id"]["value"]
            twin = Twin(recorded, drivers, agent, master.engine.state.id)
            await twin.play()
            for driver in {one.driver for one in recorded}:
                for name, document in drivers.told[driver]:
                    body = twin.theirs(document)
                    found[conversation(driver, name, body)].append(comparable(name, body))
            assert drivers.senders == {str(drivers.master)}
        finally:
            await agent.stop()
            await drivers.stop()
    assert {key: [name for name, _ in said] for key, said in found.items()} == {
        key: [name for name, _ in said] for key, said in expected.items()
    }
    for key, said in expected.items():
        assert found[key] == said, key
