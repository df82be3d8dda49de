"""The numbers of operations on agents' resources, under Mesos' names (src/master/metrics.cpp, OperationStates)."""

from __future__ import annotations

from collections import Counter

from mesos_gpu.master.state.state import MasterState

KINDS = ("reserve", "unreserve", "create", "destroy", "grow_volume", "shrink_volume", "create_disk", "destroy_disk")
# What is now, and what has happened since the start.
_LIVE = ("pending", "recovering")
_COUNTED = ("total", "finished", "failed", "error", "dropped", "gone_by_operator", "unreachable")


def count(state: MasterState, kind: str, what: str) -> None:
    """Count an operation of a kind such as RESERVE; `what` is `total` or a state such as OPERATION_FINISHED."""
    if kind.lower() in KINDS:
        state.counters[f"operations/{kind.lower()}/{what.removeprefix('OPERATION_').lower()}"] += 1


def of_operations(state: MasterState) -> dict[str, float]:
    """Return the metrics by name: of each kind, and of all."""
    live: Counter[tuple[str, str]] = Counter()
    for agent in state.agents.values():
        for operation in agent.operations.values():
            live[operation.kind.lower(), operation.state.removeprefix("OPERATION_").lower()] += 1
    metrics: dict[str, float] = {}
    for name in (*_LIVE, *_COUNTED):
        of_kind = {
            kind: live[kind, name] if name in _LIVE else state.counters[f"operations/{kind}/{name}"] for kind in KINDS
        }
        metrics[f"master/operations/{name}"] = float(sum(of_kind.values()))
        metrics |= {f"master/operations/{kind}/{name}": float(number) for kind, number in of_kind.items()}
    return metrics
