"""Messages of scheduler drivers, as v1 calls: those of drivers since 0.23, and the older ones. Values to values.

Source: Mesos include/mesos/scheduler/scheduler.proto, src/messages/messages.proto, src/master/master.cpp
(registerFramework, reregisterFramework, launchTasks, killTask, reconcileTasks and so on).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from mesos_gpu.errors import ProtocolError
from mesos_gpu.master.events.schedulers import DriverSubscribes
from mesos_gpu.master.validation.calls import call_problem
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.messages import decode, decode_to_v1, evolve
from mesos_gpu.mesos.resource import Document

CALL = "mesos.scheduler.Call"
_PREFIX = "mesos.internal."
# Calls for which the answer would be an event that drivers do not know.
_NOT_FOR_DRIVERS = frozenset({"ACKNOWLEDGE_OPERATION_STATUS", "RECONCILE_OPERATIONS"})


class Asked(Struct, frozen=True):
    """A call other than a subscription: `kind` as in v1, or DEACTIVATE; `body` is what v1 has under that name."""

    kind: str
    framework_id: FrameworkId
    body: Document
    old: bool = False
    """Came as a message of its own: one from a framework whose link is broken is not answered with an error."""


class Refused(Struct, frozen=True):
    """A subscription that is answered with an error at once."""

    error: str


def is_for_drivers(name: str) -> bool:
    """Return whether a message of this full name is one that scheduler drivers send."""
    return name == CALL or name in _OLD


def read(name: str, data: bytes, pid: str) -> DriverSubscribes | Asked | Refused:
    """Return what a driver at `pid` wants. Raises ProtocolError for what is dropped."""
    return _call(decode(name, data), pid) if name == CALL else _OLD[name](decode_to_v1(name, data), pid)


def _call(document: Document, pid: str) -> DriverSubscribes | Asked:
    call = evolve(CALL, document)
    problem = call_problem(call)
    if problem is not None:
        raise ProtocolError(problem)
    kind = str(call["type"])
    if kind == "SUBSCRIBE":
        asked = call["subscribe"]
        return DriverSubscribes(
            pid,
            asked["framework_info"],
            force=document["subscribe"].get("force", False),
            suppressed=tuple(asked.get("suppressed_roles", ())),
            offer_constraints=asked.get("offer_constraints", {}),
        )
    if kind == "UNKNOWN":
        raise ProtocolError("a call of an unknown type")
    if kind in _NOT_FOR_DRIVERS:
        raise ProtocolError(f"'{kind}' is not supported by the v0 API")
    return Asked(kind, call["framework_id"]["value"], call.get(kind.lower(), {}))


def _register(document: Document, pid: str) -> DriverSubscribes | Refused:
    info = document["framework"]
    if info.get("id", {}).get("value"):
        return Refused("Registering with 'id' already set")
    return DriverSubscribes(pid, info)


def _reregister(document: Document, pid: str) -> DriverSubscribes | Refused:
    info = document["framework"]
    if not info.get("id", {}).get("value"):
        return Refused("Re-registering without an 'id'")
    return DriverSubscribes(pid, info, force=document["failover"])


def _asked(kind: str, body: Callable[[Document], Document]) -> Callable[[Document, str], Asked]:
    def read_message(document: Document, pid: str) -> Asked:
        return Asked(kind, document["framework_id"]["value"], body(document), old=True)

    return read_message


def _launch(document: Document, pid: str) -> Asked:
    """Read a LaunchTasksMessage: without tasks it declines its offers."""
    body: Document = {"offer_ids": document.get("offer_ids", []), "filters": document["filters"]}
    tasks = document.get("tasks", [])
    if tasks:
        body["operations"] = [{"type": "LAUNCH", "launch": {"task_infos": tasks}}]
    return Asked("ACCEPT" if tasks else "DECLINE", document["framework_id"]["value"], body, old=True)


def _acknowledge(document: Document) -> Document:
    body = {"agent_id": document["slave_id"], "task_id": document["task_id"], "uuid": document["uuid"]}
    problem = call_problem({"type": "ACKNOWLEDGE", "framework_id": document["framework_id"], "acknowledge": body})
    if problem is not None:
        raise ProtocolError(problem)
    return body


def _reconcile(document: Document) -> Document:
    wanted = ("task_id", "agent_id")
    statuses = document.get("statuses", ())
    return {"tasks": [{name: status[name] for name in wanted if name in status} for status in statuses]}


def _message(document: Document) -> Document:
    return {
        "agent_id": document["slave_id"],
        "executor_id": document["executor_id"],
        "data": document["data"],
    }


_OLD: Mapping[str, Callable[[Document, str], DriverSubscribes | Asked | Refused]] = {
    f"{_PREFIX}RegisterFrameworkMessage": _register,
    f"{_PREFIX}ReregisterFrameworkMessage": _reregister,
    f"{_PREFIX}UnregisterFrameworkMessage": _asked("TEARDOWN", lambda document: {}),
    f"{_PREFIX}DeactivateFrameworkMessage": _asked("DEACTIVATE", lambda document: {}),
    f"{_PREFIX}ResourceRequestMessage": _asked("REQUEST", lambda document: {}),
    f"{_PREFIX}LaunchTasksMessage": _launch,
    f"{_PREFIX}ReviveOffersMessage": _asked("REVIVE", lambda document: {"roles": document.get("roles", [])}),
    f"{_PREFIX}KillTaskMessage": _asked("KILL", lambda document: {"task_id": document["task_id"]}),
    f"{_PREFIX}StatusUpdateAcknowledgementMessage": _asked("ACKNOWLEDGE", _acknowledge),
    f"{_PREFIX}ReconcileTasksMessage": _asked("RECONCILE", _reconcile),
    f"{_PREFIX}FrameworkToExecutorMessage": _asked("MESSAGE", _message),
}
