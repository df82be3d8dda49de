"""The documents that have a class are the messages of Mesos' field tables, field by field."""

from __future__ import annotations

import pytest

from mesos_gpu.mesos import documents
from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.resource import ResourceDocument

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
