"""What lasts, in ZooKeeper: `<--zk>/state/<kind>/<bucket>/<key>[/<version>]`, as Marathon lays it out.

The documents are our JSON, not Marathon's protobuf, so the two cannot share a path; the tree's root says whose it is.

Source: Marathon core/storage/store/impl/zk/ZkPersistenceStore.scala.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote, unquote

import msgspec

from mesos_gpu.errors import InvalidApp, Problem, Unavailable
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.state import Lasting
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.marathon.store.rows import DEPLOYMENTS, VERSIONED, Row, lasting_of, rows_of
from mesos_gpu.marathon.store.zk_limits import ZkLimits
from mesos_gpu.process.zookeeper_tree import Change, ZkTree

_BUCKETS = 16
_PACKED = b"z"
"""The first byte of a document that is compressed; no JSON begins so."""


class ZooKeeperStore:
    """A Store (store.py) in a ZkTree. `load` makes it ours; whoever had it before can no longer write."""

    def __init__(self, tree: ZkTree, limits: ZkLimits | None = None) -> None:
        self._tree, self._limits = tree, limits or ZkLimits()
        self._versions: dict[tuple[str, str], set[str]] = {}

    def load(self) -> Lasting:
        """See Store. Raises Unavailable when ZooKeeper does not answer, or holds what is not ours."""
        documents = sorted(self._tree.claim().items(), key=lambda item: item[1].made)
        rows = [_row(path, document.data) for path, document in documents]
        self._versions = {}
        for row in rows:
            if row.kind in VERSIONED:
                self._versions.setdefault((row.kind, row.key), set()).add(row.version)
        try:
            found = lasting_of(rows)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"cannot read {self._tree}: {error}") from None
        # What was made by one change has one number: the version within tells which deployment began first.
        numbers = zip(rows, (document.made for _, document in documents), strict=True)
        made = {row.key: number for row, number in numbers if row.kind == DEPLOYMENTS}
        began = sorted(found.deployments.values(), key=lambda each: (made[each.id], each.version))
        return replace(found, deployments=Table({each.id: each for each in began}))

    def refuse(self, change: Save) -> None:
        """See Store: a document has to fit one node."""
        for row in rows_of(change):
            if row.document is not None and len(row.document) > self._limits.max_node_size:
                packed = self._packed(row.document)
                if len(packed) > self._limits.max_node_size:
                    words = (
                        f"{row.kind} {row.key} takes {len(packed)} bytes in ZooKeeper, "
                        f"more than --zk_max_node_size={self._limits.max_node_size}"
                    )
                    raise InvalidApp([Problem("/", words, words)])

    def save(self, changes: Iterable[Save]) -> None:
        """See Store. Raises Unavailable when ZooKeeper does not take it in time, or another leads by now."""
        self._tree.write([written for change in changes for row in rows_of(change) for written in self._written(row)])

    def close(self) -> None:
        """See Store; the session is its owner's."""

    def _written(self, row: Row) -> Iterable[Change]:
        path = _path(row)
        if row.kind not in VERSIONED:
            yield path, None if row.document is None else self._packed(row.document)
            return
        kept = self._versions.setdefault((row.kind, row.key), set())
        if row.document is None:
            # One by one: what is written of it in the same save stands by its own path.
            yield from ((_path(Row(row.kind, row.key, version, None)), None) for version in sorted(kept))
            yield path, None
            del self._versions[row.kind, row.key]
            return
        kept.add(row.version)
        yield path, self._packed(row.document)
        for version in sorted(kept, reverse=True)[self._limits.max_versions :]:
            kept.discard(version)
            yield _path(Row(row.kind, row.key, version, None)), None

    def _packed(self, document: bytes) -> bytes:
        if self._limits.compression and len(document) > self._limits.compression_threshold:
            return _PACKED + zlib.compress(document)
        return document


def _path(row: Row) -> str:
    name = quote(row.key, safe="")
    path = f"{row.kind}/{zlib.crc32(row.key.encode()) % _BUCKETS:x}/{name}"
    return f"{path}/{quote(row.version, safe=':')}" if row.version else path


def _row(path: str, data: bytes) -> Row:
    kind, _, name, *version = path.split("/")
    document = zlib.decompress(data[1:]) if data.startswith(_PACKED) else data
    return Row(kind, unquote(name), unquote(version[0]) if version else "", document)
