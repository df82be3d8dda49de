"""Lines of `mesos_gpu.stages` as a table of medians."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

STAGE = re.compile(r"([^,:]+) (\d+\.\d+) \(\+(\d+\.\d+)\)")
BEGAN = re.compile(r" at (\d+\.\d+) s, in ms:")


def began_s(line: str) -> float:
    """Return when the first stage of a line began, by the monotonic clock."""
    found = BEGAN.search(line)
    assert found is not None
    return float(found[1])


def stages_ms(line: str) -> list[tuple[str, float, float]]:
    """Return the stages of a line: when each was done, since the first began, and how long it took."""
    return [(stage.strip(), float(at), float(took)) for stage, at, took in STAGE.findall(line.partition(" in ms:")[2])]


def show_stages(rows: Sequence[Sequence[tuple[str, float, float]]]) -> None:
    """Print the medians of several starts."""
    stages: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for stage, at, took in row:
            stages.setdefault(stage, []).append((at, took))
    for stage, times in stages.items():
        at, took = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"  {stage:24} at {at:8.2f}   took {took:8.2f}")
