"""Tasks, groups and operations are refused as a genuine master refused them, word for word.

tests/genuine asks a genuine master the same, and holds it to the same record.
"""

from __future__ import annotations

import pytest

from mesos_gpu.master.decisions import launching
from mesos_gpu.master.state.actions import Action
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.resource import Document
from tests.support.master.at_once import agents
from tests.support.master.build import (
    CAPABILITIES,
    NOW,
    add_framework,
    check_books,
    events,
    new_state,
    offers,
    refused,
    report,
    statuses,
)
from tests.support.master.operations import CAPABLE
from tests.support.master.wrong_operations import named, plain
from tests.support.master.wrong_tasks import launches, refusal

TWO_GPUS = "cpus:2;gpus:2;mem:2048;disk:1000;ports:[31000-32000]"


class Master:
    """One with an agent of two GPUs, all of which a framework is offered."""

    def __init__(self) -> None:
        self.state: MasterState = new_state()
        agents.register(self.state, report(TWO_GPUS, capabilities=(*CAPABILITIES, *CAPABLE)))
        (agent,) = self.state.agents.values()
        self.framework = add_framework(self.state, capabilities="GPU_RESOURCES PARTITION_AWARE")
        self.ids = (agent.id, self.framework.id)

    def accept(self, *operations: Document) -> list[Action]:
        (offer,) = offers(self.state)
        body = {"offer_ids": [{"value": offer.id}], "operations": list(operations)}
        call = {"type": "ACCEPT", "framework_id": {"value": self.framework.id}, "accept": body}
        assert messages.check("mesos.v1.scheduler.Call", call) is None
        found = messages.normalize("mesos.v1.scheduler.Call", call)["accept"]
        actions = launching.accept(self.state, self.framework, found, NOW)
        check_books(self.state)
        return actions


@pytest.fixture
def master() -> Master:
    return Master()


def test_tasks_and_groups_are_refused_as_recorded(master: Master) -> None:
    told = statuses(master.accept(*launches(*master.ids)))
    found = {status["task_id"]["value"]: refusal(status, *master.ids) for status in told}
    assert found == refused()["tasks"]


def test_operations_are_refused_as_recorded(master: Master) -> None:
    told = [event["status"] for event in events(master.accept(*named()), "UPDATE_OPERATION_STATUS")]
    found = {s["operation_id"]["value"]: [s["state"], plain(s["message"], *master.ids)] for s in told}
    assert found == refused()["operations"]
