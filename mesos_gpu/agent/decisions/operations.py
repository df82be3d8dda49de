"""Reservations and volumes of an agent, and the operations that make them. Pure: an event in, actions out.

Operations on an agent's own resources cannot fail: the master has applied them already when it sends one. The agent
applies it too, writes resources and operation down together, and says OPERATION_FINISHED until that is acknowledged.
Source: Mesos src/slave/slave.cpp (applyOperation, checkpointResources, reconcileOperations), libprocess.md 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import assert_never

from mesos_gpu.agent.model.updates import RETRY_MAX_S, RETRY_MIN_S
from mesos_gpu.errors import BadResources
from mesos_gpu.mesos.conversions import applied, conversions, unallocated, with_kept
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources

# --- what happens ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApplyOperation:
    """The master has applied this Offer.Operation (v1); `framework` is None when an operator asked for it."""

    uuid: str
    info: Document
    framework: str | None = None


@dataclass(frozen=True, slots=True)
class KeepResources:
    """The whole list of reservations and volumes that the master made on this agent."""

    resources: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class OperationAcknowledged:
    """Somebody has the status of an operation; both are base64 of 16 bytes."""

    status_uuid: str
    operation_uuid: str


@dataclass(frozen=True, slots=True)
class ReconcileOperations:
    """The master believes that these operations are here, and the agent did not list them."""

    uuids: tuple[str, ...]


OperationEvent: TypeAlias = ApplyOperation | KeepResources | OperationAcknowledged | ReconcileOperations


# --- what is done about it, in the order of the list -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakeVolume:
    """Make the empty folder of a persistent volume."""

    role: str
    id: str


@dataclass(frozen=True, slots=True)
class DiscardVolume:
    """Remove the folder of a persistent volume with all that is in it."""

    role: str
    id: str


@dataclass(frozen=True, slots=True)
class SaveHoldings:
    """Put resources and operations on disk, together."""

    resources: tuple[Document, ...]
    operations: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class SendOperationStatus:
    """Tell the master the status of an operation."""

    operation_uuid: str
    status: Document
    framework: str | None = None


@dataclass(frozen=True, slots=True)
class Disagree:
    """The master counts on something else than is here: register again, with the truth."""

    why: str


OperationAction: TypeAlias = MakeVolume | DiscardVolume | SaveHoldings | SendOperationStatus | Disagree


@dataclass(slots=True)
class _Stream:
    """One operation whose status is not acknowledged. `document` is a v1 Operation."""

    document: Document
    due_s: float | None = None
    wait_s: float = RETRY_MIN_S

    @property
    def status(self) -> Document:
        status: Document = self.document["latest_status"]
        return status


class Operations:
    """What an agent holds beside what its flags say, and the operations of which not everyone knows yet.

    `new_uuid` gives base64 of a fresh UUID. Times are monotonic seconds. Only the status of an operation that its
    framework gave an id is repeated until it is acknowledged: nobody waits for any other, and masters of Mesos 1.5 to
    1.7 end when one with a uuid comes (src/master/master.cpp there, Master::updateOperationStatus).
    """

    def __init__(self, new_uuid: Callable[[], str]) -> None:
        self._new_uuid = new_uuid
        self.kept = Resources()
        """Dynamic reservations and persistent volumes."""
        self._streams: dict[str, _Stream] = {}
        self._paused = True

    def restore(self, kept: Iterable[Document], operations: Iterable[Document]) -> None:
        """Take over what the last process wrote down."""
        self.kept = Resources(map(Resource.from_json, kept))
        self._streams = {str(o["uuid"]["value"]): _Stream(o) for o in operations}

    def operations(self) -> list[Document]:
        """Return the operations (v1) that are not acknowledged, oldest first."""
        return [stream.document for stream in self._streams.values()]

    def kept_documents(self) -> tuple[Document, ...]:
        """Return what is kept, in the refined format."""
        return tuple(self.kept.to_json(refined=True))

    def knows(self, tasks: Iterable[Document]) -> bool:
        """Tell whether the reservations and volumes that tasks and their executors use are here (Slave::__run)."""
        users = [user for task in tasks for user in (task, task.get("executor") or {})]
        used = (r for user in users for r in map(Resource.from_json, user.get("resources", ())) if r.kept)
        return all(self.kept.contains(Resources([r]).unallocated()) for r in used)

    def volumes(self) -> set[tuple[str, str]]:
        """Return role and id of every persistent volume."""
        return {(r.role, r.persistence_id) for r in self.kept if r.persistence_id is not None}

    @property
    def next_due_s(self) -> float | None:
        """Return when `retry` has something to do, None when nothing is outstanding or there is no master."""
        times = [] if self._paused else [s.due_s for s in self._streams.values() if s.due_s is not None]
        return min(times, default=None)

    def handle(self, event: OperationEvent, agent_id: str, flags: Resources, now_s: float) -> list[OperationAction]:
        """Take an event; `flags` is the agent's total without what it keeps. Returns what to do, in order."""
        match event:
            case ApplyOperation():
                return self._apply(event, agent_id, flags, now_s)
            case KeepResources():
                return self._keep(Resources(map(Resource.from_json, event.resources)))
            case OperationAcknowledged():
                return self._acknowledge(event)
            case ReconcileOperations():
                return self._reconcile(event.uuids, agent_id)
            case _:
                assert_never(event)

    def retry(self, now_s: float) -> list[OperationAction]:
        """Return the statuses whose time to be sent again has come: after 10 s, doubling up to 10 min."""
        again: list[OperationAction] = []
        for uuid, stream in self._streams.items():
            if not self._paused and stream.due_s is not None and stream.due_s <= now_s:
                stream.wait_s = min(stream.wait_s * 2, RETRY_MAX_S)
                stream.due_s = now_s + stream.wait_s
                again.append(_send(uuid, stream))
        return again

    def pause(self) -> None:
        """Send nothing until `resume`: there is no master."""
        self._paused = True

    def resume(self, now_s: float) -> list[OperationAction]:
        """Return every outstanding status: a master (re-)appeared. What nobody acknowledges is done with that."""
        self._paused = False
        said = [(uuid, stream) for uuid, stream in self._streams.items() if "uuid" not in stream.status]
        for uuid, _ in said:
            del self._streams[uuid]
        for stream in self._streams.values():
            stream.wait_s, stream.due_s = RETRY_MIN_S, now_s + RETRY_MIN_S
        sends: list[OperationAction] = [_send(uuid, stream) for uuid, stream in (*said, *self._streams.items())]
        return [*sends, *([self._save()] if said else [])]

    def _apply(self, event: ApplyOperation, agent_id: str, flags: Resources, now_s: float) -> list[OperationAction]:
        known = self._streams.get(event.uuid)
        if known is not None:
            return [] if self._paused else [_send(event.uuid, known)]
        status: Document = {"state": "OPERATION_FINISHED", "agent_id": {"value": agent_id}}
        if "id" in event.info:
            status |= {"uuid": {"value": self._new_uuid()}, "operation_id": event.info["id"]}
        actions: list[OperationAction] = []
        try:
            whole = applied(with_kept(flags, self.kept), unallocated(conversions(event.info)))
        except BadResources as error:
            # A real agent would end here. The master believes that it is done, so it has to be told what is true.
            status |= {"state": "OPERATION_DROPPED", "message": str(error)}
            actions.append(Disagree(f"it asks for an operation that cannot be: {error}"))
            whole = None
        document: Document = {"agent_id": {"value": agent_id}, "info": event.info, "latest_status": status}
        document |= {"statuses": [status], "uuid": {"value": event.uuid}}
        if event.framework is not None:
            document["framework_id"] = {"value": event.framework}
        stream = _Stream(document, now_s + RETRY_MIN_S)
        if "uuid" in status or self._paused:
            self._streams[event.uuid] = stream
        changes = self._change(self.kept if whole is None else whole.kept())
        sends = [] if self._paused else [_send(event.uuid, stream)]
        return [*changes, *sends, *actions]

    def _keep(self, kept: Resources) -> list[OperationAction]:
        return [] if kept == self.kept else self._change(kept)

    def _change(self, kept: Resources) -> list[OperationAction]:
        """Folders of new volumes are there before anyone can count on them; those of old ones go when nobody does."""
        before, self.kept = self.volumes(), kept
        now = self.volumes()
        made = [MakeVolume(*volume) for volume in sorted(now - before)]
        return [*made, self._save(), *(DiscardVolume(*volume) for volume in sorted(before - now))]

    def _acknowledge(self, event: OperationAcknowledged) -> list[OperationAction]:
        stream = self._streams.get(event.operation_uuid)
        if stream is None or stream.status.get("uuid", {}).get("value") != event.status_uuid:
            return []
        del self._streams[event.operation_uuid]
        return [self._save()]

    def _reconcile(self, uuids: Sequence[str], agent_id: str) -> list[OperationAction]:
        """Nobody acknowledges these: who asked asks again when the answer gets lost."""
        unknown: Document = {"state": "OPERATION_DROPPED", "agent_id": {"value": agent_id}}
        return [SendOperationStatus(uuid, unknown) for uuid in uuids if uuid not in self._streams]

    def _save(self) -> SaveHoldings:
        return SaveHoldings(self.kept_documents(), tuple(self.operations()))


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


def _send(uuid: str, stream: _Stream) -> SendOperationStatus:
    return SendOperationStatus(uuid, stream.status, stream.document.get("framework_id", {}).get("value"))
