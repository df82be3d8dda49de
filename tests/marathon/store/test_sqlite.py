"""The store on one machine, on real files; what every store must do is in test_store.py."""

from __future__ import annotations

import errno
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.json import encode

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.model.deployment import plan
from mesos_gpu.marathon.model.groups import Group, Root
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.marathon.store.sqlite import FORMAT, SqliteStore
from tests.support.golden import Golden
from tests.support.marathon.builders import spec


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "marathon.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def reopened(store: SqliteStore, path: Path) -> Lasting:
    store.close()
    again = SqliteStore(path)
    try:
        return again.load()
    finally:
        again.close()


def test_one_process_has_the_file_at_a_time(store: SqliteStore, path: Path, golden: Golden) -> None:
    with pytest.raises(Unavailable) as refused:
        SqliteStore(path)
    assert str(refused.value) == golden


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable) as refused:
        SqliteStore(tmp_path / "file" / "marathon.db")
    assert str(refused.value) == golden


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "letter"
    path.write_text("Dear reader, " * 100)
    with pytest.raises(Unavailable) as refused:
        SqliteStore(path)
    assert str(refused.value) == golden
    assert path.read_text().startswith("Dear reader")


def test_an_emptied_file_is_not_taken_for_a_new_one(store: SqliteStore, path: Path, golden: Golden) -> None:
    """It was made with its tables in it: empty, it has lost them, and with them the apps whose tasks run on."""
    store.save([Save({"/a": spec("/a")}, {}, {}, {})])
    store.close()
    path.write_bytes(b"")
    with pytest.raises(Unavailable) as refused:
        SqliteStore(path)
    assert str(refused.value) == golden
    assert path.read_bytes() == b"", "left as it was found"


def test_a_database_without_tables_is_not_taken_for_a_new_one(path: Path, golden: Golden) -> None:
    path.parent.mkdir()
    db = sqlite3.connect(path)
    db.executescript("CREATE TABLE apps (id); DROP TABLE apps;")
    db.close()
    with pytest.raises(Unavailable) as refused:
        SqliteStore(path)
    assert str(refused.value) == golden


def test_a_log_without_its_file_is_not_given_up(store: SqliteStore, path: Path, golden: Golden) -> None:
    """As a killed Marathon leaves it: part of the apps is in the log alone."""
    store.close()
    path.unlink()
    path.with_name("marathon.db-wal").write_bytes(b"pages")
    with pytest.raises(Unavailable) as refused:
        SqliteStore(path)
    assert str(refused.value) == golden
    assert not path.exists()


def test_a_new_file_is_for_its_user_alone_and_nothing_lies_beside_it(store: SqliteStore, path: Path) -> None:
    store.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_made_where_files_have_one_name_each(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(made: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, f"{made} to {target}")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    store = SqliteStore(path)
    assert reopened(store, path) == Lasting()
    assert list(path.parent.iterdir()) == [path]


OLD = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE app_versions (
        app_id TEXT NOT NULL, version TEXT NOT NULL, document BLOB NOT NULL, PRIMARY KEY (app_id, version)
    );
    CREATE TABLE instances (id TEXT PRIMARY KEY, document BLOB NOT NULL);
    CREATE TABLE deployments (id TEXT PRIMARY KEY, document BLOB NOT NULL);
    CREATE TABLE failures (app_id TEXT PRIMARY KEY, document BLOB NOT NULL);
    INSERT INTO meta VALUES ('framework_id', 'F-0001');
"""


@pytest.mark.parametrize("form", [1, 2])
def test_a_file_of_an_older_format_is_taken_over(path: Path, form: int) -> None:
    instance, begun = Instance("i", "/g/a", "v", "*", 2.5), plan("d", "v", {}, {"/g/a": spec("/g/a")})
    root = Root("2024-01-01T00:00:00.000Z", {"/g": Group("/g", ("/x",), enforce_role=True)})
    path.parent.mkdir()
    db = sqlite3.connect(path)
    db.executescript(OLD)
    insert = "INSERT INTO {} VALUES (?, ?)"
    db.execute("INSERT INTO app_versions VALUES ('/g/a', ?, ?)", (spec().version, encode(spec("/g/a").document)))
    db.execute(insert.format("instances"), ("i", encode(instance)))
    db.execute(insert.format("deployments"), ("d", encode(begun)))
    db.execute(insert.format("failures"), ("/g/a", encode({"state": "TASK_FAILED"})))
    if form == 2:
        db.execute("CREATE TABLE roots (version TEXT PRIMARY KEY, document BLOB NOT NULL)")
        db.execute(insert.format("roots"), (root.version, encode(root)))
    db.execute(f"PRAGMA user_version={form}")
    db.commit()
    db.close()
    store = SqliteStore(path)
    found = Lasting(
        framework_id="F-0001",
        versions=Table({"/g/a": (spec("/g/a"),)}),
        instances=Table({"i": instance}),
        deployments=Table({"d": begun}),
        failures=Table({"/g/a": {"state": "TASK_FAILED"}}),
        roots=(root,) if form == 2 else (),
    )
    assert store.load() == found
    store.save([Save({}, {}, {"d": None}, {})])
    assert reopened(store, path) == replace(found, deployments=Table())


def test_a_file_of_a_newer_format_is_left_alone(store: SqliteStore, path: Path, golden: Golden) -> None:
    store.close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version={FORMAT + 1}")
    db.close()
    with pytest.raises(Unavailable) as refused:
        SqliteStore(path)
    assert str(refused.value) == golden


def test_a_document_that_cannot_be_read_is_said(store: SqliteStore, path: Path, golden: Golden) -> None:
    store.close()
    db = sqlite3.connect(path)
    db.execute("INSERT INTO documents VALUES ('instance', 'i', '', '{}')")
    db.commit()
    db.close()
    again = SqliteStore(path)
    with pytest.raises(Unavailable) as refused:
        again.load()
    assert str(refused.value) == golden
    again.close()


def test_what_was_saved_survives_a_kill(path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.store.sqlite import SqliteStore
store = SqliteStore(Path({str(path)!r}))
for n in range(20):
    store.save([Save({{}}, {{}}, {{}}, {{"/a": {{"n": n}}}})])
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGKILL
    store = SqliteStore(path)
    assert store.load().failures == {"/a": {"n": 19}}
    store.close()
