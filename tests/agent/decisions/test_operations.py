"""Operations of the master on an agent: applied once, written down, said until acknowledged, in any order of events."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mesos_gpu.agent.decisions.operations import Operations, fitting, handle, pause, restore, resume, retry
from mesos_gpu.agent.model.operations import (
    ApplyOperation,
    Disagree,
    DiscardVolume,
    KeepResources,
    MakeVolume,
    OperationAcknowledged,
    OperationAction,
    ReconcileOperations,
    SaveHoldings,
    SendOperationStatus,
)
from mesos_gpu.mesos.messages import check
from mesos_gpu.mesos.resource import Reservation, Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.uuids import random_uuid
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, at
from tests.support.golden import Golden
from tests.support.histories import examples

FLAGS = Resources.parse("cpus:2;gpus:4;disk:1000")
ML = (Reservation("ml", "DYNAMIC"),)


def new(start: int = 0) -> Operations:
    numbers = itertools.count(start)
    operations = Operations(lambda: base64.b64encode(random_uuid(next(numbers).to_bytes(16, "big"))).decode())
    resume(operations, at(0.0))
    return operations


def uuid(number: int) -> str:
    return base64.b64encode(random_uuid((1000 + number).to_bytes(16, "big"))).decode()


def gpus(count: int) -> dict[str, Any]:
    return Resource("gpus", count * 1000, ML).to_json(refined=True)


def disk(name: str | None = None) -> dict[str, Any]:
    plain = Resource("disk", 64000, ML).to_json(refined=True)
    volume = {"persistence": {"id": name}, "volume": {"container_path": "data", "mode": "RW"}}
    return plain if name is None else {**plain, "disk": volume}


def operation(kind: str, *resources: dict[str, Any], name: str | None = None) -> dict[str, Any]:
    field = "resources" if kind.endswith("RESERVE") else "volumes"
    info: dict[str, Any] = {"type": kind, kind.lower(): {field: list(resources)}}
    return info if name is None else {**info, "id": {"value": name}}


def do(operations: Operations, number: int, info: dict[str, Any], at_s: float = 0.0) -> list[OperationAction]:
    return handle(operations, ApplyOperation(uuid(number), info, FRAMEWORK_ID), AGENT_ID, FLAGS, at(at_s))


def test_an_operation_is_written_down_with_what_it_changed_and_then_said() -> None:
    operations = new()
    saved, sent = do(operations, 1, operation("RESERVE", gpus(1), name="op-1"))
    assert isinstance(saved, SaveHoldings)
    assert saved.resources == (gpus(1),)
    (document,) = saved.operations
    assert check("mesos.v1.Operation", document) is None
    status = document["latest_status"]
    assert (status["state"], status["operation_id"]["value"]) == ("OPERATION_FINISHED", "op-1")
    assert sent == SendOperationStatus(uuid(1), status, FRAMEWORK_ID)


def test_the_folder_of_a_volume_is_made_before_and_removed_after_it_is_written_down() -> None:
    operations = new()
    do(operations, 1, operation("RESERVE", disk()))
    assert [type(a) for a in do(operations, 2, operation("CREATE", disk("v")))] == [
        MakeVolume,
        SaveHoldings,
        SendOperationStatus,
    ]
    gone = do(operations, 3, operation("DESTROY", disk("v")))
    assert [type(a) for a in gone] == [SaveHoldings, DiscardVolume, SendOperationStatus]
    assert gone[1] == DiscardVolume("ml", "v")
    do(operations, 4, operation("UNRESERVE", disk()))
    assert operations.kept == Resources()


def test_a_status_is_said_again_after_10_s_and_20_s_until_it_is_acknowledged() -> None:
    operations = new()
    (_, sent) = do(operations, 1, operation("RESERVE", gpus(1), name="op"))
    assert isinstance(sent, SendOperationStatus)
    assert operations.next_due_s == 10.0
    assert retry(operations, at(9.9)) == []
    assert retry(operations, at(10.0)) == [sent]
    assert operations.next_due_s == 30.0
    other = OperationAcknowledged(uuid(9), uuid(1))
    assert handle(operations, other, AGENT_ID, FLAGS, at(11.0)) == []
    known = OperationAcknowledged(sent.status["uuid"]["value"], uuid(1))
    (saved,) = handle(operations, known, AGENT_ID, FLAGS, at(11.0))
    assert saved == SaveHoldings((gpus(1),), ())
    assert operations.next_due_s is None


def test_without_a_master_nothing_is_said_and_with_one_everything_at_once() -> None:
    operations = new()
    pause(operations)
    assert [type(a) for a in do(operations, 1, operation("RESERVE", gpus(1), name="op"))] == [SaveHoldings]
    assert operations.next_due_s is None
    assert retry(operations, at(100.0)) == []
    assert [type(a) for a in resume(operations, at(100.0))] == [SendOperationStatus]


def test_an_operation_without_an_id_is_said_once_without_a_uuid() -> None:
    """Masters of Mesos 1.5 to 1.7 end when there is one, and others do not need it."""
    operations = new()
    saved, sent = do(operations, 1, operation("RESERVE", gpus(1)))
    assert saved == SaveHoldings((gpus(1),), ())
    assert isinstance(sent, SendOperationStatus)
    assert sent.status == {"state": "OPERATION_FINISHED", "agent_id": {"value": AGENT_ID}}
    assert operations.next_due_s is None
    pause(operations)
    (kept,) = do(operations, 2, operation("RESERVE", gpus(1)))
    assert isinstance(kept, SaveHoldings)
    assert [document["uuid"]["value"] for document in kept.operations] == [uuid(2)]
    said, forgotten = resume(operations, at(100.0))
    assert isinstance(said, SendOperationStatus)
    assert "uuid" not in said.status
    assert forgotten == SaveHoldings((gpus(2),), ())


def test_an_operation_sent_twice_is_applied_once() -> None:
    operations = new()
    (_, sent) = do(operations, 1, operation("RESERVE", gpus(1), name="op"))
    assert do(operations, 1, operation("RESERVE", gpus(1), name="op")) == [sent]
    assert operations.kept.gpus == 1


def test_what_cannot_be_is_dropped_and_the_master_told_the_truth(golden: Golden) -> None:
    operations = new()
    saved, sent, disagree = do(operations, 1, operation("UNRESERVE", gpus(1), name="op"))
    assert isinstance(sent, SendOperationStatus)
    assert sent.status["state"] == "OPERATION_DROPPED"
    assert sent.status["message"] == golden
    assert isinstance(saved, SaveHoldings)
    assert isinstance(disagree, Disagree)


def test_an_operation_nobody_knows_here_was_dropped() -> None:
    operations = new()
    do(operations, 1, operation("RESERVE", gpus(1), name="op"))
    (sent,) = handle(operations, ReconcileOperations((uuid(1), uuid(2))), AGENT_ID, FLAGS, at())
    assert sent == SendOperationStatus(uuid(2), {"state": "OPERATION_DROPPED", "agent_id": {"value": AGENT_ID}})


def test_a_whole_list_of_a_master_without_operations_is_taken_over() -> None:
    operations = new()
    actions = handle(operations, KeepResources((gpus(2), disk("v"))), AGENT_ID, FLAGS, at())
    assert [type(a) for a in actions] == [MakeVolume, SaveHoldings]
    assert handle(operations, KeepResources((gpus(2), disk("v"))), AGENT_ID, FLAGS, at()) == []
    assert operations.volumes() == {("ml", "v")}


@pytest.mark.parametrize(("left", "reserved"), [(4, 3), (3, 3), (2, 2), (0, 0)])
def test_of_reserved_gpus_that_vanished_those_that_are_left_stay(left: int, reserved: int) -> None:
    kept = Resources([Resource("gpus", 3000, ML), Resource("disk", 64000, ML)])
    fits = fitting(kept, Resources.parse(f"gpus:{left};disk:1000"))
    assert fits.gpus == reserved
    assert fits.milli("disk") == 64000


class Histories(RuleBasedStateMachine):
    """An agent that is killed at any moment and restored from what it wrote down last."""

    @initialize()
    def begin(self) -> None:
        self.made = 0
        self.operations = new()
        self.disk: tuple[Any, Any] = ((), ())
        self.folders: set[tuple[str, str]] = set()
        self.said: dict[str, dict[str, Any]] = {}
        self.expected = Resources()

    def does(self, actions: list[OperationAction], *, killed: bool = False) -> None:
        for action in actions:
            if isinstance(action, MakeVolume):
                assert (action.role, action.id) not in self.folders
                self.folders.add((action.role, action.id))
            elif isinstance(action, SaveHoldings):
                self.disk = action.resources, action.operations
                if killed:
                    return self.restart()
            elif isinstance(action, DiscardVolume):
                self.folders.discard((action.role, action.id))
            elif isinstance(action, SendOperationStatus):
                assert action.operation_uuid in {o["uuid"]["value"] for o in self.disk[1]}, "said, but not on disk"
                self.said[action.operation_uuid] = action.status
        return None

    def restart(self) -> None:
        self.operations = new(10_000 + self.made)
        restore(self.operations, *self.disk)
        self.folders = self.operations.volumes()
        self.does(resume(self.operations, at(0.0)))

    @rule(kind=st.sampled_from(["RESERVE", "UNRESERVE"]), count=st.integers(1, 3), killed=st.booleans())
    def reserve(self, kind: str, count: int, killed: bool) -> None:
        self.made += 1
        self.does(do(self.operations, self.made, operation(kind, gpus(count), name="op")), killed=killed)

    @rule(kind=st.sampled_from(["RESERVE", "UNRESERVE", "CREATE", "DESTROY"]), killed=st.booleans())
    def volume(self, kind: str, killed: bool) -> None:
        self.made += 1
        what = disk() if kind.endswith("RESERVE") else disk("v")
        self.does(do(self.operations, self.made, operation(kind, what, name="op")), killed=killed)

    @rule(killed=st.booleans())
    def acknowledge(self, killed: bool) -> None:
        for name, status in list(self.said.items())[:1]:
            del self.said[name]
            event = OperationAcknowledged(status["uuid"]["value"], name)
            self.does(handle(self.operations, event, AGENT_ID, FLAGS, at()), killed=killed)

    @invariant()
    def what_is_held_is_what_is_on_disk_and_nothing_waits_unsaid(self) -> None:
        if not hasattr(self, "operations"):
            return
        assert self.operations.kept_documents() == tuple(self.disk[0])
        assert self.operations.operations() == list(self.disk[1])
        assert self.operations.volumes() == self.folders
        assert {o["uuid"]["value"] for o in self.disk[1]} == set(self.said)
        assert (FLAGS - self.operations.kept.base() + self.operations.kept).gpus == 4


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(60), stateful_step_count=25)
