"""Where the time of a history goes is told by the file that it is spent in, or by who called that."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.sim.parts import part_of, sampled, table


@pytest.mark.parametrize(
    ("files", "part"),
    [
        (
            ["/x/mesos_gpu/mesos/resources.py", "/x/mesos_gpu/master/allocation/sorter.py"],
            "masters' decisions and books",
        ),
        (["/x/mesos_gpu/master/decisions/invariants.py", "/x/mesos_gpu/master/engine/engine.py"], "--check_invariants"),
        (["/lib/json/encoder.py", "/x/mesos_gpu/process/http.py", "/x/tests/sim/loop.py"], "HTTP and libprocess"),
        (["/x/mesos_gpu/container_of.py"], "agents, executors and isolators"),
        (["/lib/heapq.py", "/x/tests/sim/loop.py"], "the loop and its timers"),
        (["/elsewhere"], "other"),
    ],
)
def test_a_sample_is_of_the_innermost_part(files: list[str], part: str) -> None:
    assert part_of(iter(files)) == part


def test_what_works_is_looked_at() -> None:
    counts: Counter[str] = Counter()
    with sampled(counts):
        until_s = time.process_time() + 0.05
        while time.process_time() < until_s:
            pass
    assert counts
    seen = sum(counts.values())
    assert "100.0 %" in table(Counter({"other": seen}))
