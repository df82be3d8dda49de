"""How long `mesos-gpu replay` takes for a history of jobs in the form of tables made of Philly's log.

    ./run bench replay [--jobs 80000] [--load 0.8] [--machines 60] [--policies first_fit,fgd,capacity] [--twice]

The history is made by chance, not Philly's own: jobs of 1 to 32 GPUs (16 and 32 on two and four machines at once, so
that they are gangs), with durations spread as a log-normal distribution (median 20 min, at most a day), that come as a
Poisson process and ask for `load` times all GPUs; columns submitted_time, start_time, end_time, num_gpus and num_nodes.
Each policy is lived through by the command itself, one after another: the clock, the processor's time, and the hash of
what it prints; with `--twice` each two times, and the bytes must be the same.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

SIZES = (1, 1, 0.70), (2, 1, 0.08), (4, 1, 0.09), (8, 1, 0.10), (16, 2, 0.02), (32, 4, 0.01)
"""GPUs, machines, and how many of all jobs are so."""
MEDIAN_S, SPREAD, LEAST_S, MOST_S = 1200, 1.3, 10, 86400
FIRST = datetime(2017, 10, 3)
EACH = "x8:96:512000"
"""GPUs, CPUs and MiB of each machine."""
MOST_QUEUED_S = 600
"""Up to so long after it came a job is said to have started; the replay looks at how long it ran alone."""


def write_history(path: Path, jobs: int, gpus: int, load: float, seed: int) -> None:
    """Write a history that asks for `load` times so many GPUs; the same seed writes the same bytes."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(jobs):
        asked, nodes, _often = chance.choices(SIZES, [often for _, _, often in SIZES])[0]
        lasts_s = min(max(int(chance.lognormvariate(math.log(MEDIAN_S), SPREAD)), LEAST_S), MOST_S)
        drawn.append((asked, nodes, lasts_s))
    gap_s = sum(asked * lasts_s for asked, _, lasts_s in drawn) / jobs / (load * gpus)
    at_s = 0.0
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("jobid", "submitted_time", "start_time", "end_time", "num_gpus", "num_nodes"))
        for number, (asked, nodes, lasts_s) in enumerate(drawn):
            came = FIRST + timedelta(seconds=int(at_s))
            began = came + timedelta(seconds=chance.randrange(MOST_QUEUED_S))
            ended = began + timedelta(seconds=lasts_s)
            table.writerow((f"application_{number:06d}", came, began, ended, asked, nodes))
            at_s += chance.expovariate(1 / gap_s)


def replayed(history: Path, machines: int, policy: str) -> tuple[str, float, float]:
    """Return the hash of what the command prints, and how long it took by the clock and of a processor, in seconds."""
    words = ["replay", str(history), "--machines", f"{machines}{EACH}", "--policy", policy, "-o", "json"]
    began_s, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = subprocess.run([sys.executable, "-m", "marathon_cli", *words], stdout=subprocess.PIPE, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return hashlib.sha256(printed).hexdigest()[:16], time.monotonic() - began_s, cpu_s


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./run bench replay", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=80_000, help="how many come (80000)")
    parser.add_argument("--load", type=float, default=0.8, help="so many times all GPUs are asked for (0.8)")
    parser.add_argument("--seed", type=int, default=0, help="of the history (0)")
    parser.add_argument("--machines", type=int, default=60, help="with 8 GPUs each (60)")
    parser.add_argument(
        "--policies", default="first_fit,fgd,capacity", help="one after another (first_fit,fgd,capacity)"
    )
    parser.add_argument("--twice", action="store_true", help="run each a second time, and compare the bytes")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "philly-like.csv"
        write_history(history, options.jobs, 8 * options.machines, options.load, options.seed)
        print(f"{options.jobs} jobs, history {hashlib.sha256(history.read_bytes()).hexdigest()[:16]}", flush=True)
        for policy in options.policies.split(","):
            runs = [replayed(history, options.machines, policy) for _ in range(2 if options.twice else 1)]
            for digest, clock_s, cpu_s in runs:
                each_ms = 1000 * cpu_s / options.jobs
                print(
                    f"{policy}: {clock_s:.1f} s, {cpu_s:.1f} s of a processor ({each_ms:.2f} ms a job), {digest}",
                    flush=True,
                )
            if len({digest for digest, _, _ in runs}) > 1:
                sys.exit(f"{policy}: the same history gave other bytes")


if __name__ == "__main__":
    main()
