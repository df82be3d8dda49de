"""What a checkpoint must say before the agent builds on it: damage is found where a file is read, with its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from mesos_gpu.agent.model.tasks import Fate
from mesos_gpu.mesos.resource import Document


class Value(msgspec.Struct):
    """An id, as Mesos' JSON has them."""

    value: Annotated[str, msgspec.Meta(min_length=1)]


class AgentShape(msgspec.Struct):
    """slave.info."""

    id: Value
    resources: list[Document] = []
    attributes: list[Document] = []


class TaskShape(msgspec.Struct):
    """task.info."""

    task_id: Value


class ExecutorShape(msgspec.Struct):
    """executor.info."""

    executor_id: Value


class DrainShape(msgspec.Struct):
    """drain.config."""

    max_grace_s: float | None = None
    gone: bool = False


class HoldingsShape(msgspec.Struct):
    """resources_and_operations.state."""

    resources: list[Document]
    operations: list[Document]


class _Status(msgspec.Struct):
    state: str
    timestamp: float
    uuid: str | None = None
    source: str | None = None
    container_status: Document | None = None


class UpdateRecord(msgspec.Struct):
    """A record of task.updates with a status that the task was in."""

    type: Literal["UPDATE"]
    status: _Status


class AckRecord(msgspec.Struct):
    """A record of task.updates: the framework has seen this update."""

    type: Literal["ACK"]
    uuid: str


class KillRecord(msgspec.Struct):
    """A record of task.updates: the task was asked to end."""

    type: Literal["KILL"]
    fate: Fate
    grace_s: float | None = None
    grace_ends_s: float = 0.0


_RECORDS: dict[Any, type[msgspec.Struct]] = {"UPDATE": UpdateRecord, "ACK": AckRecord, "KILL": KillRecord}


def fits(document: Any, shape: type[msgspec.Struct]) -> bool:
    """Return whether decoded JSON has what the shape asks for; it may have more."""
    try:
        msgspec.convert(document, shape)
    except msgspec.ValidationError:
        return False
    return True


def is_record(document: Any) -> bool:
    """Return whether this is a whole record of task.updates; those of kinds that we do not know are left alone."""
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        return False
    shape = _RECORDS.get(document["type"])
    return shape is None or fits(document, shape)
