"""Where the processor time of a history goes: looked at every few milliseconds of it (`./run sim --parts`)."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EVERY_S = 0.002
PARTS = (
    ("/mesos_gpu/master/decisions/invariants.py", "--check_invariants"),
    ("/mesos_gpu/master/api/", "HTTP and libprocess"),
    ("/mesos_gpu/master/", "masters' decisions and books"),
    ("/mesos_gpu/marathon/store/", "Marathons' store"),
    ("/mesos_gpu/marathon/api/", "HTTP and libprocess"),
    ("/mesos_gpu/marathon/", "Marathons' decisions and books"),
    ("/mesos_gpu/queueing/", "Marathons' decisions and books"),
    ("/mesos_gpu/placement/", "Marathons' decisions and books"),
    ("/mesos_gpu/agent/disk/", "agents' disks"),
    ("/tests/sim/disk.py", "agents' disks"),
    ("/mesos_gpu/agent/", "agents, executors and isolators"),
    ("/mesos_gpu/executor/", "agents, executors and isolators"),
    ("/mesos_gpu/isolator/", "agents, executors and isolators"),
    ("/mesos_gpu/container", "agents, executors and isolators"),
    ("/mesos_gpu/process/", "HTTP and libprocess"),
    ("/mesos_gpu/mesos/libprocess.py", "HTTP and libprocess"),
    ("/aiohttp/", "HTTP and libprocess"),
    ("/mesos_gpu/mesos/messages.py", "messages to bytes and back"),
    ("/mesos_gpu/mesos/codec/", "messages to bytes and back"),
    ("/tests/sim/loop.py", "the loop and its timers"),
    ("/asyncio/", "the loop and its timers"),
    ("/tests/sim/network.py", "the network"),
    ("/tests/sim/", "people, judge, containers and the rest of the world"),
)
"""By the innermost file of one of these that a sample is in; what all use, such as resources, is its caller's."""


def part_of(files: Iterator[str]) -> str:
    """Return the part that a sample belongs to, by the files of its frames, the innermost first."""
    for file in files:
        for words, part in PARTS:
            if words in file:
                return part
    return "other"


def _files(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


@contextmanager
def sampled(counts: Counter[str]) -> Iterator[None]:
    """Count the samples of each part meanwhile. The history does not notice it."""

    def look(number: int, frame: FrameType | None) -> None:
        counts[part_of(_files(frame))] += 1

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def table(counts: Counter[str]) -> str:
    """Return the share of each part, the largest first."""
    whole = sum(counts.values()) or 1
    return "\n".join(f"  {100 * count / whole:5.1f} %  {part}" for part, count in counts.most_common())
