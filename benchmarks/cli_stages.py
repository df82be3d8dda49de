"""Where the milliseconds of `mesos-gpu run -- true` go: the marks that it makes."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence

from marathon_cli.oneoff import oneoff

ENDED = "ended"


def show(command: Sequence[str], env: Mapping[str, str], rounds: int) -> None:
    """Print the medians of each stage's end, and of what it took."""
    runs = [_run(command, env) for _ in range(rounds)]
    print(f"mesos-gpu run -- true: medians of {rounds}, ms")
    stages = dict.fromkeys(stage for marks in runs for stage, _ in sorted(marks, key=lambda mark: mark[1]))
    took: dict[str, list[float]] = {stage: [] for stage in stages}
    ends: dict[str, list[float]] = {stage: [] for stage in stages}
    for marks in runs:
        last = 0.0
        for stage, at_ms in sorted(marks, key=lambda mark: mark[1]):
            took[stage].append(at_ms - last)
            ends[stage].append(at_ms)
            last = at_ms
    for stage in sorted(stages, key=lambda stage: statistics.median(ends[stage])):
        end, of = statistics.median(ends[stage]), statistics.median(took[stage])
        print(f"  {stage:28} {end:7.1f}  (+{of:.1f})")


def _run(command: Sequence[str], env: Mapping[str, str]) -> Sequence[oneoff.Mark]:
    began_s = time.time()
    with_trace = {**env, oneoff.VARIABLE: str(began_s)}
    done = subprocess.run(command, env=with_trace, capture_output=True, text=True, check=True)
    return [*oneoff.read(done.stderr), (ENDED, 1000 * (time.time() - began_s))]
