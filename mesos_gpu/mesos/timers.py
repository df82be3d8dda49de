"""How long something took, over its last runs, under the names that Mesos gives timers. Pure.

Source: libprocess metrics (3rdparty/libprocess/include/process/{timer,statistics}.hpp).
"""

from __future__ import annotations

from collections import deque

KEPT = 1000
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}


class Timer:
    """The last runs of one thing. It shows nothing until there was one, as Mesos' timers."""

    def __init__(self, name: str) -> None:
        """Name it as Mesos does, without the unit."""
        self._name = f"{name}_ms"
        self._runs: deque[float] = deque(maxlen=KEPT)

    def add(self, took_s: float) -> None:
        """Take another run."""
        self._runs.append(took_s * 1000)

    def shown(self) -> dict[str, float]:
        """Return the last run, and count, extremes and percentiles of those that are kept, in milliseconds."""
        if not self._runs:
            return {}
        ordered = sorted(self._runs)
        statistics = {name: _percentile(ordered, part) for name, part in PERCENTILES.items()}
        statistics |= {"count": float(len(ordered)), "min": ordered[0], "max": ordered[-1]}
        return {self._name: self._runs[-1], **{f"{self._name}/{name}": value for name, value in statistics.items()}}


def _percentile(ordered: list[float], part: float) -> float:
    """Interpolate between the two values that lie around it."""
    position = part * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
