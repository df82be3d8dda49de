"""The pool of GPUs: prepare and cleanup per second, and whether other containers make a call dearer.

    .venv/bin/python benchmarks/isolator.py [--rounds 2000]

Nothing is written to disk here: this is the decision alone. Of N GPUs all but two are held, in turns by one other
container and by N - 2 others, so that a busy machine slows both; the last column is the ratio of the medians, and
should be about 1. The baseline is a pool that copies its books for every decision, as a first version of ours did.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from benchmarks.kept import figure
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.pool import GpuPool

SIZES = (8, 64, 1024)
TURNS = 21


class CopyingPool:
    """The baseline: values that are never changed, so each decision makes new ones."""

    def __init__(self, gpus: list[Gpu]) -> None:
        self.free, self.held = frozenset(gpus), dict[str, frozenset[Gpu]]()

    def allocate(self, container: str, count: int) -> None:
        given = frozenset(sorted(self.free)[:count])
        self.free, self.held = self.free - given, {**self.held, container: given}

    def release(self, container: str) -> None:
        rest = {name: gpus for name, gpus in self.held.items() if name != container}
        self.free, self.held = self.free | self.held[container], rest


Pool = GpuPool | CopyingPool


def gpus_of(size: int) -> list[Gpu]:
    return [Gpu(minor=minor, index=minor, uuid=f"GPU-{minor}", name="Some GPU") for minor in range(size)]


def filled(kind: Callable[[list[Gpu]], Pool], size: int, others: int) -> Pool:
    """Return a pool of which other containers, alike in what they hold, hold all but two GPUs."""
    pool = kind(gpus_of(size))
    for number in range(others):
        pool.allocate(f"other-{number}", (size - 2) // others)
    return pool


def calls_us(pool: Pool, rounds: int) -> float:
    """Return microseconds for one prepare and one cleanup."""
    began = time.perf_counter()
    for _ in range(rounds):
        pool.allocate("mine", 1)
        pool.release("mine")
    return (time.perf_counter() - began) / rounds * 1e6


def measure(kind: Callable[[list[Gpu]], Pool], size: int, rounds: int) -> tuple[float, float]:
    """Return the medians beside one other container and beside N - 2 of them."""
    few, many = filled(kind, size, 1), filled(kind, size, size - 2)
    times = [(calls_us(few, rounds), calls_us(many, rounds)) for _ in range(TURNS)]
    return statistics.median(one for one, _ in times), statistics.median(other for _, other in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    rounds = parser.parse_args().rounds
    print(f"{'pool':8} {'GPUs':>5} {'one other':>12} {'N - 2 others':>12} {'that is':>12} {'ratio':>6}")
    for name, kind in (("ours", GpuPool), ("copying", CopyingPool)):
        for size in SIZES:
            few, many = measure(kind, size, rounds)
            if kind is GpuPool:
                what = f"prepare and cleanup, {size} GPUs, beside {size - 2} other containers"
                figure(f"{size} GPUs", what, many, "µs", beside=("the same with one other container", few), aim=1.25)
            print(f"{name:8} {size:5} {few:9.2f} us {many:9.2f} us {1e6 / many:10,.0f}/s {many / few:6.2f}")


if __name__ == "__main__":
    main()
