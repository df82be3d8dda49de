"""How many GPUs placement fills, by policy, on published pod lists.

    ./run bench placement --trace FOLDER [--lists default,cpu050] [--seeds 10 --first-seed 0] [--policies fgd,capacity]
    ./run bench placement --trace FOLDER --through-offers [--every 4] [--card-gib 100] [--together 64]
                                         the same through the deciding cores of master and Marathon

FOLDER (or MESOS_GPU_TRACES) holds openb_node_list_gpu_node.csv and openb_pod_list_*.csv, gzipped or not, of
cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata). The protocol and the published figures are those of "Beware of
Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (Weng et al., USENIX ATC 2023): the
pods of a list and random ones of them again until 1.3 times the GPUs are asked for, in random order; placed one after
another, none leaves, one that fits nowhere is skipped. The figure is the part of all GPUs, in %, that is given out when
pods asking for all of them have come. Beside it: the spread over the seeds, and what one decision takes.

Through offers every card is shared (--shared_gpus), and every pod asks by gpuShare: so many thousandths of a card are
as many of its GiB, rounded up, and of its slices, rounded down; whole cards are all GiB and slices of as many cards.
With cards of 100 GiB nothing is lost, as the lists ask for hundredths; with cards of 16 GiB a pod of 460 thousandths
takes 500. Pods come --together: asked for one after another, then all machines are offered once for all of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from benchmarks.kept.figures import figure
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
NO_OFFERS = "no offers between"
"""The same by the last policy alone, beside what comes of it through offers."""
ASKED_FOR = 1.3
SEEDS = 10


@dataclass(frozen=True)
class Outcome:
    """What was filled of all GPUs, in %, and what each decision took; through offers, each pod."""

    filled: float
    decisions_us: tuple[float, ...]


@dataclass(frozen=True)
class Way:
    """How pods come to machines: each `every`th of the trace. `card_gib`: through offers, of cards of so much memory;
    0: without.
    """

    folder: Path
    every: int = 1
    card_gib: int = 0
    together: int = 1
    first: int = 0
    """The first seed."""

    def words(self, seeds: int) -> str:
        """Return which so many seeds are."""
        return f"seed {self.first}" if seeds == 1 else f"seeds {self.first} to {self.first + seeds - 1}"


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from csv.DictReader(lines)


def table(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.exists():
            return path
    raise SystemExit(f"bench placement: looked for {name}.csv or {name}.csv.gz in {folder}; it is in neither")


def machines_of(folder: Path, every: int = 1) -> dict[str, Machine]:
    machines = {
        row["sn"]: Machine(int(row["cpu_milli"]), int(row["memory_mib"]), (WHOLE,) * int(row["gpu"]), row["model"])
        for row in rows_of(table(folder, "openb_node_list_gpu_node"))
    }
    return dict(list(machines.items())[::every])


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


def until_all_is_asked_for(pods: Iterable[Demand], total_milli: int) -> Iterator[Demand]:
    asked = 0
    for pod in pods:
        asked += pod.gpu_milli
        if asked > total_milli:
            return
        yield pod


def fill(way: Way, name: str, policy: str, seed: int) -> Outcome:
    machines = machines_of(way.folder, way.every)
    total = sum(machine.free_milli for machine in machines.values())
    coming = until_all_is_asked_for(arrivals(pods_of(way.folder, name), total, seed), total)
    given, took = (through_offers if way.card_gib else by_the_policy)(machines, coming, policy, way)
    return Outcome(100 * given / total, tuple(took))


def by_the_policy(
    machines: dict[str, Machine], coming: Iterator[Demand], policy: str, way: Way
) -> tuple[int, list[float]]:
    fleet, given, took = Fleet(machines, POLICIES[policy]), 0, []
    for pod in coming:
        began = time.thread_time()
        place = fleet.place(pod)
        took.append((time.thread_time() - began) * 1e6)
        given += pod.gpu_milli if place is not None else 0
    return given, took


def through_offers(
    machines: dict[str, Machine], coming: Iterator[Demand], policy: str, way: Way
) -> tuple[int, list[float]]:
    """Do the same by the deciding cores of master and Marathon, and agents that refuse what theirs would."""
    cluster = ReplayedCluster(machines, policy, offer_window_s=0.0, card_gib=way.card_gib)
    given, took, came = 0, list[float](), 0
    while pods := list(islice(coming, way.together)):
        began = time.thread_time()
        named = [(str(came + at), pod) for at, pod in enumerate(pods)]
        cluster.start_together(named)
        cluster.until(cluster.now_s + 2.0)
        run = {running.run_id for running in cluster.running.values()}
        for run_id, pod in named:
            if run_id in run:
                given += pod.gpu_milli
            else:
                cluster.give_up(run_id, pod)
        came += len(pods)
        took += [(time.thread_time() - began) / len(pods) * 1e6] * len(pods)
    return given, took


@dataclass(frozen=True)
class Mean:
    """Of several seeds."""

    filled: tuple[float, ...]
    decisions_us: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.mean(self.filled)

    @property
    def spread(self) -> float:
        return statistics.stdev(self.filled) if len(self.filled) > 1 else 0.0

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + (f" ± {self.spread:.2f}" if len(self.filled) > 1 else "")


def mean_of(outcomes: Sequence[Outcome]) -> Mean:
    took = sorted(us for outcome in outcomes for us in outcome.decisions_us)
    return Mean(tuple(outcome.filled for outcome in outcomes), tuple(took))


def show(way: Way, names: Sequence[str], policies: Sequence[str], seeds: int, processes: int | None) -> list[float]:
    """Print the table and keep its figures; return what each list gains by the last policy over published FGD.

    Seed by seed, so that what is ended before it is done has all lists, of fewer seeds.
    """
    columns = {policy: (way, policy) for policy in policies}
    if way.card_gib:
        columns[NO_OFFERS] = (replace(way, card_gib=0), policies[-1])
    found = {name: {column: list[Outcome]() for column in columns} for name in names}
    with ProcessPoolExecutor(processes, initializer=_ends_at_once) as pool:
        coming = [
            (name, column, pool.submit(fill, of, name, policy, seed))
            for seed in range(way.first, way.first + seeds)
            for name in names
            for column, (of, policy) in columns.items()
        ]
        try:
            for name, column, future in coming:
                found[name][column].append(future.result())
                there = found[name][column]
                print(f"seed {way.first + len(there) - 1}: {name} {column} {there[-1].filled:.2f}", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
            gains = show_table(way, found, policies[-1])
    return gains


def _ends_at_once() -> None:
    """Have a process of the pool die of what its parent is told by: else it would begin another seed first."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def show_table(way: Way, found: Mapping[str, Mapping[str, Sequence[Outcome]]], policy: str) -> list[float]:
    """Print the lists of which all columns have come, and keep their figures; return their gains."""
    gains, slowest = [], 0.0
    columns = list(next(iter(found.values())))
    print(f"{'list':<12}{'published FGD':>14}" + "".join(f"{each:>18}" for each in columns) + f"{'gain':>8}")
    for name, outcomes in found.items():
        seeds = min(len(each) for each in outcomes.values())
        if not seeds:
            continue
        means = {column: mean_of(each[:seeds]) for column, each in outcomes.items()}
        last, published = means[policy], PUBLISHED.get(name)
        gain = None if published is None else last.mean - published
        gains += [] if gain is None else [gain]
        took = last.decisions_us
        slowest = max(slowest, took[len(took) * 99 // 100])
        print(
            f"{name:<12}{published or '-':>14}"
            + "".join(f"{each!s:>18}" for each in means.values())
            + (f"{gain:>+8.2f}" if gain is not None else f"{'-':>8}")
            + f"  {took[len(took) // 2]:.0f}, {took[len(took) * 99 // 100]:.0f} µs",
            flush=True,
        )
        keep(way, name, policy, means, seeds)
    keep_all(way, policy, gains, slowest)
    return gains


def keep(way: Way, name: str, policy: str, found: Mapping[str, Mean], seeds: int) -> None:
    last, published = found[policy], PUBLISHED.get(name)
    others = ", ".join(f"{other} {each}" for other, each in found.items() if other != policy)
    figure(
        name,
        f"{name}: GPUs given out by {policy}" + (" through offers" if way.card_gib else ""),
        last.mean,
        "%",
        beside=None if published is None else ("published FGD", published),
        better="more",
        aim=None if published is None or way.every > 1 else 1.0,
        note=f"{last}, {way.words(seeds)}; {others}",
    )


def keep_all(way: Way, policy: str, gains: Sequence[float], slowest_us: float) -> None:
    """Keep what is asked of all lists together."""
    if len(gains) == len(PUBLISHED) and way.every == 1:
        least = f"least {min(gains):+.2f}"
        what = f"all lists: mean gain of {policy} over published FGD"
        figure("gain", what, statistics.mean(gains), "points", better="more", aim=0.5, note=least)
    if slowest_us and not way.card_gib:
        what = f"one decision of {policy}, 99th of a hundred, of the list where it is longest"
        figure("decision", what, slowest_us, "µs of processor", aim=1000.0 if way.every == 1 else None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench placement", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trace", type=Path, default=os.environ.get("MESOS_GPU_TRACES"), metavar="FOLDER")
    parser.add_argument("--lists", help="names, with commas between; default: every published one that is there")
    parser.add_argument("--policies", default=",".join(POLICIES_SHOWN))
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many; default: {SEEDS}")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them; default: 0")
    parser.add_argument("--through-offers", action="store_true", help="print the second table, and only that")
    parser.add_argument("--every", type=int, default=1, help="take each Nth machine of the trace; default: all")
    parser.add_argument("--card-gib", type=int, default=100, help="through offers: memory of a card; default: 100")
    parser.add_argument("--together", type=int, default=64, help="through offers: so many pods at a time; default: 64")
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
    card_gib = given.card_gib if given.through_offers else 0
    way = Way(folder, given.every, card_gib, given.together, given.first_seed)
    what = f"pod, {way.together} together, cards of {way.card_gib} GiB" if way.card_gib else "decision"
    print(f"GPUs given out, % of all: mean of {way.words(given.seeds)} ± standard deviation; {what}: p50, p99")
    if way.every > 1:
        print(f"Each {way.every}th machine; the published figures are of all.")
    try:
        gains = show(way, names, policies, given.seeds, given.processes)
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell says it of Ctrl-C; what there was is printed and kept
    if gains:
        print(f"gain of {policies[-1]} over published FGD: mean {statistics.mean(gains):+.2f}, least {min(gains):+.2f}")
        sys.exit(min(gains) <= 0 and policies[-1] == BEST and way.every == 1)


if __name__ == "__main__":
    main()
