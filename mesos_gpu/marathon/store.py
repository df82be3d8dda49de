"""What lasts, in one SQLite file.

Written before it is acted on: a `save` returns when the data is on the disk (WAL, synchronous=FULL). One process at a
time may have the file open; the lock goes with the process, however it ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.actions import Save
from mesos_gpu.marathon.deployment import Deployment
from mesos_gpu.marathon.groups import Root
from mesos_gpu.marathon.instances import Instance
from mesos_gpu.marathon.runspec import RunSpec
from mesos_gpu.marathon.state import MAX_VERSIONS, Lasting

SCHEMA_VERSION = 2
_SCHEMA = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE app_versions (
        app_id TEXT NOT NULL, version TEXT NOT NULL, document BLOB NOT NULL, PRIMARY KEY (app_id, version)
    );
    CREATE TABLE instances (id TEXT PRIMARY KEY, document BLOB NOT NULL);
    CREATE TABLE deployments (id TEXT PRIMARY KEY, document BLOB NOT NULL);
    CREATE TABLE failures (app_id TEXT PRIMARY KEY, document BLOB NOT NULL);
"""
_SINCE_2 = "CREATE TABLE roots (version TEXT PRIMARY KEY, document BLOB NOT NULL);"
_PRUNE_ROOTS = """
    DELETE FROM roots WHERE version NOT IN (SELECT version FROM roots ORDER BY version DESC LIMIT ?1)
"""
_PRUNE = """
    DELETE FROM app_versions WHERE app_id = ?1 AND version NOT IN (
        SELECT version FROM app_versions WHERE app_id = ?1 ORDER BY version DESC LIMIT ?2
    )
"""
_FRAMEWORK_ID = "framework_id"
T = TypeVar("T")


class Store:
    """One open store file. To be used by one thread at a time, any thread."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises Unavailable when that cannot be, or another process has it."""
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # The environment of apps is in there, and with it often a password.
            path.touch(mode=0o600, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
        except (OSError, sqlite3.Error) as error:
            raise Unavailable(f"cannot use {path} as --store_path: {error}") from None
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            if "locked" in str(error):
                raise Unavailable(f"{path} is in use by another mesos-gpu-marathon; stop that one first") from None
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
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {_SINCE_2} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
        elif found == 1:
            db.executescript(f"BEGIN IMMEDIATE; {_SINCE_2} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
        elif found != SCHEMA_VERSION:
            raise Unavailable(
                f"{self._path} has format {found}, and this program writes format {SCHEMA_VERSION}: "
                "use the program that wrote it, or another --store_path"
            )

    def load(self) -> Lasting:
        """Return everything that was saved. Raises Unavailable when the file cannot be understood."""
        try:
            found = self._db.execute("SELECT value FROM meta WHERE key = ?", (_FRAMEWORK_ID,)).fetchone()
            versions: dict[str, tuple[RunSpec, ...]] = {}
            for app_id, document in self._db.execute(
                "SELECT app_id, document FROM app_versions ORDER BY app_id, version DESC"
            ):
                versions[app_id] = (*versions.get(app_id, ()), RunSpec(msgspec.json.decode(document)))
            instances = self._read("SELECT document FROM instances ORDER BY rowid", Instance)
            deployments = self._read("SELECT document FROM deployments ORDER BY rowid", Deployment)
            failures = dict(self._db.execute("SELECT app_id, document FROM failures"))
            roots = self._read("SELECT document FROM roots ORDER BY version DESC", Root)
            return Lasting(
                framework_id=found[0] if found else None,
                versions=versions,
                instances={instance.id: instance for instance in instances},
                deployments={deployment.id: deployment for deployment in deployments},
                failures={app_id: msgspec.json.decode(document) for app_id, document in failures.items()},
                roots=tuple(roots),
            )
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise Unavailable(f"cannot read {self._path}: {error}") from None

    def save(self, changes: Iterable[Save]) -> None:
        """Write all changes, in order, as one: after a crash either all of them are there or none.

        Raises Unavailable when the disk refuses; the file is then as it was.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for change in changes:
                    self._write(change)
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

    def _write(self, change: Save) -> None:
        for app_id, spec in change.apps.items():
            if spec is None:
                self._db.execute("DELETE FROM app_versions WHERE app_id = ?", (app_id,))
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO app_versions VALUES (?, ?, ?)",
                    (app_id, spec.version, msgspec.json.encode(spec.document)),
                )
                self._db.execute(_PRUNE, (app_id, MAX_VERSIONS))
        self._put("instances", "id", change.instances)
        self._put("deployments", "id", change.deployments)
        self._put("failures", "app_id", change.failures)
        if change.root is not None:
            self._db.execute(
                "INSERT OR REPLACE INTO roots VALUES (?, ?)", (change.root.version, msgspec.json.encode(change.root))
            )
            self._db.execute(_PRUNE_ROOTS, (MAX_VERSIONS,))
        if change.framework_id is not None:
            (framework_id,) = change.framework_id
            self._put("meta", "key", {_FRAMEWORK_ID: framework_id})

    def _put(self, table: str, key_column: str, rows: Any) -> None:
        value_column = "value" if table == "meta" else "document"
        for key, value in rows.items():
            if value is None:
                self._db.execute(f"DELETE FROM {table} WHERE {key_column} = ?", (key,))
                continue
            stored = value if table == "meta" else msgspec.json.encode(value)
            # Not REPLACE: a row keeps its place, and deployments are read back in the order in which they began.
            self._db.execute(
                f"INSERT INTO {table} ({key_column}, {value_column}) VALUES (?1, ?2) "
                f"ON CONFLICT ({key_column}) DO UPDATE SET {value_column} = ?2",
                (key, stored),
            )

    def _read(self, query: str, kind: type[T]) -> list[T]:
        return [msgspec.json.decode(document, type=kind) for (document,) in self._db.execute(query)]
