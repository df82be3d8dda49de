"""How many GPUs placement fills, by policy, on published pod lists.

    ./run bench placement --trace FOLDER [--lists default,cpu050] [--seeds 10] [--policies fgd,capacity]
    ./run bench placement --trace FOLDER --through-offers [--every 8]
                                         the same through the deciding cores of master and Marathon

FOLDER (or MESOS_GPU_TRACES) holds openb_node_list_gpu_node.csv and openb_pod_list_*.csv, gzipped or not, of
cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata). The protocol and the published figures are those of "Beware of
Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (Weng et al., USENIX ATC 2023): the
pods of a list and random ones of them again until 1.3 times the GPUs are asked for, in random order; placed one after
another, none leaves, one that fits nowhere is skipped. The figure is the part of all GPUs, in %, that is given out when
pods asking for all of them have come. Beside it: the spread over the seeds, and what one decision takes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.placement.fleet import Fleet
from mesos_gpu.placement.policies import BEST, POLICIES
from mesos_gpu.replay.cluster import ReplayedCluster

PUBLISHED = {
    "default": 95.23,
    "cpu050": 95.00,
    "cpu200": 94.82,
    "gpushare40": 93.96,
    "gpushare100": 86.64,
    "multigpu20": 95.53,
    "multigpu50": 97.09,
    "gpuspec10": 94.66,
    "gpuspec33": 87.84,
}
"""FGD's, of the trace's own simulator."""
POLICIES_SHOWN = ("first_fit", "best_fit", "fgd", BEST)
ASKED_FOR = 1.3


@dataclass(frozen=True)
class Outcome:
    filled: float
    decisions_us: tuple[float, ...]


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from csv.DictReader(lines)


def table(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.exists():
            return path
    raise SystemExit(f"bench placement: looked for {name}.csv or {name}.csv.gz in {folder}; it is in neither")


def machines_of(folder: Path) -> dict[str, Machine]:
    return {
        row["sn"]: Machine(int(row["cpu_milli"]), int(row["memory_mib"]), (WHOLE,) * int(row["gpu"]), row["model"])
        for row in rows_of(table(folder, "openb_node_list_gpu_node"))
    }


def pods_of(folder: Path, name: str) -> list[Demand]:
    pods = []
    for row in rows_of(table(folder, f"openb_pod_list_{name}")):
        gpus, milli = int(row["num_gpu"] or 0), int(row["gpu_milli"] or 0)
        share = milli if gpus == 1 and milli < WHOLE else 0
        models = frozenset((row.get("gpu_spec") or "").split("|")) - {""}
        pods.append(Demand(int(row["cpu_milli"]), int(row["memory_mib"]), 0 if share else gpus, share, models))
    return pods


def arrivals(pods: Sequence[Demand], total_milli: int, seed: int) -> list[Demand]:
    chance = random.Random(seed)
    coming = list(pods)
    asked = sum(pod.gpu_milli for pod in coming)
    while asked < ASKED_FOR * total_milli:
        coming.append(chance.choice(pods))
        asked += coming[-1].gpu_milli
    chance.shuffle(coming)
    return coming


def fill(folder: Path, name: str, policy: str, seed: int) -> Outcome:
    machines = machines_of(folder)
    total = sum(machine.free_milli for machine in machines.values())
    fleet = Fleet(machines, POLICIES[policy])
    asked = given = 0
    took: list[float] = []
    for pod in arrivals(pods_of(folder, name), total, seed):
        asked += pod.gpu_milli
        if asked > total:
            break
        began = time.thread_time()
        place = fleet.place(pod)
        took.append((time.thread_time() - began) * 1e6)
        given += pod.gpu_milli if place is not None else 0
    return Outcome(100 * given / total, tuple(took))


def fill_through_offers(folder: Path, name: str, policy: str, seed: int, every: int) -> Outcome:
    """Do the same by real deciding cores of master and Marathon: whole GPUs, on each `every`th machine of the trace."""
    machines = dict(list(machines_of(folder).items())[::every])
    total = sum(machine.free_milli for machine in machines.values())
    cluster = ReplayedCluster(machines, policy, offer_window_s=0.0)
    pods = [pod for pod in pods_of(folder, name) if not pod.share_milli]
    chance = random.Random(seed)
    asked = given = 0
    took: list[float] = []
    for number in range(1_000_000):
        pod = chance.choice(pods)
        asked += pod.gpu_milli
        if asked > total:
            break
        began = time.thread_time()
        cluster.start(str(number), pod, float("inf"))
        cluster.until(cluster.now_s + 2.0)
        took.append((time.thread_time() - began) * 1e6)
        if cluster.waiting:
            cluster.give_up(str(number), pod)
        else:
            given += pod.gpu_milli
    return Outcome(100 * given / total, tuple(took))


def show_through_offers(folder: Path, names: Sequence[str], policies: Sequence[str], seeds: int, every: int) -> None:
    print(f"\nThrough offers, by the cores of master and Marathon: whole GPUs, each {every}th machine; ms for one pod")
    print(f"{'list':<12}" + "".join(f"{policy:>16}" for policy in policies) + "  pod p50")
    with ProcessPoolExecutor() as pool:
        for name in names:
            line, took = f"{name:<12}", [0.0]
            for policy in policies:
                rest = repeat(folder), repeat(name), repeat(policy), range(seeds), repeat(every)
                outcomes = list(pool.map(fill_through_offers, *rest))
                filled = [outcome.filled for outcome in outcomes]
                spread = statistics.stdev(filled) if len(filled) > 1 else 0.0
                line += f"{statistics.mean(filled):>9.2f} ± {spread:<4.2f}"
                took = [us for outcome in outcomes for us in outcome.decisions_us]
            print(line + f"  {statistics.median(took) / 1000:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench placement", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trace", type=Path, default=os.environ.get("MESOS_GPU_TRACES"), metavar="FOLDER")
    parser.add_argument("--lists", help="names, with commas between; default: every published one that is there")
    parser.add_argument("--policies", default=",".join(POLICIES_SHOWN))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--through-offers", action="store_true", help="print the second table, and only that")
    parser.add_argument("--every", type=int, default=8, help="of the machines, for the second table; default: 8")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    if given.trace is None:
        parser.error("say where the trace is: --trace FOLDER, or MESOS_GPU_TRACES in the environment")
    folder = Path(given.trace)
    found = sorted(path.name.split(".")[0].removeprefix("openb_pod_list_") for path in folder.glob("openb_pod_list_*"))
    names = (
        given.lists.split(",")
        if given.lists
        else [n for n in PUBLISHED if n in found] + [n for n in found if n not in PUBLISHED]
    )
    policies = given.policies.split(",")
    unknown = [policy for policy in policies if policy not in POLICIES]
    if unknown:
        parser.error(f"no policy {', '.join(unknown)}; there are {', '.join(POLICIES)}")
    if given.through_offers:
        show_through_offers(folder, names, policies, given.seeds, given.every)
        return
    print(
        f"GPUs given out, % of all: mean of seeds 0 to {given.seeds - 1} ± standard deviation; decision: p50, p99 in µs"
    )
    print(f"{'list':<12}{'published FGD':>14}" + "".join(f"{p:>16}" for p in policies) + f"{'gain':>8}  decision")
    gains = []
    with ProcessPoolExecutor(given.processes) as pool:
        for name in names:
            cells, last = [], None
            for policy in policies:
                outcomes = list(pool.map(fill, repeat(folder), repeat(name), repeat(policy), range(given.seeds)))
                filled = [outcome.filled for outcome in outcomes]
                spread = statistics.stdev(filled) if len(filled) > 1 else 0.0
                cells.append(f"{statistics.mean(filled):>9.2f} ± {spread:<4.2f}")
                last = outcomes
                mean = statistics.mean(filled)
            assert last is not None
            took = sorted(us for outcome in last for us in outcome.decisions_us)
            gain = mean - PUBLISHED[name] if name in PUBLISHED else None
            gains += [] if gain is None else [gain]
            print(
                f"{name:<12}{PUBLISHED.get(name, '-'):>14}"
                + "".join(cells)
                + (f"{gain:>+8.2f}" if gain is not None else f"{'-':>8}")
                + f"  {took[len(took) // 2]:.0f}, {took[len(took) * 99 // 100]:.0f}",
                flush=True,
            )
    if gains:
        print(f"gain of {policies[-1]} over published FGD: mean {statistics.mean(gains):+.2f}, least {min(gains):+.2f}")
        sys.exit(min(gains) <= 0 and policies[-1] == BEST)


if __name__ == "__main__":
    main()
