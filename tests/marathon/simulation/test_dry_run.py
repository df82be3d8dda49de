"""What would happen is what then happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.machines import read_machine
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.simulation.dry_run import DryRun, dry_run
from mesos_gpu.marathon.state.events import Event, KillTasks, Moment, PutApps, RemoveApp, RestartApp
from mesos_gpu.master.views.views import slaves_view
from mesos_gpu.placement.demand import WHOLE, Machine
from mesos_gpu.replay.cluster import BEGIN_S, ReplayedCluster
from tests.support.histories import examples

SEED = "ffffffff-0000-0000-0000-000000000000"


class Cluster(ReplayedCluster):
    """The cores of a master and a Marathon; apps run until they are ended. What is launched and killed is noted."""

    def __init__(self, machines: dict[str, Machine]) -> None:
        self.noted: list[tuple[str, str, str]] = []
        super().__init__(machines, "capacity")

    def do(self, event: Event) -> None:
        self.deployment_id = f"D{next(self._numbers)}"
        event = replace(event, deployment_id=self.deployment_id)  # type: ignore[type-var, call-arg]
        self._tell_marathon(event)
        self._settle()
        self.until(self.now_s + 100)

    def would(self, *events: Event) -> DryRun:
        machines = [read_machine(one) for one in slaves_view(self._master, None)["slaves"]]
        moment = Moment(BEGIN_S + self.now_s, ids_from(SEED))
        return dry_run(self._marathon, events, machines, self._settings, moment)

    def waiting(self) -> Counter[str]:
        return Counter(self._marathon.waiting.values())

    def task_of(self, app_id: str) -> str | None:
        running = [i for i in self._marathon.instances_of(app_id) if i.phase is Phase.RUNNING]
        return running[0].id if running else None

    @property
    def deploying(self) -> bool:
        return self.deployment_id in self._marathon.deployments

    def _run(self, agent_id: Any, task_id: Any, task: Mapping[str, Any]) -> None:
        self._durations[str(task["name"]).split(".", 1)[0]] = float("inf")
        self.noted.append(("start", self._app(task_id), self._machines[agent_id]))
        super()._run(agent_id, task_id, task)

    def _end(self, agent_id: Any, task_id: Any, state: str) -> None:
        self.noted.append(("end", self._app(task_id), self._machines[agent_id]))
        super()._end(agent_id, task_id, state)

    def _app(self, task_id: str) -> str:
        return "/" + task_id.partition(".instance-")[0].replace("_", "/")


def app(app_id: str, **more: Any) -> dict[str, Any]:
    return {"id": app_id, "cmd": "sleep 1000", "cpus": 1, "mem": 128, "portDefinitions": [], **more}


machines = st.lists(
    st.builds(
        Machine, st.integers(1, 8).map(lambda n: n * 1000), st.just(8192), st.integers(0, 4).map(lambda n: (WHOLE,) * n)
    ),
    min_size=1,
    max_size=5,
).map(lambda found: {f"m{at}": one for at, one in enumerate(found)})
strategies = st.sampled_from([(1, 1), (1, 0), (0.5, 0), (0, 0)]).map(
    lambda two: {"minimumHealthCapacity": two[0], "maximumOverCapacity": two[1]}
)
apps = st.builds(
    app,
    st.sampled_from(["/a", "/b", "/c"]),
    cpus=st.integers(1, 6).map(lambda n: n / 2),
    gpus=st.integers(0, 3),
    instances=st.integers(0, 4),
    constraints=st.sampled_from(
        [[], [], [["hostname", "UNIQUE"]], [["hostname", "CLUSTER"]], [["hostname", "MAX_PER", "2"]]]
    ),
    upgradeStrategy=strategies,
)
changes = st.one_of(
    apps.map(lambda one: PutApps([one], "D", force=True, partial=False)),
    st.lists(apps, min_size=2, max_size=3, unique_by=lambda one: one["id"]).map(
        lambda several: PutApps(several, "D", force=True, partial=False)
    ),
    st.sampled_from(["/a", "/b"]).map(lambda app_id: RemoveApp(app_id, "D")),
    st.sampled_from(["/a", "/b"]).map(lambda app_id: RestartApp(app_id, "D", force=True)),
    st.sampled_from(["/a", "/b"]).map(lambda app_id: KillTasks([app_id], "D", force=True)),
)


def in_order(one: dict[str, Any], size: int, priority: int | None, preemptible: bool) -> dict[str, Any]:
    """An app that waits in order: a gang where `size` is more than one."""
    one = {**one, "preemptible": preemptible}
    if priority is not None:
        one["priority"] = priority
    if size > 1:
        one |= {"gang": {"size": size}, "instances": size * (one["instances"] // 2)}
    return one


gangs = st.sampled_from([1, 1, 2, 3])
yielding = st.builds(in_order, apps, gangs, st.none() | st.integers(0, 1), st.sampled_from([True, True, False]))
pressing = st.builds(in_order, apps.filter(lambda one: one["gpus"] > 0), gangs, st.integers(0, 4), st.booleans())
ordered_changes = st.one_of(
    pressing.map(lambda one: PutApps([one], "D", force=True, partial=False)),
    pressing.map(lambda one: PutApps([one], "D", force=True, partial=False)),
    st.sampled_from(["/a", "/b"]).map(lambda app_id: RemoveApp(app_id, "D")),
    st.sampled_from(["/a", "/b"]).map(lambda app_id: RestartApp(app_id, "D", force=True)),
    st.sampled_from(["/a", "/b"]).map(lambda app_id: KillTasks([app_id], "D", force=True)),
)


@settings(max_examples=examples(150))
@given(machines, st.lists(apps, max_size=4), st.lists(changes, min_size=1, max_size=3))
def test_what_would_happen_is_what_then_happens(
    found: dict[str, Machine], before: list[dict[str, Any]], then: list[Event]
) -> None:
    hold(found, before, then)


@settings(max_examples=examples(100))
@given(machines, st.lists(yielding, max_size=4), st.lists(ordered_changes, min_size=1, max_size=3))
def test_it_does_with_gangs_priorities_and_who_gives_way(
    found: dict[str, Machine], before: list[dict[str, Any]], then: list[Event]
) -> None:
    """Those that wait in order and replace others one by one come to the offer that is there first."""
    hold(found, before, then, places=False)


def test_what_gives_way_twice_ends_twice() -> None:
    """It starts again where the gang has not asked for room yet, and is ended there for its next members."""
    sizes = {"m0": (7, 3), "m1": (6, 4), "m2": (6, 3), "m3": (4, 4)}
    found = {name: Machine(cpus * 1000, 8192, (WHOLE,) * gpus) for name, (cpus, gpus) in sizes.items()}
    at_once = {"upgradeStrategy": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}}
    few = {"constraints": [["hostname", "MAX_PER", "2"]]}
    before = [
        app("/b", cpus=0.5, gpus=2, priority=1, preemptible=True, **at_once),
        app("/c", cpus=2.0, instances=2, priority=2, **at_once),
        app("/a", cpus=0.5, gpus=1, instances=4, priority=0, preemptible=True, **few),
        app("/b", cpus=2.5, gpus=1, instances=2, priority=2, preemptible=True, **at_once),
    ]
    strategy = {"upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 0}}
    gangs = app("/b", cpus=2.0, gpus=2, instances=4, priority=1, preemptible=True, gang={"size": 2}, **strategy)
    cluster = hold(found, before, [PutApps([gangs], "D", force=True, partial=False)])
    assert noted(cluster, "end")["/a", "m1"] == 2


def hold(found: dict[str, Machine], before: list[dict[str, Any]], then: list[Event], *, places: bool = True) -> Cluster:
    """Hold what would happen against what then does; with `places`, where instances come that replace others, too.

    Returns the cluster as it is then.
    """
    cluster = Cluster(found)
    for one in before:
        cluster.do(PutApps([one], "D", force=True, partial=False))
    for change in then:
        if isinstance(change, KillTasks):
            task = cluster.task_of(change.task_ids[0])
            change = KillTasks([task] if task else [], "D", force=True)
        elif not isinstance(change, PutApps) and cluster._marathon.app(change.app_id) is None:  # type: ignore[union-attr]
            continue
        told = cluster.would(change)
        cluster.noted.clear()
        cluster.do(change)
        starts = Counter((start.app, start.host) for start in told.starts)
        if places or not any(end.why == "replaced" for end in told.ends):
            assert starts == noted(cluster, "start")
        else:
            assert by_app(starts) == by_app(noted(cluster, "start"))
        assert Counter((end.app, end.host) for end in told.ends) == noted(cluster, "end")
        assert Counter({wait.app: wait.count for wait in told.waits}) == cluster.waiting()
        if not isinstance(change, KillTasks):
            assert told.done == (not cluster.deploying)
    return cluster


def by_app(counted: Counter[tuple[str, str]]) -> Counter[str]:
    return Counter(app_id for app_id, _ in counted.elements())


def noted(cluster: Cluster, kind: str) -> Counter[tuple[str, str]]:
    return Counter((app_id, host) for what, app_id, host in cluster.noted if what == kind)
