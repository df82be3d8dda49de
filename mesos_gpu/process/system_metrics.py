"""What a program tells of its machine: `system/*` of /metrics/snapshot, and /system/stats.json.

Source: Mesos 3rdparty/libprocess/include/process/system.hpp; as there, what cannot be told is left out.
"""

from __future__ import annotations

import os

_PREFIX = "system/"


def system_metrics() -> dict[str, float]:
    """Return what the machine reports, under Mesos' names: CPUs, load averages, bytes of memory."""
    one, five, fifteen = os.getloadavg()
    page = os.sysconf("SC_PAGE_SIZE")
    cpus = os.cpu_count()
    return {
        **({} if cpus is None else {"system/cpus_total": float(cpus)}),
        "system/load_1min": one,
        "system/load_5min": five,
        "system/load_15min": fifteen,
        "system/mem_total_bytes": float(page * os.sysconf("SC_PHYS_PAGES")),
        "system/mem_free_bytes": float(page * os.sysconf("SC_AVPHYS_PAGES")),
    }


def system_stats() -> dict[str, float]:
    """Return the same under the names of /system/stats.json, the oldest endpoint of all."""
    return {name.removeprefix(_PREFIX).replace("load_", "avg_load_"): value for name, value in system_metrics().items()}
