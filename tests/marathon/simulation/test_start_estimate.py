"""When what waits is expected to start."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import NotFound
from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.machines import read_machine
from mesos_gpu.marathon.simulation.start_estimate import StartEstimate, estimate_start
from mesos_gpu.marathon.state.events import Moment, RemoveApp
from mesos_gpu.marathon.state.run_times import KEPT_KINDS, KEPT_S, KEPT_TIMES
from mesos_gpu.master.views.views import slaves_view
from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.replay.cluster import BEGIN_S, ReplayedCluster, Running
from tests.support.histories import examples
from tests.support.marathon.builders import SETTINGS, Run, app, status

SEED = "ffffffff-0000-0000-0000-000000000000"
SLACK_S = 2.0
"""Offers are held for a moment, and asked for once in a while."""


class Cluster(ReplayedCluster):
    """Jobs run for as long as it is said; when each run began is noted."""

    def __init__(self, gpus: int) -> None:
        self.began: dict[str, float] = {}
        super().__init__({"m": Machine(64000, 65536, (WHOLE,) * gpus)}, "capacity", self._noted)

    def _noted(self, running: Running, now_s: float) -> None:
        self.began[running.run_id] = running.since_s

    def when(self, gpus: int) -> StartEstimate:
        machines = [read_machine(one) for one in slaves_view(self._master, None)["slaves"]]
        moment = Moment(BEGIN_S + self.now_s, ids_from(SEED))
        return estimate_start(self._marathon, self._jobs[size(gpus), 1, 0], machines, self._settings, moment)


def size(gpus: int) -> Demand:
    return Demand(1000, 1024, gpus)


@settings(max_examples=examples(60))
@given(
    st.integers(2, 6),
    st.dictionaries(st.integers(1, 3), st.integers(50, 1000), min_size=1),
    st.lists(st.integers(1, 3), min_size=1, max_size=8),
    st.integers(0, 40),
)
def test_where_all_runs_take_as_long_as_ever_the_start_is_foreseen(
    gpus: int, takes_s: dict[int, int], sizes: list[int], pause_s: int
) -> None:
    cluster = Cluster(gpus)
    known = [one for one in takes_s if one <= gpus]
    for one in known:  # a run of each that all know of
        cluster.start(f"0{one}", size(one), takes_s[one])
        cluster.until(cluster.now_s + 2000)
    sizes = [one for one in sizes if one in known]
    for number, one in enumerate(sizes):
        cluster.start(f"1{number}", size(one), takes_s[one])
        cluster.until(cluster.now_s + pause_s)
    for one in set(sizes):
        found, now_s = cluster.when(one), cluster.now_s
        waiting = [f"1{n}" for n, other in enumerate(sizes) if other == one and not started(cluster, f"1{n}")]
        assert found.waiting == len(waiting)
        if not waiting:
            continue
        later = Cluster(gpus)
        assert later  # the same history again, and on to its end
        for other in known:
            later.start(f"0{other}", size(other), takes_s[other])
            later.until(later.now_s + 2000)
        for number, other in enumerate(sizes):
            later.start(f"1{number}", size(other), takes_s[other])
            later.until(later.now_s + pause_s)
        later.until(later.now_s + 20000)
        times = sorted(later.began[run] - now_s for run in waiting)
        assert found.first_s == tuple(pytest.approx(times[0], abs=SLACK_S * len(sizes)) for _ in range(3))
        assert found.last_s == tuple(pytest.approx(times[-1], abs=SLACK_S * len(sizes)) for _ in range(3))


def started(cluster: Cluster, run_id: str) -> bool:
    return run_id in cluster.began or any(one.run_id == run_id for one in cluster.running.values())


def test_times_that_differ_make_a_range() -> None:
    cluster = Cluster(1)
    for number in range(10):
        cluster.start(f"0{number}", size(1), 100 * (number + 1))
        cluster.until(cluster.now_s + 1100)
    cluster.start("1", size(1), 500)
    cluster.until(cluster.now_s + 50)
    cluster.start("2", size(1), 500)
    found = cluster.when(1)
    assert (found.waiting, found.seen, found.unknown) == (1, 1, 0)
    early, usual, late = (at or 0 for at in found.first_s)
    assert 100 <= early < 200 < usual < late <= 1000
    assert found.last_s == found.first_s


def test_without_an_end_that_is_known_nothing_is_foreseen() -> None:
    cluster = Cluster(1)
    cluster.start("1", size(1), float("inf"))
    cluster.until(10)
    cluster.start("2", size(1), 5)
    found = cluster.when(1)
    assert (found.waiting, found.first_s, found.unknown) == (1, (None, None, None), 1)
    with pytest.raises(NotFound):
        estimate_start(cluster._marathon, "/none", [], cluster._settings, Moment(0, ids_from(SEED)))


def one_off(name: str, **more: Any) -> dict[str, Any]:
    document = {"cmd": None, "args": ["train", "fast"], "gpus": 1, "labels": {"MESOS_GPU_RUN": "true"}, **more}
    return {key: value for key, value in app(name, **document).items() if value is not None}


def took(run: Run, name: str, seconds: float, **more: Any) -> None:
    """Have a one-off run take so long, and its app removed, as `mesos-gpu run` does."""
    run.put(one_off(name, **more))
    run.offer(gpus=8)
    (task_id,) = run.tasks(name)
    run.do(status(task_id, timestamp=run.now_s))
    run.do(status(task_id, "TASK_FINISHED", timestamp=run.now_s + seconds), after_s=seconds)
    run.do(RemoveApp(name, f"d{run.now_s}", force=True), after_s=1.0)


def test_a_repeated_one_off_run_is_known_by_what_it_runs() -> None:
    run = Run(settings=SETTINGS)
    run.subscribe()
    for number, seconds in enumerate((100.0, 110.0, 120.0)):
        took(run, f"/run-train-{number}", seconds)
    took(run, "/run-other", 5000.0, args=["train", "slow"])
    run.put(one_off("/run-train-9"))
    run.offer(gpus=1)
    (task_id,) = run.tasks("/run-train-9")
    run.do(status(task_id, timestamp=run.now_s))
    run.put(one_off("/run-train-10"))
    total = {"cpus": 4, "mem": 4096, "gpus": 1, "disk": 1000}
    used = {"cpus": 4, "mem": 4096, "gpus": 1}
    slave = {"id": "S0", "hostname": "h0", "pid": "slave(1)@h0:1", "resources": total, "used_resources": used}
    found = estimate_start(run.state, "/run-train-10", [read_machine(slave)], run.settings, run.moment)
    assert (found.waiting, found.seen, found.unknown) == (1, 1, 0)
    assert found.first_s == tuple(pytest.approx(at, abs=3) for at in (100, 110, 120))


def test_what_is_known_of_one_off_runs_is_bounded() -> None:
    run = Run(settings=SETTINGS)
    run.subscribe()
    for number in range(KEPT_TIMES + 5):
        took(run, f"/run-{number}", float(number))
    ((_, known),) = run.state.run_times.items()
    assert known.times_s == tuple(float(at) for at in range(5, KEPT_TIMES + 5))
    for number in range(KEPT_KINDS + 3):
        took(run, f"/run-x{number}", 1.0, args=["x", str(number)])
    assert len(run.state.run_times) == KEPT_KINDS
    took(run, "/run-late", KEPT_S + 1.0, args=["late"])
    assert len(run.state.run_times) == 1
    took(run, "/serves", 7.0, labels={})
    assert len(run.state.run_times) == 1, "apps that are meant to run on teach nothing"
