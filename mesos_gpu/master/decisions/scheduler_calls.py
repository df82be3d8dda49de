"""What follows from a scheduler's call, over HTTP or from a driver, other than SUBSCRIBE.

Source: Mesos src/master/http.cpp (Master::Http::scheduler), src/master/master.cpp (Master::receive).
"""

from __future__ import annotations

from typing_extensions import assert_never

from mesos_gpu.master.decisions import launching, maintenance, operations, subscriptions, updates
from mesos_gpu.master.events import schedulers as calls
from mesos_gpu.master.state.actions import Action
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.moment import Moment


def count(state: MasterState, framework_id: FrameworkId, kind: str) -> None:
    """Count a call among those of its framework."""
    framework = state.frameworks.get(framework_id)
    if framework is not None:
        framework.counters["calls"] += 1
        framework.counters[f"calls/{kind.lower()}"] += 1


def count_heartbeat(state: MasterState, stream_id: str) -> None:
    """Count a heartbeat among the events of the framework whose stream it is."""
    framework = state.framework_of(stream_id)
    if framework is not None:
        framework.counters["events"] += 1
        framework.counters["events/heartbeat"] += 1


def take(state: MasterState, call: calls.Call, now: Moment) -> list[Action]:
    """Return what follows from a call. UPDATE_FRAMEWORK raises BadInput, and Forbidden."""
    framework = state.frameworks.get(call.framework_id)
    if framework is None:
        return []  # removed since it called
    body = call.body
    match call:
        case calls.Accept():
            return launching.accept(state, framework, body, now)
        case calls.Acknowledge():
            return updates.acknowledge(state, framework, body)
        case calls.Decline():
            return launching.decline(state, framework, body, now)
        case calls.Revive():
            return subscriptions.revive(state, framework, body.get("roles", []))
        case calls.Suppress():
            return subscriptions.suppress(state, framework, body.get("roles", []))
        case calls.Kill():
            return updates.kill(state, framework, body, now)
        case calls.Reconcile():
            return updates.reconcile(state, framework, body, now)
        case calls.Shutdown():
            return updates.shutdown_executor(state, body, framework)
        case calls.Message():
            return updates.message_executor(state, body, framework)
        case calls.Teardown():
            return subscriptions.remove_framework(state, framework, now)
        case calls.UpdateFramework():
            return subscriptions.update_framework(state, framework, body)
        case calls.Request():
            return []  # the stock allocator ignores requests
        case calls.AcceptInverseOffers():
            return maintenance.answer(state, framework, "ACCEPT", body, now)
        case calls.DeclineInverseOffers():
            return maintenance.answer(state, framework, "DECLINE", body, now)
        case calls.ReconcileOperations():
            return operations.reconcile(state, framework, body)
        case calls.AcknowledgeOperationStatus():
            return operations.acknowledge(state, framework, body)
        case _:
            assert_never(call)
