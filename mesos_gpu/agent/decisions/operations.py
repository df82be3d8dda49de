"""Reservations and volumes of an agent, and the operations that make them: an event in, actions out. Pure.

Operations on an agent's own resources cannot fail: the master has applied them already when it sends one. The agent
applies it too, writes resources and operation down together, and says OPERATION_FINISHED until that is acknowledged.
Source: Mesos src/slave/slave.cpp (applyOperation, checkpointResources, reconcileOperations).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from typing_extensions import assert_never

from mesos_gpu.agent.model.operations import (
    ApplyOperation,
    Disagree,
    DiscardVolume,
    KeepResources,
    MakeVolume,
    OperationAcknowledged,
    OperationAction,
    OperationEvent,
    ReconcileOperations,
    SaveHoldings,
    SendOperationStatus,
)
from mesos_gpu.agent.model.updates import RETRY_MAX_S, RETRY_MIN_S
from mesos_gpu.errors import BadResources
from mesos_gpu.mesos.conversions import applied, conversions, unallocated, with_kept
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document, Resource, ResourceDocument
from mesos_gpu.mesos.resources import Resources


class OperationStream(Struct):
    """One operation whose status is not acknowledged. `document` is a v1 Operation."""

    document: Document
    due_s: float | None = None
    wait_s: float = RETRY_MIN_S

    @property
    def status(self) -> Document:
        """Return its status (v1)."""
        status: Document = self.document["latest_status"]
        return status


class Operations(Struct):
    """The book of what an agent holds beside what its flags say, and of operations of which not everyone knows yet.

    `new_uuid` gives base64 of a fresh UUID. `kept` are dynamic reservations and persistent volumes. While `paused`
    there is no master, and nothing is sent. Only the status of an operation that its framework gave an id is repeated
    until it is acknowledged: nobody waits for any other, and masters of Mesos 1.5 to 1.7 end when one with a uuid comes
    (src/master/master.cpp there, Master::updateOperationStatus).
    """

    new_uuid: Callable[[], str]
    kept: Resources = field(default_factory=Resources)
    streams: dict[str, OperationStream] = field(default_factory=dict)
    paused: bool = True

    def operations(self) -> list[Document]:
        """Return the operations (v1) that are not acknowledged, oldest first."""
        return [stream.document for stream in self.streams.values()]

    def kept_documents(self) -> tuple[ResourceDocument, ...]:
        """Return what is kept, in the refined format."""
        return tuple(self.kept.to_json(refined=True))

    def knows(self, tasks: Iterable[TaskInfo]) -> bool:
        """Return whether the reservations and volumes that tasks and their executors use are here (Slave::__run)."""
        users: list[Mapping[str, Any]] = []
        for task in tasks:
            users += [task, task.get("executor") or {}]
        used = (r for user in users for r in map(Resource.from_json, user.get("resources", ())) if r.kept)
        return all(self.kept.contains(Resources([r]).unallocated()) for r in used)

    def volumes(self) -> set[tuple[Role, str]]:
        """Return role and id of every persistent volume."""
        return {(r.role, r.persistence_id) for r in self.kept if r.persistence_id is not None}

    @property
    def next_due_s(self) -> float | None:
        """Return when `retry` has something to do, None when nothing is outstanding or there is no master."""
        times = [] if self.paused else [s.due_s for s in self.streams.values() if s.due_s is not None]
        return min(times, default=None)


def restore(book: Operations, kept: Iterable[ResourceDocument], operations: Iterable[Document]) -> None:
    """Take over what the last process wrote down."""
    book.kept = Resources(map(Resource.from_json, kept))
    book.streams = {str(operation["uuid"]["value"]): OperationStream(operation) for operation in operations}


def handle(
    book: Operations, event: OperationEvent, agent_id: AgentId, flags: Resources, at: Moment
) -> list[OperationAction]:
    """Take an event; `flags` is the agent's total without what it keeps. Returns what to do, in order."""
    match event:
        case ApplyOperation():
            return _apply(book, event, agent_id, flags, at)
        case KeepResources():
            kept = Resources(map(Resource.from_json, event.resources))
            return [] if kept == book.kept else _change(book, kept)
        case OperationAcknowledged():
            return _acknowledge(book, event)
        case ReconcileOperations():
            return _reconcile(book, event.uuids, agent_id)
        case _:
            assert_never(event)


def retry(book: Operations, at: Moment) -> list[OperationAction]:
    """Return the statuses whose time to be sent again has come: after 10 s, doubling up to 10 min."""
    again: list[OperationAction] = []
    for uuid, stream in book.streams.items():
        if not book.paused and stream.due_s is not None and stream.due_s <= at.mono_s:
            stream.wait_s = min(stream.wait_s * 2, RETRY_MAX_S)
            stream.due_s = at.mono_s + stream.wait_s
            again.append(_send(uuid, stream))
    return again


def pause(book: Operations) -> None:
    """Send nothing until `resume`: there is no master."""
    book.paused = True


def resume(book: Operations, at: Moment) -> list[OperationAction]:
    """Return every outstanding status: a master (re-)appeared. What nobody acknowledges is done with that."""
    book.paused = False
    unanswered = [(uuid, stream) for uuid, stream in book.streams.items() if "uuid" not in stream.status]
    for uuid, _ in unanswered:
        del book.streams[uuid]
    for stream in book.streams.values():
        stream.wait_s, stream.due_s = RETRY_MIN_S, at.mono_s + RETRY_MIN_S
    sends: list[OperationAction] = [_send(uuid, stream) for uuid, stream in (*unanswered, *book.streams.items())]
    return [*sends, *([_save(book)] if unanswered else [])]


def _apply(
    book: Operations, event: ApplyOperation, agent_id: AgentId, flags: Resources, at: Moment
) -> list[OperationAction]:
    known = book.streams.get(event.uuid)
    if known is not None:
        return [] if book.paused else [_send(event.uuid, known)]
    status: Document = {"state": "OPERATION_FINISHED", "agent_id": {"value": agent_id}}
    if "id" in event.info:
        status |= {"uuid": {"value": book.new_uuid()}, "operation_id": event.info["id"]}
    actions: list[OperationAction] = []
    try:
        whole = applied(with_kept(flags, book.kept), unallocated(conversions(event.info)))
    except BadResources as error:
        # A real agent would end here. The master believes that it is done, so it has to be told what is true.
        status |= {"state": "OPERATION_DROPPED", "message": str(error)}
        actions.append(Disagree(f"it asks for an operation that cannot be: {error}"))
        whole = None
    document: Document = {"agent_id": {"value": agent_id}, "info": event.info, "latest_status": status}
    document |= {"statuses": [status], "uuid": {"value": event.uuid}}
    if event.framework is not None:
        document["framework_id"] = {"value": event.framework}
    stream = OperationStream(document, at.mono_s + RETRY_MIN_S)
    if "uuid" in status or book.paused:
        book.streams[event.uuid] = stream
    changes = _change(book, book.kept if whole is None else whole.kept())
    sends = [] if book.paused else [_send(event.uuid, stream)]
    return [*changes, *sends, *actions]


def _change(book: Operations, kept: Resources) -> list[OperationAction]:
    """Folders of new volumes are there before anyone can count on them; those of old ones go when nobody does."""
    before, book.kept = book.volumes(), kept
    now = book.volumes()
    made = [MakeVolume(*volume) for volume in sorted(now - before)]
    return [*made, _save(book), *(DiscardVolume(*volume) for volume in sorted(before - now))]


def _acknowledge(book: Operations, event: OperationAcknowledged) -> list[OperationAction]:
    stream = book.streams.get(event.operation_uuid)
    if stream is None or stream.status.get("uuid", {}).get("value") != event.status_uuid:
        return []
    del book.streams[event.operation_uuid]
    return [_save(book)]


def _reconcile(book: Operations, uuids: Sequence[str], agent_id: AgentId) -> list[OperationAction]:
    """Nobody acknowledges these: who asked asks again when the answer gets lost."""
    unknown: Document = {"state": "OPERATION_DROPPED", "agent_id": {"value": agent_id}}
    return [SendOperationStatus(uuid, unknown) for uuid in uuids if uuid not in book.streams]


def _save(book: Operations) -> SaveHoldings:
    return SaveHoldings(book.kept_documents(), tuple(book.operations()))


def fitting(kept: Resources, flags: Resources) -> Resources:
    """Return `kept` with no more GPUs of any one sort than `flags` still has: reserved ones may have vanished."""
    left = flags
    result = Resources()
    for resource in kept:
        base = Resources([resource.base()])
        if resource.name == "gpus" and not left.contains(base):
            (asked,) = base
            found = next((r.amount for r in left if r.key == asked.key and isinstance(r.amount, int)), 0)
            resource = Resource(resource.name, found, resource.reservations, None, resource.other)
            base = Resources([resource.base()])
        left = left - base
        result = result + Resources([resource])
    return result


def _send(uuid: str, stream: OperationStream) -> SendOperationStatus:
    return SendOperationStatus(uuid, stream.status, stream.document.get("framework_id", {}).get("value"))
