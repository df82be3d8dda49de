"""How many tasks with several GPUs get ones that share NVLink, and what that costs of the GPUs that are given out.

    ./run bench links [--seeds 20] [--machines 60] [--weights 0,0.1,0.5]

Random clusters of machines as they are sold (cards bridged in pairs, DGX-1, NVSwitch, PCIe alone), and tasks of 1, 2, 4
and 8 GPUs with CPUs and memory. Two histories of each: tasks come until as many GPUs are asked for as there are, and
none leaves; then tasks go and come, so that as many GPUs are asked for as there are. Each is lived through with the
term of the policy for links and without it, by the same seeds: `filled` are the GPUs given out, in % of all, in the
second history on average, `at first` those at the end of the first; `linked` the tasks with several GPUs all of which
share NVLink, of those that were placed.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.kept import figure
from mesos_gpu.placement.demand import WHOLE, Demand, Machine, Place
from mesos_gpu.placement.fleet import Fleet
from mesos_gpu.placement.policies import BEST, POLICIES, Policy

PAIRS = tuple(frozenset((first, first + 1)) for first in range(0, 8, 2))
QUADS = (frozenset(range(4)), frozenset(range(4, 8)), *(frozenset((first, first + 4)) for first in range(4)))
KINDS = (
    ("PCIe, 8 cards", 8, ()),
    ("PCIe, 4 cards", 4, ()),
    ("4 cards in pairs", 4, PAIRS[:2]),
    ("8 cards in pairs", 8, PAIRS),
    ("DGX-1", 8, QUADS),
    ("NVSwitch", 8, (frozenset(range(8)),)),
)
"""Machines: what they are, how many GPUs they have, and which of these share NVLink."""
SIZES = 1, 2, 4, 8
MIXES = (50, 25, 15, 10), (20, 25, 30, 25), (60, 5, 5, 30), (10, 60, 10, 20)
"""How often tasks of each size come; a cluster has one of these, by its seed."""
TURNS = 3
"""So many times as many tasks come in the second history as in the first."""


@dataclass(frozen=True)
class Outcome:
    filled: float
    filled_at_first: float
    linked: float


def cluster(chance: random.Random, count: int) -> dict[str, Machine]:
    found = {}
    for number in range(count):
        name, gpus, linked = chance.choice(KINDS)
        cpus = gpus * chance.choice((8, 12, 16)) * 1000
        found[f"{number} {name}"] = Machine(cpus, gpus * chance.choice((60, 120)) * 1024, (WHOLE,) * gpus, "", linked)
    return found


def task(chance: random.Random, often: Sequence[int]) -> Demand:
    gpus = chance.choices(SIZES, often)[0]
    return Demand(gpus * chance.choice((2, 4, 8, 12)) * 1000, gpus * chance.choice((8, 32, 64)) * 1024, gpus)


def lived(seed: int, machines: int, policy: Policy) -> Outcome:
    """Return how both histories of one cluster went."""
    chance, often = random.Random(seed), MIXES[seed % len(MIXES)]
    known = cluster(chance, machines)
    total = sum(len(machine.cards) for machine in known.values())
    fleet = Fleet(known, policy)
    running: list[tuple[Demand, Place]] = []
    several = linked = 0

    def place(demand: Demand) -> bool:
        nonlocal several, linked
        found = fleet.place(demand)
        if found is None:
            return False
        running.append((demand, found))
        if demand.gpus > 1:
            several += 1
            linked += any(some.issuperset(found.cards) for some in known[found.machine].linked)
        return True

    def held() -> int:
        return sum(demand.gpus for demand, _ in running)

    asked = tasks = 0
    while asked < total:
        coming = task(chance, often)
        asked += coming.gpus
        tasks += 1
        place(coming)
    at_first = held()
    seen = []
    arrivals, departures = random.Random(f"{seed} in"), random.Random(f"{seed} out")
    for _ in range(TURNS * tasks):
        coming = task(arrivals, often)
        while running and held() + coming.gpus > total:
            demand, went = running.pop(departures.randrange(len(running)))
            fleet.change(went.machine, fleet.machine(went.machine).with_back(demand, went.cards))
        place(coming)
        seen.append(held())
    return Outcome(100 * statistics.fmean(seen) / total, 100 * at_first / total, 100 * linked / max(1, several))


def compare(seeds: int, machines: int, weights: Sequence[float]) -> dict[float, list[Outcome]]:
    """Return the outcomes by the weight of the policy's term for links, in the order of the seeds."""
    return {
        weight: [lived(seed, machines, replace(POLICIES[BEST], links=weight)) for seed in range(seeds)]
        for weight in weights
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./run bench links", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--machines", type=int, default=60)
    parser.add_argument("--weights", default=f"0,{POLICIES[BEST].links}", help="of the term; 0 is without it")
    options = parser.parse_args(arguments)
    found = compare(options.seeds, options.machines, [float(weight) for weight in options.weights.split(",")])
    print(f"{BEST}: {options.machines} machines, seeds 0 to {options.seeds - 1}; % of GPUs, % of tasks with several")
    print(f"{'weight':>8}{'filled':>10}{'at first':>12}{'linked':>10}{'least':>8}")
    for weight, outcomes in found.items():
        filled = statistics.fmean(outcome.filled for outcome in outcomes)
        at_first = statistics.fmean(outcome.filled_at_first for outcome in outcomes)
        linked = [outcome.linked for outcome in outcomes]
        figure(
            f"{weight:g}, linked",
            f"weight {weight:g}: tasks with linked GPUs",
            statistics.fmean(linked),
            "%",
            better="more",
        )
        figure(f"{weight:g}, filled", f"weight {weight:g}: GPUs given out", filled, "%", better="more")
        print(f"{weight:>8g}{filled:>10.2f}{at_first:>12.2f}{statistics.fmean(linked):>10.1f}{min(linked):>8.1f}")


if __name__ == "__main__":
    main()
