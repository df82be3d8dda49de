"""What was decided in some histories, as a digest: what makes a replay faster must not change who runs where and when.

A change that means to decide otherwise puts the new digests here, and says so.
"""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from mesos_gpu.placement.demand import Demand
from mesos_gpu.replay.cluster import ReplayedCluster, Running
from mesos_gpu.replay.history import alike
from mesos_gpu.replay.jobs import Job

SIZES = ((1, 1), (1, 1), (1, 1), (2, 1), (4, 1), (0, 1), (4, 2), (2, 3))
"""GPUs of each member, and members."""


def history(seed: int, count: int, most_gap_s: int) -> list[Job]:
    chance, at_s, found = Random(seed), 0, list[Job]()
    for number in range(count):
        gpus, nodes = SIZES[chance.randrange(len(SIZES))]
        models = frozenset({"A"}) if gpus and chance.randrange(5) == 0 else frozenset[str]()
        priority = chance.randrange(3) if chance.randrange(6) == 0 else 0
        demand = Demand(1000 * chance.randrange(1, 4), 1024, gpus, models=models)
        found.append(Job(str(number), float(at_s), float(chance.randrange(5, 900)), demand, nodes, priority))
        at_s += chance.randrange(most_gap_s)
    return found


def digest(policy: str, jobs: list[Job], *, all_offers: bool) -> str:
    machines = alike("4x4:32:128000:A") | alike("3x4:16:64000:B")
    said = hashlib.sha256()

    def ran(running: Running, now_s: float) -> None:
        said.update(f"{running.run_id} {running.machine} {running.since_s:.3f} {now_s:.3f}\n".encode())

    cluster = ReplayedCluster(machines, policy, ran, all_offers=all_offers)
    for job in jobs:
        cluster.until(job.arrival_s)
        cluster.start(job.name, job.demand, job.duration_s, nodes=job.nodes, priority=job.priority)
    while cluster.running or cluster.waiting:
        cluster.until(cluster.now_s + 600)
    return said.hexdigest()[:16]


@pytest.mark.parametrize(
    ("policy", "all_offers", "expected"),
    [
        ("capacity", False, "4cd4211f54498993"),
        ("first_fit", False, "3c38a14c657b20ba"),
        ("capacity", True, "9bdd30beee202c63"),
    ],
)
def test_the_same_history_is_decided_as_before(policy: str, all_offers: bool, expected: str) -> None:
    assert digest(policy, history(7, 90, 60), all_offers=all_offers) == expected
