"""A framework that does what Mesos' own `operation-feedback-framework` does, call by call, over the v1 API.

The original is an example in C++ that no package has (src/examples/operation_feedback_framework.cpp). For each of its
tasks it reserves resources, launches on them, and gives them back; each step waits for an offer, and for the feedback
of the operation before. What it cannot use of an offer it refuses for good, and it revives offers only when a
reservation was made: an offer that comes before the news that it waits for is lost to it, and it waits for ever.
"""

from __future__ import annotations

import asyncio
import enum
import time
import uuid
from dataclasses import dataclass, field

from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.testing.box import MesosBox
from tests.genuine.scheduler import ended
from tests.support.master.live import PATIENCE_S, Scheduler

ROLE = "feedback"
PRINCIPAL = "operation-feedback"
FOR_GOOD_S = 9223372036.0
"""Seconds::max() of stout."""
RECONCILE_EACH_S = 30.0
INFO: Document = {
    "user": "root",
    "principal": PRINCIPAL,
    "name": "Operation Feedback Framework",
    "checkpoint": True,
    "roles": [ROLE],
    "capabilities": [{"type": t} for t in ("MULTI_ROLE", "PARTITION_AWARE", "RESERVATION_REFINEMENT")],
}


class Stage(enum.Enum):
    """What a task waits for."""

    RESERVE_OFFER = enum.auto()
    RESERVE_ACK = enum.auto()
    LAUNCH_OFFER = enum.auto()
    FINISHED = enum.auto()
    UNRESERVE_OFFER = enum.auto()
    UNRESERVE_ACK = enum.auto()


@dataclass
class Task:
    """One task from its reservation to the end of that."""

    id: str
    command: str
    wanted: Resources
    reserved: Resources
    stage: Stage = Stage.RESERVE_OFFER
    agent_id: Document | None = None
    operation_id: str = ""
    seen: list[Stage] = field(default_factory=list)

    def goes_to(self, stage: Stage) -> None:
        self.seen.append(self.stage)
        self.stage = stage

    def info(self) -> Document:
        named = {"name": self.id, "task_id": {"value": self.id}, "agent_id": self.agent_id}
        return {**named, "command": {"value": self.command}, "resources": self.reserved.to_json(refined=True)}

    def operation(self, kind: str) -> Document:
        """Reserve or unreserve what it needs, under an id of which there is feedback."""
        self.operation_id = f"{kind.lower()}-{uuid.uuid4()}"
        body = {"resources": self.reserved.to_json(refined=True)}
        return {"type": kind, "id": {"value": self.operation_id}, kind.lower(): body}


class OperationFeedback:
    """The framework: its tasks go through all stages, or it hangs."""

    def __init__(self, box: MesosBox, count: int, *, command: str, resources: str, late: bool = False) -> None:
        """With `late` it acknowledges the first status of a task when that has ended, as on a busy machine.

        Then the master hears of the end before the framework does.
        """
        wanted = Resources.parse(resources).allocated(ROLE)
        label = {"labels": [{"key": "operation_feedback_framework_label", "value": str(uuid.uuid4())}]}
        made: Document = {"type": "DYNAMIC", "role": ROLE, "principal": PRINCIPAL, "labels": label}
        plain = wanted.to_json(refined=True)
        reserved = Resources.from_json([{**resource, "reservations": [made]} for resource in plain])
        self._box, self._late, self._scheduler = box, late, Scheduler(box.url)
        self.tasks = [Task(f"task-{n + 1}", command, wanted, reserved) for n in range(count)]

    async def run(self) -> list[Task]:
        """Run until every task is done; return them. Fails when it hangs."""
        try:
            await self._scheduler.subscribe(dict(INFO))
            end, reconcile = time.monotonic() + PATIENCE_S, time.monotonic() + RECONCILE_EACH_S
            while any(task.stage is not Stage.UNRESERVE_ACK or task.operation_id for task in self.tasks):
                left = min(end, reconcile) - time.monotonic()
                try:
                    event = await asyncio.wait_for(self._scheduler.events.get(), max(0.0, left))
                except asyncio.TimeoutError:
                    assert time.monotonic() < end, f"it hangs: {self.tasks}\n{self._box.logs()}"
                    await self._reconcile()
                    reconcile += RECONCILE_EACH_S
                    continue
                assert event is not None, f"the stream ended\n{self._box.logs()}"
                await self._received(event)
            assert (await self._scheduler.call("TEARDOWN")).status == 202
            return self.tasks
        finally:
            await self._scheduler.close()

    async def _received(self, event: Document) -> None:
        if event["type"] == "OFFERS":
            for offer in event["offers"]["offers"]:
                await self._offered(offer)
        elif event["type"] == "UPDATE":
            await self._updated(event["update"]["status"])
        elif event["type"] == "UPDATE_OPERATION_STATUS":
            await self._fed_back(event["update_operation_status"]["status"])
        else:
            assert event["type"] != "ERROR", event

    async def _offered(self, offer: Document) -> None:
        remaining, operations = Resources.from_json(offer["resources"]), []
        for task in self.tasks:
            here = task.agent_id == offer["agent_id"]
            if task.stage is Stage.RESERVE_OFFER and remaining.contains(task.wanted):
                operations.append(task.operation("RESERVE"))
                remaining -= task.wanted
                task.agent_id = offer["agent_id"]
                task.goes_to(Stage.RESERVE_ACK)
            elif task.stage is Stage.LAUNCH_OFFER and here and remaining.contains(task.reserved):
                operations.append({"type": "LAUNCH", "launch": {"task_infos": [task.info()]}})
                remaining -= task.reserved  # all reservations are alike: the next task needs one of its own
                task.goes_to(Stage.FINISHED)
            elif task.stage is Stage.UNRESERVE_OFFER and here and remaining.contains(task.reserved):
                operations.append(task.operation("UNRESERVE"))
                remaining -= task.reserved
                task.goes_to(Stage.UNRESERVE_ACK)
        body = {
            "offer_ids": [offer["id"]],
            "operations": operations,
            "filters": {"refuse_seconds": FOR_GOOD_S},
        }
        assert (await self._scheduler.call("ACCEPT", body)).status == 202

    async def _updated(self, status: Document) -> None:
        name = status["task_id"]["value"]
        if self._late:
            await asyncio.to_thread(self._box.until, "it has ended", lambda: ended(self._box, name))
        if status.get("uuid"):
            await self._scheduler.acknowledge(status)
        task = next(task for task in self.tasks if task.id == name)
        if task.stage is Stage.FINISHED:
            assert status["state"] in ("TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"), status
            if status["state"] == "TASK_FINISHED":
                task.goes_to(Stage.UNRESERVE_OFFER)

    async def _fed_back(self, status: Document) -> None:
        if status.get("uuid"):
            body = {key: status[key] for key in ("agent_id", "operation_id")} | {"uuid": status["uuid"]["value"]}
            assert (await self._scheduler.call("ACKNOWLEDGE_OPERATION_STATUS", body)).status == 202
        named = status["operation_id"]["value"]
        task = next((task for task in self.tasks if task.operation_id == named), None)
        if task is None:
            return  # told once more
        assert status["state"] in ("OPERATION_PENDING", "OPERATION_FINISHED"), status
        if status["state"] == "OPERATION_FINISHED":
            task.operation_id = ""
            if task.stage is Stage.RESERVE_ACK:
                task.goes_to(Stage.LAUNCH_OFFER)
                assert (await self._scheduler.call("REVIVE", {"roles": [ROLE]})).status == 202

    async def _reconcile(self) -> None:
        waiting = [task for task in self.tasks if task.operation_id]
        asked = [{"agent_id": task.agent_id, "operation_id": {"value": task.operation_id}} for task in waiting]
        assert (await self._scheduler.call("RECONCILE_OPERATIONS", {"operations": asked})).status in (200, 202)
