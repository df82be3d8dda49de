"""Messages against the bytes of a real master and agent."""

from __future__ import annotations

import base64

import pytest

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import documents, messages
from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.resource import ResourceDocument


def test_evolve_and_devolve_rename_agents_and_reasons() -> None:
    internal = {
        "task_id": {"value": "t"},
        "state": "TASK_LOST",
        "slave_id": {"value": "S0"},
        "source": "SOURCE_SLAVE",
        "reason": "REASON_SLAVE_REMOVED",
        "uuid": base64.b64encode(bytes(range(16))).decode(),
    }
    v1 = messages.evolve("mesos.TaskStatus", internal)
    assert v1["agent_id"] == {"value": "S0"}
    assert (v1["source"], v1["reason"]) == ("SOURCE_AGENT", "REASON_AGENT_REMOVED")
    assert messages.devolve("mesos.TaskStatus", v1) == internal


def test_slave_info_evolves_to_agent_info() -> None:
    v1 = messages.evolve("mesos.SlaveInfo", {"hostname": "h", "id": {"value": "S0"}, "checkpoint": True})
    assert (v1["hostname"], v1["id"]) == ("h", {"value": "S0"})


def test_maps_and_infinities_survive() -> None:
    task = {
        "name": "t",
        "task_id": {"value": "t"},
        "agent_id": {"value": "S0"},
        "limits": {"mem": {"value": "Infinity"}},
    }
    data = messages.encode("mesos.v1.TaskInfo", task)
    assert messages.decode("mesos.v1.TaskInfo", data) == task


def test_64_bit_integers_are_numbers() -> None:
    ports = {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 31000, "end": 2**63}]}}
    assert messages.decode("mesos.v1.Resource", messages.encode("mesos.v1.Resource", ports)) == ports


@pytest.mark.parametrize(
    ("type_name", "document", "gist"),
    [
        ("mesos.v1.TaskInfo", {"name": 3}, "name"),
        ("mesos.v1.TaskInfo", {"name": "t"}, "task_id"),
        ("mesos.v1.scheduler.Call", {"type": "ACCEPT", "accept": {"offer_ids": [{}]}}, "offer_ids[0].value"),
        ("mesos.v1.scheduler.Call", [], "object"),
    ],
)
def test_check_says_what_is_wrong(type_name: str, document: object, gist: str) -> None:
    problem = messages.check(type_name, document)
    assert problem is not None
    assert gist in problem


def test_unknown_fields_are_ignored_as_in_mesos() -> None:
    assert messages.check("mesos.v1.scheduler.Call", {"type": "REVIVE", "flavour": 1}) is None


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b""])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.decode("mesos.internal.RunTaskMessage", data)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ProtocolError, match="NoSuchMessage"):
        messages.encode("mesos.internal.NoSuchMessage", {})


CLASSES = {
    "FrameworkID": documents.FrameworkIdDocument,
    "AgentID": documents.AgentIdDocument,
    "TaskID": documents.TaskIdDocument,
    "ExecutorID": documents.ExecutorIdDocument,
    "OfferID": documents.OfferIdDocument,
    "FrameworkInfo": documents.FrameworkInfo,
    "AgentInfo": documents.AgentInfo,
    "ExecutorInfo": documents.ExecutorInfo,
    "TaskInfo": documents.TaskInfo,
    "TaskStatus": documents.TaskStatus,
    "Offer": documents.OfferDocument,
    "Resource": ResourceDocument,
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_fields_of_its_message_and_requires_the_same(name: str) -> None:
    fields = pool().FindMessageTypeByName(f"mesos.v1.{name}").fields
    kind = CLASSES[name]
    assert kind.__required_keys__ | kind.__optional_keys__ == {field.name for field in fields}
    assert kind.__required_keys__ == {field.name for field in fields if field.is_required}


@pytest.mark.parametrize("info", [{"user": "u", "name": "n"}, {"user": "u", "name": "n", "id": {"value": "F-1"}}])
def test_the_id_of_a_framework_is_empty_before_it_has_one(info: documents.FrameworkInfo) -> None:
    assert documents.framework_id_of(info) == ("F-1" if "id" in info else "")
