"""A master with an agent and a framework that reserve and create, and the words for what they ask."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mesos_gpu.master.decisions import launching, operations, subscriptions
from mesos_gpu.master.model.model import Agent, Framework, Offer
from mesos_gpu.master.state.actions import (
    Action,
    ApplyOperation,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from tests.support.master.at_once import agents, readmission
from tests.support.master.build import (
    NOW,
    UUID,
    add_framework,
    check_books,
    events,
    new_state,
    offers,
    report,
)

CAPABLE = [
    "MULTI_ROLE",
    "HIERARCHICAL_ROLE",
    "RESERVATION_REFINEMENT",
    "RESOURCE_PROVIDER",
    "RESIZE_VOLUME",
    "AGENT_OPERATION_FEEDBACK",
]


ROLE = "slave_public"


def dynamic(name: str, value: float, **more: Any) -> Document:
    reservations = [{"type": "DYNAMIC", "role": ROLE}]
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, "reservations": reservations, **more}


def volume(value: float = 64.0, name: str = "vol-1", **more: Any) -> Document:
    disk = {"persistence": {"id": name}, "volume": {"mode": "RW", "container_path": "data"}}
    return dynamic("disk", value, **{"disk": disk, **more})


def operation(kind: str, *resources: Document, name: str | None = "op") -> Document:
    field = "resources" if kind.endswith("RESERVE") else "volumes"
    asked: Document = {"type": kind, kind.lower(): {field: list(resources)}}
    return asked if name is None else {**asked, "id": {"value": name}}


class World:
    """A master with one agent and one framework of role slave_public."""

    def __init__(self, capabilities: list[str] = CAPABLE, framework: str = "RESERVATION_REFINEMENT") -> None:
        self.state: MasterState = new_state()
        agents.register(self.state, replace(report(), capabilities=tuple(capabilities)))
        self.agent: Agent = next(iter(self.state.agents.values()))
        info: Document = {"capabilities": f"GPU_RESOURCES MULTI_ROLE PARTITION_AWARE {framework}", "roles": [ROLE]}
        self.framework: Framework = add_framework(self.state, **info)

    def offer(self) -> Offer:
        for offer in list(self.framework.offers.values()):
            self.state.drop_offer(offer)
        subscriptions.revive(self.state, self.framework, [])
        (offer,) = offers(self.state)
        return offer

    def accept(self, *asked: Document) -> list[Action]:
        body = {"offer_ids": [{"value": self.offer().id}], "operations": list(asked), "filters": {"refuse_seconds": 0}}
        actions = launching.accept(self.state, self.framework, body, NOW)
        check_books(self.state)
        return actions

    def done(self, *asked: Document) -> list[ApplyOperation]:
        """Operations that are accepted, and whose statuses have been heard by everyone."""
        actions = self.accept(*asked)
        applied = [a for a in actions if isinstance(a, ApplyOperation)]
        assert len(applied) == len(asked), events(actions)
        for one in applied:
            self.report(one)
            if "id" in one.operation:
                self.acknowledge(one)
        assert self.agent.operations == {}
        return applied

    def report(
        self, applied: ApplyOperation, state: str = "OPERATION_FINISHED", uuid: str | None = UUID
    ) -> list[Action]:
        told: Document = {"state": state, "agent_id": {"value": self.agent.id}}
        told |= {"operation_id": applied.operation["id"]} if "id" in applied.operation else {}
        told |= {} if uuid is None else {"uuid": {"value": uuid}}
        return operations.status_update(self.state, self.agent.id, applied.uuid, told)

    def acknowledge(self, applied: ApplyOperation, uuid: str = UUID) -> list[Action]:
        body = {"agent_id": {"value": self.agent.id}, "operation_id": applied.operation["id"], "uuid": uuid}
        return operations.acknowledge(self.state, self.framework, body)

    def refused(self, asked: Document) -> str:
        before = self.agent.total
        actions = self.accept(asked)
        (event,) = events(actions, "UPDATE_OPERATION_STATUS")
        assert list(event["status"]) == ["operation_id", "state", "message"], "as recorded"
        assert event["status"]["state"] == "OPERATION_ERROR"
        assert self.agent.total == before
        assert not any(isinstance(action, ApplyOperation) for action in actions)
        return str(event["status"]["message"])

    def again(self, **more: Any) -> Any:
        said = replace(report(agent_id=self.agent.id), capabilities=self.agent.capabilities, **more)
        actions = readmission.reregister(self.state, said, NOW)
        check_books(self.state)
        return actions
