"""The metrics of each framework, live or removed: master/frameworks/NAME/ID/... Values to values.

Source: Mesos src/master/metrics.cpp, FrameworkMetrics.
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import quote

from mesos_gpu.master.model.model import Framework

_CALLS = (
    "accept accept_inverse_offers acknowledge acknowledge_operation_status decline decline_inverse_offers kill message "
    "reconcile reconcile_operations request revive shutdown subscribe suppress teardown update_framework"
)
_EVENTS = (
    "error failure heartbeat inverse_offers message offers rescind rescind_inverse_offer subscribed update "
    "update_operation_status"
)
_OPERATIONS = "create create_disk destroy destroy_disk grow_volume launch launch_group reserve shrink_volume unreserve"
_ACTIVE = "killing running staging starting unknown unreachable"
_TERMINAL = "dropped error failed finished gone gone_by_operator killed lost"
_COUNTED = [
    "calls",
    *(f"calls/{name}" for name in _CALLS.split()),
    "events",
    *(f"events/{name}" for name in _EVENTS.split()),
    *(f"offers/{name}" for name in ("accepted", "declined", "rescinded", "sent")),
    "operations",
    *(f"operations/{name}" for name in _OPERATIONS.split()),
    *(f"tasks/terminal/task_{name}" for name in _TERMINAL.split()),
]


def of_framework(framework: Framework) -> dict[str, float]:
    """Return the metrics of one framework by name."""
    prefix = f"master/frameworks/{quote(framework.name, safe='')}/{framework.id}"
    metrics = {f"{prefix}/{name}": float(framework.counters[name]) for name in _COUNTED}
    active = Counter(task.state for task in framework.tasks.values())
    active["TASK_UNREACHABLE"] += len(framework.unreachable)
    for name in _ACTIVE.split():
        metrics[f"{prefix}/tasks/active/task_{name}"] = float(active[f"TASK_{name.upper()}"])
    metrics[f"{prefix}/subscribed"] = float(framework.connected)
    for role in framework.roles:
        metrics[f"{prefix}/roles/{role}/suppressed"] = float(role in framework.suppressed)
    return metrics
