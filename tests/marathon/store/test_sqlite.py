"""The store on one machine, on real files; what every store must do is in test_store.py."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from mesos_gpu.marathon.store.wal import FRAME, HEADER, damage
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


PAGE = 4096
STEP = FRAME + PAGE


class Database:
    """One with a log, as Marathon's; `left` is the log as a kill leaves it."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path.with_name(f"{path.name}-wal")
        self.db = sqlite3.connect(path, isolation_level=None)
        for words in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", f"page_size={PAGE}"):
            self.db.execute(f"PRAGMA {words}")
        self.db.execute("CREATE TABLE words (number INTEGER PRIMARY KEY, word BLOB)")

    def write(self, transactions: int, size: int = 100) -> None:
        for _ in range(transactions):
            self.db.execute("INSERT INTO words (word) VALUES (?)", (os.urandom(size),))

    def round(self) -> None:
        """Have the next transaction begin the log anew, over what is there."""
        assert self.db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0

    def left(self) -> bytes:
        return self.log.read_bytes()


def read_by_sqlite(database: Database, log: bytes, folder: Path) -> int:
    """Return how many words SQLite finds with this log in the place of its own."""
    folder.mkdir()
    shutil.copy(database.path, folder / "copy.db")
    (folder / "copy.db-wal").write_bytes(log)
    db = sqlite3.connect(folder / "copy.db")
    try:
        return int(db.execute("SELECT count(*) FROM words").fetchone()[0])
    finally:
        db.close()


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "words.db")


def frames(log: bytes) -> list[tuple[int, int]]:
    """Return page number and size of the database after the commit, 0 within a transaction, of each frame."""
    return [struct.unpack_from(">2I", log, at) for at in range(HEADER, len(log), STEP)]


def changed(log: bytes, at: int, data: bytes) -> bytes:
    return log[:at] + data + log[at + len(data) :]


def frame_at(number: int) -> int:
    """Return where a frame begins, counted from 1."""
    return HEADER + (number - 1) * STEP


# What SQLite, kills and power failures leave.


@pytest.mark.parametrize("size", [0, 1, 31, 32], ids=["nothing", "a byte", "a torn header", "a header"])
def test_a_log_without_a_frame_has_lost_nothing(database: Database, size: int) -> None:
    assert damage(database.left()[:size]) == ""
    assert damage(bytes(size)) == ""


@pytest.mark.parametrize("size", [10, 3000, 50_000])
def test_what_a_kill_leaves_is_whole(database: Database, size: int) -> None:
    database.write(20, size)
    assert damage(database.left()) == ""


def test_each_round_of_the_log_leaves_frames_of_those_before(database: Database) -> None:
    database.write(30)
    for left in (12, 5, 1):
        database.round()
        database.write(left)
        assert len(database.left()) >= 30 * STEP, "the file is not cut"
        assert damage(database.left()) == ""


def test_a_round_that_has_but_begun_is_whole(database: Database) -> None:
    """The header of the next round is on the disk, and all frames are of the one before."""
    database.write(3)
    before = database.left()
    database.round()
    database.write(3)
    assert damage(changed(before, 0, database.left()[:HEADER])) == ""


def test_the_other_order_of_words_is_read_too(database: Database) -> None:
    """As SQLite writes on a big-endian machine: the same words, checksums over them as they lie there."""
    database.write(4)
    log = bytearray(database.left())
    struct.pack_into(">I", log, 0, 0x377F0683)
    sums = (0, 0)
    for at, head in ((0, HEADER - 8), *((at, FRAME) for at in range(HEADER, len(log), STEP))):
        data = bytes(log[at:head]) if at == 0 else bytes(log[at : at + 8] + log[at + FRAME : at + STEP])
        sums = slowly(data, ">", sums)
        struct.pack_into(">2I", log, at + (head if at == 0 else 16), *sums)
    assert damage(bytes(log)) == ""
    assert damage(changed(bytes(log), frame_at(2) + 500, b"garbage")) != ""


def slowly(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """The checksum by SQLite's own loop."""
    s0, s1 = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        s0 = (s0 + one + s1) & 0xFFFFFFFF
        s1 = (s1 + other + s0) & 0xFFFFFFFF
    return s0, s1


def tears() -> dict[str, Callable[[bytes], bytes]]:
    """The ways in which a power failure leaves a transaction: blocks of 512 bytes are written, or they are not."""
    return {
        "not written": lambda _: b"",
        "half of it": lambda torn: torn[: len(torn) // 2 // 512 * 512],
        "its end, and zeros before": lambda torn: bytes(len(torn) // 2) + torn[len(torn) // 2 :],
        "its head, and zeros": lambda torn: torn[:512] + bytes(len(torn) - 512),
        "zeros": lambda torn: bytes(len(torn)),
        "a block that is not there": lambda torn: torn[: 2 * STEP + 1024] + bytes(512) + torn[2 * STEP + 1536 :],
        "the last frame, alone": lambda torn: bytes(len(torn) - STEP) + torn[-STEP:],
    }


@pytest.mark.parametrize("way", tears())
def test_a_torn_last_transaction_is_no_damage(database: Database, tmp_path: Path, way: str) -> None:
    database.write(5)
    before = database.left()
    database.write(1, 30_000)
    whole = database.left()
    assert len(whole) - len(before) > 4 * STEP
    torn = before + tears()[way](whole[len(before) :])
    assert damage(torn) == ""
    assert read_by_sqlite(database, torn, tmp_path / "torn") == 5, "and SQLite drops it"


@pytest.mark.parametrize("way", tears())
def test_nor_where_it_lay_over_an_earlier_round(database: Database, way: str) -> None:
    database.write(30)
    earlier = database.left()
    database.round()
    database.write(2)
    before = len([commit for _, commit in frames(database.left())[:4] if commit])
    assert before >= 2
    at = 2 * STEP + HEADER
    database.write(1, 30_000)
    whole = database.left()
    torn = tears()[way](whole[at : at + 8 * STEP])
    assert damage(changed(earlier[: len(whole)], 0, whole[:at] + torn)) == ""


def test_what_was_rolled_back_may_lie_behind_the_end(database: Database) -> None:
    """A transaction that a full disk ended stays in the log until another lies over it; twice here."""
    database.write(3)
    ended = len(database.left())
    database.write(1, 40_000)
    long = database.left()
    other = changed(long, ended, long[ended + STEP : ended + 3 * STEP])
    assert damage(other) == ""


# What they do not leave.


@pytest.mark.parametrize("at", [0, 4, 8, 16, 24, 31])
def test_a_damaged_header_is_told(database: Database, at: int) -> None:
    database.write(5)
    log = database.left()
    found = damage(changed(log, at, bytes([log[at] ^ 0xA5])))
    assert found


def test_garbage_is_told(golden: Golden) -> None:
    data = (bytes(5 * STEP), b"pages" * 3000, b"[7]" * 2000, b'{"seven": 7}', b"\xa5")
    (text,) = {damage(each) for each in data}
    assert text == golden


def test_a_frame_that_is_damaged_before_others_is_told(database: Database, tmp_path: Path, golden: Golden) -> None:
    database.write(8)
    log = database.left()
    texts = set()
    for at in (0, 4, 16, 20, FRAME, FRAME + 2000, STEP - 1):
        place = frame_at(4) + at
        damaged = changed(log, place, bytes([log[place] ^ 0xA5]))
        texts.add(damage(damaged))
        assert read_by_sqlite(database, damaged, tmp_path / f"damaged-{at}") < 8, "SQLite reports no error"
    (text,) = texts
    assert text == golden


def test_salts_that_nobody_drew_are_told(database: Database, golden: Golden) -> None:
    database.write(8)
    log = database.left()
    (text,) = {damage(changed(log, frame_at(8) + at, b"\xa5\x5a\xa5\x5a")) for at in (8, 12)}
    assert text == golden


def test_a_hole_in_the_middle_is_told(database: Database, golden: Golden) -> None:
    database.write(12)
    assert damage(changed(database.left(), frame_at(3), bytes(2 * STEP))) == golden


def test_all_frames_garbage_behind_a_good_header_are_told(database: Database, golden: Golden) -> None:
    database.write(5)
    log = database.left()
    assert damage(log[:HEADER] + bytes(byte ^ 0xA5 for byte in log[HEADER:])) == golden


# The store.


def killed(path: Path) -> Path:
    """Leave a store as a Marathon that was killed leaves it; return its log."""
    store = SqliteStore(path)
    for number in range(6):
        store.save([Save({f"/{number}": spec(f"/{number}")}, {}, {}, {})])
    log = path.with_name(f"{path.name}-wal")
    copies = path.read_bytes(), log.read_bytes()
    store.close()
    path.write_bytes(copies[0])
    log.write_bytes(copies[1])
    return log


def test_a_store_with_a_damaged_log_is_refused_and_left_as_it_was(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "marathon.db"
    log = killed(path)
    whole, before = log.read_bytes(), path.read_bytes()
    for damaged in (b"\xa5" * len(whole), changed(whole, frame_at(2) + 100, b"garbage")):
        log.write_bytes(damaged)
        with pytest.raises(Unavailable) as refused:
            SqliteStore(path)
        assert str(refused.value) == golden
        assert (path.read_bytes(), log.read_bytes()) == (before, damaged)
    log.write_bytes(whole)
    store = SqliteStore(path)
    try:
        assert set(store.load().versions) == {f"/{number}" for number in range(6)}
        assert log.stat().st_size == 0, "all of it is in the file now"
    finally:
        store.close()


def test_without_its_log_the_file_is_taken_as_it_is(tmp_path: Path) -> None:
    """As the message says."""
    path = tmp_path / "marathon.db"
    killed(path).unlink()
    store = SqliteStore(path)
    try:
        assert set(store.load().versions) == set()
    finally:
        store.close()


OPEN = """
import sys
from pathlib import Path
from mesos_gpu.marathon.store.sqlite import SqliteStore
SqliteStore(Path(sys.argv[1]))
"""


def test_a_log_that_another_marathon_writes_to_is_not_looked_at(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "marathon.db"
    store = SqliteStore(path)
    try:
        store.save([Save({"/a": spec("/a")}, {}, {}, {})])
        with path.with_name("marathon.db-wal").open("r+b") as log:
            log.write(b"garbage")
        done = subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1] == golden
    finally:
        store.close()
