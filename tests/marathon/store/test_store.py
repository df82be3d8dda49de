"""What every store must do, on real files and in a real ZooKeeper."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp, Unavailable
from mesos_gpu.marathon.model.deployment import plan
from mesos_gpu.marathon.model.groups import Group, Root
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.model.jobs import Job
from mesos_gpu.marathon.model.usage import Held, Period, RunTimes, Sum
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.marathon.store.rows import saves_of
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.marathon.store.store import Store
from mesos_gpu.marathon.store.zk_limits import ZkLimits
from mesos_gpu.marathon.store.zookeeper import ZooKeeperStore
from mesos_gpu.mesos.leader import parse_zk_url
from mesos_gpu.process.zookeeper import ZkSession
from mesos_gpu.process.zookeeper_tree import ZkTree
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, app, only, spec, status
from tests.support.zookeeper import RealZooKeeper


@dataclass
class Place:
    """Where a store is; `again` is what a later process opens there."""

    again: Callable[[], Store]
    store: Store

    def reopened(self) -> Lasting:
        self.store.close()
        self.store = self.again()
        return self.store.load()


@pytest.fixture(params=["sqlite", pytest.param("zookeeper", marks=pytest.mark.slow)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    session = None
    if request.param == "sqlite":
        made = Place(lambda: SqliteStore(tmp_path / "m.db"), SqliteStore(tmp_path / "m.db"))
    else:
        server: RealZooKeeper = request.getfixturevalue("zookeeper")
        session, connected = await connected_session(server, uuid.uuid4().hex)

        def again() -> Store:
            return ZooKeeperStore(ZkTree(connected, connected.url.path, patience_s=10))

        made = Place(again, again())
    made.store.load()
    yield made
    made.store.close()
    if session is not None:
        await session.close()


async def connected_session(server: RealZooKeeper, path: str) -> tuple[ZkSession, ZkSession]:
    session = ZkSession(parse_zk_url("zk", server.url(path)), 5.0)
    connected = asyncio.Event()
    session.start(lambda: session.call_in_loop(connected.set), lambda: None)
    await asyncio.wait_for(connected.wait(), 60)
    return session, session


def everything() -> Lasting:
    task = Task("t", "S0", "h", (1, 2), "v", 1.25, ip_addresses=(("127.0.0.1", "IPv4"),), attributes=(("r", "1"),))
    task = replace(task, held=Held(2000, 100, 32_000, 0, "ann"), counted_s=1.5)
    instance = Instance("i", "/a", "v", "*", 2.5, phase=Phase.RUNNING, incarnation=3, task=task)
    deployment = plan("d", "v", {"/a": None, "/b": spec("/b")}, {"/a": spec(), "/b": None})
    root = Root("2024-01-01T00:00:00.000Z", {"/g": Group("/g", ("/x",), enforce_role=True)})
    failure = {"appId": "/a", "message": "ende, schön"}
    lasting = Lasting(
        framework_id="F",
        versions=Table({"/a": (spec(),)}),
        instances=Table({"i": instance}),
        deployments=Table({"d": deployment}),
        failures=Table({"/a": failure}),
        roots=(root,),
    )
    job = Job({"id": "night.train", "run": {"cmd": "true"}})
    had = Sum(tasks=1, wall_ms=5, gpu_ms=2000, most_mem=7)
    return dataclasses.replace(
        lasting,
        jobs={"night.train": job},
        usage=Table({"0+3600000": Period(0, 3_600_000, {"/a\t*\tann": had})}),
        usage_open=Table({"3600000\t/a\t*\tann": had}),
        run_times=Table({"kind": RunTimes((1.5, 2.0), 7.0)}),
        counted_until_s=3600.5,
    )


def test_a_new_store_is_empty(place: Place) -> None:
    assert place.store.load() == Lasting()


def test_what_was_saved_is_read_back_alike(place: Place) -> None:
    place.store.save(saves_of(everything()))
    assert place.reopened() == everything()


def test_what_was_removed_is_gone(place: Place) -> None:
    place.store.save(saves_of(everything()))
    place.store.save([Save({"/a": None}, {"i": None}, {"d": None}, {"/a": None}, (None,), jobs={"night.train": None})])
    forgotten = {key: None for key in everything().usage}, {key: None for key in everything().usage_open}
    place.store.save([Save({}, {}, {}, {}, usage=forgotten[0], usage_open=forgotten[1], run_times={"kind": None})])
    assert place.reopened() == Lasting(roots=everything().roots, counted_until_s=3600.5)
    place.store.save(saves_of(everything()))
    assert place.reopened() == everything()


def test_what_is_removed_and_made_again_in_one_save_is_there(place: Place) -> None:
    first, second = spec(version="2024-01-01T00:00:00.000Z"), spec(version="2024-01-02T00:00:00.000Z")
    place.store.save([Save({"/a": first}, {}, {}, {})])
    place.store.save(
        [Save({"/a": second}, {}, {}, {}), Save({"/a": None}, {}, {}, {}), Save({"/a": first}, {}, {}, {})]
    )
    assert place.reopened().versions == {"/a": (first,)}


def test_deployments_keep_the_order_in_which_they_began(place: Place) -> None:
    for name in ("z", "a", "m"):
        place.store.save([Save({}, {}, {name: plan(name, "v", {}, {})}, {})])
    place.store.save([Save({}, {}, {"z": plan("z", "later", {}, {})}, {})])
    together = {name: plan(name, version, {}, {}) for version, name in enumerate(("y", "b"))}  # type: ignore[arg-type]
    together = {name: dataclasses.replace(each, version=f"v{each.version}") for name, each in together.items()}
    place.store.save([Save({}, {}, together, {})])
    assert list(place.reopened().deployments) == ["z", "a", "m", "y", "b"]


def test_versions_come_newest_first_and_fifty_are_kept(place: Place) -> None:
    for n in range(55):
        place.store.save([Save({"/a": spec(version=f"2024-01-01T00:00:00.{n:03}Z")}, {}, {}, {})])
    kept = [s.version[-4:-1] for s in place.reopened().versions["/a"]]
    assert kept == [f"{n:03}" for n in range(54, 4, -1)]


def test_fifty_versions_of_the_tree_are_kept(place: Place) -> None:
    roots = [Root(f"2024-01-01T00:00:{n:02}.000Z") for n in range(60)]
    place.store.save([Save({}, {}, {}, {}, root=root) for root in roots])
    assert place.reopened().roots == tuple(reversed(roots[10:]))


def test_several_saves_are_written_together_or_not_at_all(place: Place) -> None:
    bad = Save({}, {"i": object()}, {}, {})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        place.store.save([Save({"/a": spec()}, {}, {}, {}), bad])
    assert place.reopened() == Lasting()


def test_more_than_a_request_holds_is_written_together(place: Place) -> None:
    apps = {f"/g/a{n}": spec(f"/g/a{n}", env={"E": "x" * 10_000}) for n in range(200)}
    place.store.save([Save(dict(apps), {}, {}, {})])
    assert place.reopened().versions == {app_id: (each,) for app_id, each in apps.items()}


def test_a_whole_life_is_read_back_as_it_was_decided(place: Place) -> None:
    run = Run()
    actions = run.subscribe()
    actions += run.put(app(instances=2, env={"A": "ü"}))
    actions += run.offer(attributes={"rack": "r1"})
    first, second = run.tasks()
    actions += run.do(status(first))
    actions += run.do(status(second, "TASK_FAILED", message="no"))
    for save in only(actions, Save):
        place.store.save([save])
    assert place.reopened() == run.state.lasting


def test_who_had_it_before_can_write_no_more(place: Place) -> None:
    if isinstance(place.store, SqliteStore):
        with pytest.raises(Unavailable):
            place.again()
        return
    later = place.again()
    later.load()
    with pytest.raises(Unavailable):
        place.store.save([Save({"/a": spec()}, {}, {}, {})])
    assert later.load() == Lasting()


def test_a_document_that_fits_no_node_is_refused(golden: Golden) -> None:
    limits = ZkLimits(compression_threshold=100, max_node_size=2_000)
    store = ZooKeeperStore(None, limits)  # type: ignore[arg-type]
    store.refuse(Save({"/a": spec(env={"E": "x" * 100_000})}, {}, {}, {}))
    random = Random(1)
    with pytest.raises(InvalidApp) as refused:
        store.refuse(Save({"/a": spec(env={"E": random.randbytes(4_000).hex()})}, {}, {}, {}))
    assert str(refused.value) == golden
