"""What lasts, in one SQLite file.

Written before it is acted on: a `save` returns when the data is on the disk (WAL, synchronous=FULL). One process at a
time may have the file open; the lock goes with the process, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.settings import MAX_VERSIONS
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.store.rows import VERSIONED, Row, lasting_of, rows_of
from mesos_gpu.marathon.store.wal import damage

FORMAT = 3
_SCHEMA = """
    CREATE TABLE documents (
        kind TEXT NOT NULL, key TEXT NOT NULL, version TEXT NOT NULL, document BLOB NOT NULL,
        PRIMARY KEY (kind, key, version)
    );
"""
# A table per kind, until format 2; `roots` came with that.
_FROM_1 = """
    INSERT INTO documents SELECT 'apps', app_id, version, document FROM app_versions ORDER BY rowid;
    INSERT INTO documents SELECT 'instance', id, '', document FROM instances ORDER BY rowid;
    INSERT INTO documents SELECT 'deployment', id, '', document FROM deployments ORDER BY rowid;
    INSERT INTO documents SELECT 'taskFailures', app_id, '', document FROM failures ORDER BY rowid;
    INSERT INTO documents SELECT 'framework-id', 'id', '', json_quote(value) FROM meta WHERE key = 'framework_id';
    DROP TABLE app_versions; DROP TABLE instances; DROP TABLE deployments; DROP TABLE failures; DROP TABLE meta;
"""
_FROM_2 = f"INSERT INTO documents SELECT 'group', '/', version, document FROM roots; DROP TABLE roots; {_FROM_1}"  # nosec B608
_SHARED = (510, 0x4000_0002, os.SEEK_SET)
"""The bytes that who has a database open holds locked: SHARED_FIRST and SHARED_SIZE of SQLite's file format."""
# Not REPLACE: a row keeps its place, and deployments are read back in the order in which they began.
_PUT = """
    INSERT INTO documents VALUES (?1, ?2, ?3, ?4) ON CONFLICT (kind, key, version) DO UPDATE SET document = ?4
"""
_PRUNE = """
    DELETE FROM documents WHERE kind = ?1 AND key = ?2 AND version NOT IN (
        SELECT version FROM documents WHERE kind = ?1 AND key = ?2 ORDER BY version DESC LIMIT ?3
    )
"""


class SqliteStore:
    """A Store (store.py) in one file."""

    def __init__(self, path: Path, *, max_versions: int = MAX_VERSIONS) -> None:
        """Open the file, or create it where there is none. Raises Unavailable.

        That is when it cannot be had, another process has it, or it or its log lost what it held: whoever takes an
        emptied file for a new one forgets all apps, and their tasks run on without a word.
        """
        self._path, self._max_versions = path, max_versions
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                _create(path)
            if path.stat().st_size == 0:
                raise Unavailable(_emptied(path))
            _look_at_log(path)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
        except (OSError, sqlite3.Error) as error:
            raise Unavailable(f"cannot use {path} as --store_path: {error}") from None
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            if "locked" in str(error):
                raise Unavailable(_in_use(path)) from None
            raise Unavailable(f"cannot use {path} as --store_path: {error}") from None
        except Unavailable:
            self._db.close()
            raise

    def _prepare(self) -> None:
        db = self._db
        # Exclusive before WAL: then the lock is taken at once and kept, and no shared-memory file is needed.
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        # What a kill left in the log is in the file from now on, so that a log holds one life's changes alone.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found in (1, 2):
            taken_over = (_FROM_1, _FROM_2)[found - 1]
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {taken_over} PRAGMA user_version={FORMAT}; COMMIT;")
        elif found == 0:
            raise Unavailable(_emptied(self._path))
        elif found != FORMAT:
            raise Unavailable(
                f"{self._path} has format {found}, and this program writes format {FORMAT}: "
                "use the program that wrote it, or another --store_path"
            )

    def load(self) -> Lasting:
        """See Store. Raises Unavailable when the file cannot be understood."""
        try:
            rows = self._db.execute("SELECT kind, key, version, document FROM documents ORDER BY rowid")
            return lasting_of(Row(*row) for row in rows)
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise Unavailable(f"cannot read {self._path}: {error}") from None

    def refuse(self, change: Save) -> None:
        """See Store: a file takes everything that a request can bring."""

    def save(self, changes: Iterable[Save]) -> None:
        """See Store. Raises Unavailable when the disk refuses; the file is then as it was."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for change in changes:
                    for row in rows_of(change):
                        self._write(row)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise Unavailable(f"cannot write {self._path}: {error}") from None

    def close(self) -> None:
        """Close the file and give up its lock."""
        self._db.close()

    def _write(self, row: Row) -> None:
        if row.document is None:
            self._db.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (row.kind, row.key))
            return
        self._db.execute(_PUT, (row.kind, row.key, row.version, row.document))
        if row.kind in VERSIONED:
            self._db.execute(_PRUNE, (row.kind, row.key, self._max_versions))


def _create(path: Path) -> None:
    """Make a file without rows, at once: `path` is never there without its tables, whatever ends us meanwhile.

    Nothing happens when another process is faster. Raises Unavailable, OSError, sqlite3.Error.
    """
    log = _log(path)
    if log.exists() and log.stat().st_size > 0:
        # SQLite would replay it into the new file; and what it holds was not meant to be given up.
        raise Unavailable(
            f"{path} is gone, but {log.name}, which belongs to it, is there: put back {path.name}, or, to begin again "
            f"without its apps, remove {log.name} too"
        )
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        new = Path(folder) / path.name
        # The environment of apps is in there, and with it often a password.
        new.touch(mode=0o600)
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=FULL")
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return
        except OSError:
            new.rename(path)  # FAT, and folders shared with virtual machines, have one name for each file


def _look_at_log(path: Path) -> None:
    """Raise Unavailable when what was committed to the log is not all in it, or a process has the file; OSError."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SHARED)
        except BlockingIOError:
            raise Unavailable(_in_use(path)) from None
        log = _log(path)
        found = damage(log.read_bytes()) if log.exists() else ""
    if found:
        raise Unavailable(
            f"{log} is damaged: {found}. It holds the latest changes, which are not in {path.name} yet, and SQLite "
            f"would drop them without a word. Put back copies of {path.name} and {log.name} of one moment; or, to go "
            f"on with what {path.name} holds by itself, which may be none of the apps, move {log.name} away"
        )


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _in_use(path: Path) -> str:
    return f"{path} is in use by another mesos-gpu-marathon; stop that one first"


def _emptied(path: Path) -> str:
    return (
        f"{path} is empty, and it was not when it was made: what Marathon wrote there is lost (a full disk, a damaged "
        "file system or a program that cut it off). Put back a copy of it, or, to begin again without its apps, remove "
        f"{path.name} and {path.name}-wal; tasks that run then end when the master has waited for their framework"
    )
