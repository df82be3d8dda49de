"""What follows from a scheduler's call, over HTTP or from a driver, other than SUBSCRIBE and UPDATE_FRAMEWORK.

Source: Mesos src/master/http.cpp (Master::Http::scheduler), src/master/master.cpp (Master::receive).
"""

from __future__ import annotations

from mesos_gpu.master.decisions import launching, maintenance, operations, subscriptions, updates
from mesos_gpu.master.model.model import Framework, Moment
from mesos_gpu.master.state.actions import Action
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document


def count(framework: Framework, kind: str) -> None:
    """Count a call among those of its framework."""
    framework.counters["calls"] += 1
    framework.counters[f"calls/{kind.lower()}"] += 1


def apply(state: MasterState, kind: str, framework: Framework, body: Document, now: Moment) -> list[Action]:
    """Return what follows from a call other than SUBSCRIBE and UPDATE_FRAMEWORK."""
    match kind:
        case "ACCEPT":
            return launching.accept(state, framework, body, now)
        case "DECLINE":
            return launching.decline(state, framework, body, now)
        case "REVIVE":
            return subscriptions.revive(state, framework, body.get("roles", []))
        case "SUPPRESS":
            return subscriptions.suppress(state, framework, body.get("roles", []))
        case "KILL":
            return updates.kill(state, framework, body, now)
        case "ACKNOWLEDGE":
            return updates.acknowledge(state, framework, body)
        case "RECONCILE":
            return updates.reconcile(state, framework, body, now)
        case "SHUTDOWN":
            return updates.shutdown_executor(state, body, framework)
        case "MESSAGE":
            return updates.message_executor(state, body, framework)
        case "TEARDOWN":
            return subscriptions.remove_framework(state, framework, now)
        case "ACCEPT_INVERSE_OFFERS":
            return maintenance.answer(state, framework, "ACCEPT", body, now)
        case "DECLINE_INVERSE_OFFERS":
            return maintenance.answer(state, framework, "DECLINE", body, now)
        case "RECONCILE_OPERATIONS":
            return operations.reconcile(state, framework, body)
        case "ACKNOWLEDGE_OPERATION_STATUS":
            return operations.acknowledge(state, framework, body)
        case "REQUEST":
            return []  # the stock allocator ignores requests
        case _:
            raise ValueError(f"no rule for call {kind}")
