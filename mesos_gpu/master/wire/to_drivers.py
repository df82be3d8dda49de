"""Events of a framework as the messages that scheduler drivers take. Values to values.

Source: Mesos src/sched/sched.cpp (which messages a driver handles), src/master/master.cpp (forward, reconcile,
offer, sendSlaveLost), src/messages/messages.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from mesos_gpu.master.wire.agent_forms import NO_PID
from mesos_gpu.mesos.ids import AgentId, FrameworkId, TaskId
from mesos_gpu.mesos.resource import Document

# What an update repeats of its status, and under which name the status has it.
_OF_STATUS = (("executor_id", "executor_id"), ("slave_id", "agent_id"), ("uuid", "uuid"))


class Books(Struct, frozen=True):
    """What a message says that the event does not."""

    framework_id: FrameworkId
    """Empty before the framework is subscribed."""
    agent_pid: Callable[[AgentId], str]
    """Where an agent is, by its id."""
    task_state: Callable[[TaskId], str | None]
    """The newest state of a task of the framework; None for one that the master does not know."""


def message_of(event: Document, books: Books) -> tuple[str, Document] | None:
    """Return the name, without its package, and the body of the message for an event; None where drivers have none."""
    kind = event["type"]
    make = _MESSAGES.get(kind)
    return None if make is None else make(event[kind.lower()], books)


def _subscribed(name: str) -> Callable[[Document, Books], tuple[str, Document]]:
    def message(body: Document, books: Books) -> tuple[str, Document]:
        return name, {"framework_id": body["framework_id"], "master_info": body["master_info"]}

    return message


def _offers(body: Document, books: Books) -> tuple[str, Document]:
    return "ResourceOffersMessage", {"offers": body["offers"], "pids": _pids(body["offers"], books)}


def _inverse_offers(body: Document, books: Books) -> tuple[str, Document]:
    offers = body["inverse_offers"]
    return "InverseOffersMessage", {"inverse_offers": offers, "pids": _pids(offers, books)}


def _pids(offers: list[Document], books: Books) -> list[str]:
    """Return one pid for each offer: drivers end their program when there are not as many."""
    return [books.agent_pid(offer["agent_id"]["value"]) for offer in offers]


def _rescind(body: Document, books: Books) -> tuple[str, Document]:
    return "RescindResourceOfferMessage", {"offer_id": body["offer_id"]}


def _rescind_inverse(body: Document, books: Books) -> tuple[str, Document]:
    return "RescindInverseOfferMessage", {"inverse_offer_id": body["inverse_offer_id"]}


def _update(body: Document, books: Books) -> tuple[str, Document]:
    """Return a StatusUpdateMessage: a driver acknowledges it when it has a uuid and the pid of an agent."""
    status = body["status"]
    update: Document = {"framework_id": {"value": books.framework_id}, "status": status}
    update |= {name: status[of] for name, of in _OF_STATUS if of in status}
    update["timestamp"] = status.get("timestamp", 0.0)
    if "uuid" in status and "agent_id" in status:
        update["latest_state"] = books.task_state(status["task_id"]["value"]) or status["state"]
        return "StatusUpdateMessage", {"update": update, "pid": books.agent_pid(status["agent_id"]["value"])}
    if status.get("reason") == "REASON_RECONCILIATION":
        return "StatusUpdateMessage", {"update": update}
    return "StatusUpdateMessage", {"update": update, "pid": NO_PID}


def _failure(body: Document, books: Books) -> tuple[str, Document]:
    if "executor_id" not in body:
        return "LostSlaveMessage", {"slave_id": body["agent_id"]}
    return "ExitedExecutorMessage", {**_of_executor(body, books), "status": body.get("status", -1)}


def _message(body: Document, books: Books) -> tuple[str, Document]:
    return "ExecutorToFrameworkMessage", {**_of_executor(body, books), "data": body["data"]}


def _of_executor(body: Document, books: Books) -> Document:
    return {
        "slave_id": body["agent_id"],
        "framework_id": {"value": books.framework_id},
        "executor_id": body["executor_id"],
    }


def _error(body: Document, books: Books) -> tuple[str, Document]:
    return "FrameworkErrorMessage", {"message": body["message"]}


_MESSAGES: Mapping[str, Callable[[Document, Books], tuple[str, Document]]] = {
    "SUBSCRIBED": _subscribed("FrameworkRegisteredMessage"),
    "REREGISTERED": _subscribed("FrameworkReregisteredMessage"),
    "OFFERS": _offers,
    "INVERSE_OFFERS": _inverse_offers,
    "RESCIND": _rescind,
    "RESCIND_INVERSE_OFFER": _rescind_inverse,
    "UPDATE": _update,
    "FAILURE": _failure,
    "MESSAGE": _message,
    "ERROR": _error,
}
