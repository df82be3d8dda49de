"""Accounts of what tasks had and used, as the API shows them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.model.usage import HOUR_MS, NOTHING, Sum, Who, hour_of, milliseconds
from mesos_gpu.marathon.state.accounts import totals
from mesos_gpu.marathon.state.state import Books

BY = ("app", "role", "user")
_HOUR = 1000 * HOUR_MS
"""An hour of one thing, in thousandths times milliseconds."""


def usage(books: Books, *, since_s: float, now_s: float, by: str, app: str | None = None) -> dict[str, Any]:
    """Return the sums since the begin of an hour, the most GPU-hours first; of one app or job alone if it is named."""
    since_ms = hour_of(milliseconds(since_s))
    found: dict[tuple[str, ...], Sum] = {}
    for owner, each in totals(books, since_ms, milliseconds(now_s)).items():
        if app is None or owner.app in (app, app.strip("/")):
            key = _key(owner, by)
            found[key] = found.get(key, NOTHING) + each
    ordered = sorted(found.items(), key=lambda item: (-item[1].gpu_ms, -item[1].cpu_ms, item[0]))
    return {
        "since": timestamp(since_ms / 1000),
        "until": timestamp(now_s),
        "by": by,
        "usage": [{**_named(key, by), **shown(each)} for key, each in ordered],
        "total": shown(sum(found.values(), NOTHING)),
    }


def shown(each: Sum) -> dict[str, Any]:
    """Return a sum for programs: hours, MiB and percents; None is what was not measured."""
    return {
        "tasksEnded": each.tasks,
        "elapsedHours": _hours(each.wall_ms, HOUR_MS),
        "gpuHours": _hours(each.gpu_ms),
        "cpuHours": _hours(each.cpu_ms),
        "memGiBHours": _hours(each.mem_ms, 1024 * _HOUR),
        "sharedGpuMemGiBHours": _hours(each.gpu_mem_ms),
        "gpuEfficiency": _percent(each.busy_gpu_ms, each.measured_gpu_ms),
        "gpuIdle": _percent(each.idle_gpu_ms, each.measured_gpu_ms),
        "measuredGpuHours": _hours(each.measured_gpu_ms),
        "idleGpuHours": _hours(each.idle_gpu_ms) if each.measured_gpu_ms else None,
        "cpuEfficiency": _percent(each.used_cpu_ms, each.measured_cpu_ms),
        "cpuUsedHours": _hours(each.used_cpu_ms) if each.measured_cpu_ms else None,
        "maxRssMiB": round(each.most_mem / 1000, 1) if each.most_mem else None,
        "memMiB": round(each.mem / 1000, 1),
        "memEfficiency": _percent(each.most_mem, each.mem) if each.most_mem else None,
        "maxGpuMemMiB": round(each.most_gpu_mem / 1000, 1) if each.most_gpu_mem else None,
    }


def _key(owner: Who, by: str) -> tuple[str, ...]:
    return {"app": (owner.app, owner.role, owner.user), "role": (owner.role,), "user": (owner.user,)}[by]


def _named(key: tuple[str, ...], by: str) -> Mapping[str, str]:
    return dict(zip(BY, key, strict=True)) if by == "app" else {by: key[0]}


def _hours(amount: int, hour: int = _HOUR) -> float:
    return round(amount / hour, 6)


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole > 0 else None
