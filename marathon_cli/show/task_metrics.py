"""What a task uses, from what its agent measured of its container, once or twice. Pure.

Source: Mesos' /containers (ResourceStatistics); `gpus` beside the statistics is of our own agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.mesos.units import MIB

Document = Mapping[str, Any]


def container(containers: Sequence[Document], container_id: Document) -> Document | None:
    """Return what an agent's /containers says of a container; the root of a nested one if it is not there itself."""
    at: Document | None = container_id
    while at is not None:
        found = next((one for one in containers if same(one, at)), None)
        if found is not None:
            return found
        at = at.get("parent")
    return None


def same(shown: Document, container_id: Document) -> bool:
    """Return whether /containers shows the container of this id."""
    said = (shown.get("status") or {}).get("container_id")
    if said is None:
        return shown.get("container_id") == container_id.get("value") and "parent" not in container_id
    return _name(said) == _name(container_id)


def cpus_used(before: Document, after: Document) -> float | None:
    """Return how many CPUs were used between two measurements; None when that cannot be known."""
    first, last = before.get("statistics") or {}, after.get("statistics") or {}
    try:
        seconds = float(last["timestamp"]) - float(first["timestamp"])
        return max(0.0, _cpu_seconds(last) - _cpu_seconds(first)) / seconds if seconds > 0 else None
    except (LookupError, TypeError, ValueError):
        return None


def summary(before: Document, after: Document) -> list[tuple[str, str, str]]:
    """Return rows of what is used, of how much: CPUs, memory, disk, network, each GPU. `---` is not known."""
    said = after.get("statistics") or {}
    rows = [
        ("cpus", _number(cpus_used(before, after), 2), _number(said.get("cpus_limit", said.get("cpus_soft_limit")), 2)),
        ("mem", _mib(said.get("mem_rss_bytes", said.get("mem_total_bytes"))), _mib(said.get("mem_limit_bytes"))),
        ("disk", _mib(said.get("disk_used_bytes")), _mib(said.get("disk_limit_bytes"))),
        ("processes", _number(said.get("processes"), 0), "---"),
    ]
    for gpu in after.get("gpus") or ():
        name = f"gpu {gpu.get('index', gpu.get('minor', '?'))}"
        rows += [
            (name, _number(gpu.get("utilization_percent"), 0, " %"), str(gpu.get("name", "---"))),
            (
                f"{name} mem",
                _number(gpu.get("memory_used_mib"), 0, " MiB"),
                _number(gpu.get("memory_total_mib"), 0, " MiB"),
            ),
        ]
    return rows


def details(measured: Document) -> list[tuple[str, str]]:
    """Return every number that was measured, by name; those of GPUs as gpus.INDEX.NAME."""
    said = measured.get("statistics") or {}
    rows = [(str(name), _plain(value)) for name, value in sorted(said.items()) if not isinstance(value, (dict, list))]
    for gpu in measured.get("gpus") or ():
        index = gpu.get("index", gpu.get("minor", "?"))
        rows += [(f"gpus.{index}.{name}", _plain(value)) for name, value in gpu.items() if name != "index"]
    return rows


def _cpu_seconds(said: Document) -> float:
    return float(said["cpus_user_time_secs"]) + float(said["cpus_system_time_secs"])


def _name(container_id: Document) -> str:
    parent = container_id.get("parent")
    value = str(container_id.get("value"))
    return f"{_name(parent)}.{value}" if parent else value


def _number(value: object, digits: int, unit: str = "") -> str:
    return f"{float(value):.{digits}f}{unit}" if isinstance(value, (int, float)) else "---"


def _mib(value: object) -> str:
    return f"{value / MIB:.1f} MiB" if isinstance(value, (int, float)) else "---"


def _plain(value: object) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
