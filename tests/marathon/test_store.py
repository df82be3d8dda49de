"""The store, on real files."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.actions import Save
from mesos_gpu.marathon.deployment import plan
from mesos_gpu.marathon.groups import Group, Root
from mesos_gpu.marathon.instances import Instance, Phase, Task
from mesos_gpu.marathon.state import Lasting
from mesos_gpu.marathon.store import SCHEMA_VERSION, Store
from tests.marathon.builders import Run, app, only, spec, status


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "marathon.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store(path)
    yield opened
    opened.close()


def reopened(store: Store, path: Path) -> Lasting:
    store.close()
    again = Store(path)
    try:
        return again.load()
    finally:
        again.close()


def test_a_new_store_is_empty(store: Store) -> None:
    assert store.load() == Lasting()


def test_what_was_saved_is_read_back_alike(store: Store, path: Path) -> None:
    task = Task("t", "S0", "h", (1, 2), "v", 1.25, ip_addresses=(("127.0.0.1", "IPv4"),), attributes=(("r", "1"),))
    instance = Instance("i", "/a", "v", "*", 2.5, phase=Phase.RUNNING, incarnation=3, task=task)
    deployment = plan("d", "v", {"/a": None, "/b": spec("/b")}, {"/a": spec(), "/b": None})
    failure = {"appId": "/a", "message": "ende, schön"}
    store.save([Save({"/a": spec()}, {"i": instance}, {"d": deployment}, {"/a": failure}, ("F",))])
    assert reopened(store, path) == Lasting("F", {"/a": (spec(),)}, {"i": instance}, {"d": deployment}, {"/a": failure})


def test_what_was_removed_is_gone(store: Store, path: Path) -> None:
    instance = Instance("i", "/a", "v", "*", 2.5)
    store.save([Save({"/a": spec()}, {"i": instance}, {"d": plan("d", "v", {}, {})}, {"/a": {}}, ("F",))])
    store.save([Save({"/a": None}, {"i": None}, {"d": None}, {"/a": None}, (None,))])
    assert reopened(store, path) == Lasting()


def test_deployments_keep_the_order_in_which_they_began(store: Store, path: Path) -> None:
    for name in ("z", "a", "m"):
        store.save([Save({}, {}, {name: plan(name, "v", {}, {})}, {})])
    store.save([Save({}, {}, {"z": plan("z", "later", {}, {})}, {})])
    assert list(reopened(store, path).deployments) == ["z", "a", "m"]


def test_versions_come_newest_first_and_fifty_are_kept(store: Store, path: Path) -> None:
    for n in range(60):
        store.save([Save({"/a": spec(version=f"2024-01-01T00:00:00.{n:03}Z")}, {}, {}, {})])
    kept = [s.version[-4:-1] for s in reopened(store, path).versions["/a"]]
    assert kept == [f"{n:03}" for n in range(59, 9, -1)]


def test_several_saves_are_written_together_or_not_at_all(store: Store) -> None:
    bad = Save({}, {"i": object()}, {}, {})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        store.save([Save({"/a": spec()}, {}, {}, {}), bad])
    assert store.load() == Lasting()


def test_one_process_has_the_file_at_a_time(store: Store, path: Path) -> None:
    with pytest.raises(Unavailable, match="in use by another mesos-gpu-marathon"):
        Store(path)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable, match=r"cannot use .* as --store_path"):
        Store(tmp_path / "file" / "marathon.db")


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("Dear reader, " * 100)
    with pytest.raises(Unavailable, match=r"cannot use .* not a database"):
        Store(path)
    assert path.read_text().startswith("Dear reader")


def test_a_file_of_the_first_format_is_taken_over(store: Store, path: Path) -> None:
    store.save([Save({"/g/a": spec("/g/a")}, {}, {}, {})])
    store.close()
    db = sqlite3.connect(path)
    db.executescript("DROP TABLE roots; PRAGMA user_version=1")
    db.close()
    again = Store(path)
    assert set(again.load().versions) == {"/g/a"}
    root = Root("2024-01-01T00:00:00.000Z", {"/g": Group("/g", ("/x",), enforce_role=True)})
    again.save([Save({}, {}, {}, {}, root=root)])
    assert reopened(again, path).roots == (root,)


def test_fifty_versions_of_the_tree_are_kept(store: Store, path: Path) -> None:
    roots = [Root(f"2024-01-01T00:00:{n:02}.000Z") for n in range(60)]
    store.save([Save({}, {}, {}, {}, root=root) for root in roots])
    assert reopened(store, path).roots == tuple(reversed(roots[10:]))


def test_a_file_of_a_newer_format_is_left_alone(store: Store, path: Path) -> None:
    store.close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    db.close()
    with pytest.raises(Unavailable, match=f"has format {SCHEMA_VERSION + 1}"):
        Store(path)


def test_a_document_that_cannot_be_read_is_said(store: Store, path: Path) -> None:
    store.close()
    db = sqlite3.connect(path)
    db.execute("INSERT INTO instances VALUES ('i', '{}')")
    db.commit()
    db.close()
    again = Store(path)
    with pytest.raises(Unavailable, match="cannot read"):
        again.load()
    again.close()


def test_a_whole_life_is_read_back_as_it_was_decided(store: Store, path: Path) -> None:
    run = Run()
    actions = run.subscribe()
    actions += run.put(app(instances=2, env={"A": "ü"}))
    actions += run.offer(attributes={"rack": "r1"})
    first, second = run.tasks()
    actions += run.do(status(first))
    actions += run.do(status(second, "TASK_FAILED", message="no"))
    store.save(only(actions, Save))
    assert reopened(store, path) == run.state.lasting


def test_what_was_saved_survives_a_kill(path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from mesos_gpu.marathon.actions import Save
from mesos_gpu.marathon.store import Store
store = Store(Path({str(path)!r}))
for n in range(20):
    store.save([Save({{}}, {{}}, {{}}, {{"/a": {{"n": n}}}})])
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGKILL
    store = Store(path)
    assert store.load().failures == {"/a": {"n": 19}}
    store.close()
