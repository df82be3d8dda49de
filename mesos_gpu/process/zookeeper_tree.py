"""A tree of documents in ZooKeeper that one owner at a time changes, each change whole or not at all.

* The owner is who claimed the tree last. Its claim is one node, and every change sets that node from the version that
  it had: so a change by an owner that another has followed is refused by ZooKeeper itself, however late it comes.
* The same node tells, after a lost connection, whether a change whose answer was lost has happened.
* A change that is too large for one request is first written down beside the tree, then made; the next owner ends what
  it finds written down to its end, and drops what is not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, TypeAlias

import msgspec
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError
from msgspec import Struct

from mesos_gpu.errors import Unavailable
from mesos_gpu.process.zookeeper import ZkSession

FORMAT = b"mesos-gpu 1"
"""What the tree's root says, so that nobody takes another program's tree for ours."""
REQUEST_BYTES = 700_000
"""What one request may hold; ZooKeeper takes 1 MB (jute.maxbuffer), the node that tells whose the tree is included."""
_OVERHEAD = 96
Change: TypeAlias = tuple[str, bytes | None]
"""A document below the root and its new content; None removes it, with everything below."""


class Document(Struct, frozen=True):
    """What is at a path, and the number of the change that made it: older ones have smaller numbers."""

    data: bytes
    made: int


class ZkTree:
    """The tree at `<path>/state`. Methods wait for answers, `patience_s` each at most; one thread at a time uses it."""

    def __init__(self, session: ZkSession, path: str, *, patience_s: float) -> None:
        self._session, self._client, self._patience_s = session, session.client, patience_s
        self._acl = session.private_acl
        self.path = path.rstrip("/")
        self._root, self._owner, self._log = (f"{self.path}/{name}" for name in ("state", "owner", "journal"))
        self._token = uuid.uuid4().hex
        self._sequence = self._version = 0
        self._known: dict[str, set[str]] = {}
        """The children of every node of the tree that has some, or had."""

    def __str__(self) -> str:
        return f"{self.path} in ZooKeeper"

    def claim(self) -> Mapping[str, Document]:
        """Become the owner, and return every document by its path below the root. Raises Unavailable."""
        try:
            self._claim()
            left = self._left_over()
            self._known, documents = self._read()
            if left is None:
                return documents
            for part in left:
                self._apply(part)
            self._forget_log()
            self._known, documents = self._read()
            return documents
        except (KazooException, KazooTimeoutError) as error:
            raise self._unavailable("read", error) from None

    def write(self, changes: Iterable[Change]) -> None:
        """Make all changes, in order, as one. Raises Unavailable when that fails, or another owns the tree by now."""
        last: dict[str, bytes | None] = {}
        for path, data in changes:
            last.pop(path, None)  # of several changes to one document the last counts, in its place
            last[path] = data
        if not last:
            return
        parts = list(_parts(last.items()))
        try:
            if len(parts) > 1:
                for number, part in enumerate(parts):
                    self._commit([("create", f"{self._log}/{number}", msgspec.msgpack.encode(part))])
                self._commit([("create", f"{self._log}/whole", str(len(parts)).encode())])
            for part in parts:
                self._apply(part)
            if len(parts) > 1:
                self._forget_log()
        except (KazooException, KazooTimeoutError) as error:
            raise self._unavailable("write", error) from None

    def _claim(self) -> None:
        self._client.ensure_path(self.path, acl=self._session.acl)
        self._session.restrict(self.path, patience_s=self._patience_s)
        for path in (self._owner, self._log):
            self._client.ensure_path(path, acl=self._acl)
        try:
            self._get(self._client.create_async(self._root, FORMAT, self._acl))
        except NodeExistsError:
            found, _ = self._get(self._client.get_async(self._root))
            if found != FORMAT:
                raise Unavailable(
                    f"what is in {self._root} was not written by this program; choose another path"
                ) from None
        stat = self._get(self._client.set_async(self._owner, self._mark()))
        self._version = stat.version
        # From here on no other leader creates nodes, and nothing of them has been read.
        for path in (self._owner, self._log, self._root):
            self._session.close_to_others(path, patience_s=self._patience_s)

    def _mark(self) -> bytes:
        self._sequence += 1
        return f"{self._token} {self._sequence}".encode()

    def _left_over(self) -> list[list[Change]] | None:
        """Return the change that an owner before us had begun and not ended; None when there is none."""
        children = self._get(self._client.get_children_async(self._log))
        if not children:
            return None
        if "whole" not in children:
            self._forget_log()
            return None
        data, _ = self._get(self._client.get_async(f"{self._log}/whole"))
        asked = [self._client.get_async(f"{self._log}/{number}") for number in range(int(data))]
        return [msgspec.msgpack.decode(self._get(each)[0], type=list[Change]) for each in asked]

    def _forget_log(self) -> None:
        children = self._get(self._client.get_children_async(self._log))
        # "whole" goes first, or together with the rest: without it the rest means nothing.
        self._commit([("delete", f"{self._log}/{name}", b"") for name in sorted(children, reverse=True)])

    def _read(self) -> tuple[dict[str, set[str]], dict[str, Document]]:
        known: dict[str, set[str]] = {}
        documents: dict[str, Document] = {}
        level = [""]
        while level:
            asked = [
                (path, self._client.get_children_async(self._root + path), self._client.get_async(self._root + path))
                for path in level
            ]
            level = []
            for path, children, node in asked:
                known[path] = set(self._get(children))
                data, stat = self._get(node)
                if path and data:
                    documents[path[1:]] = Document(data, stat.czxid)
                level += [f"{path}/{name}" for name in sorted(known[path])]
        return known, documents

    def _apply(self, changes: Iterable[Change]) -> None:
        """Make changes in one request; `_known` tells which nodes are there."""
        steps: list[tuple[str, str, bytes]] = []
        for path, data in changes:
            if data is None:
                self._remove(f"/{path}", steps)
                continue
            *above, name = path.split("/")
            parent = ""
            for folder in above:
                self._make(parent, folder, b"", steps)
                parent = f"{parent}/{folder}"
            if not self._make(parent, name, data, steps):
                steps.append(("set", f"{self._root}{parent}/{name}", data))
        self._commit(steps)

    def _make(self, parent: str, name: str, data: bytes, steps: list[tuple[str, str, bytes]]) -> bool:
        children = self._known.setdefault(parent, set())
        if name in children:
            return False
        children.add(name)
        steps.append(("create", f"{self._root}{parent}/{name}", data))
        return True

    def _remove(self, path: str, steps: list[tuple[str, str, bytes]]) -> None:
        parent, _, name = path.rpartition("/")
        if name not in self._known.get(parent, ()):
            return
        for child in sorted(self._known.get(path, ())):
            self._remove(f"{path}/{child}", steps)
        self._known.pop(path, None)
        self._known[parent].discard(name)
        steps.append(("delete", f"{self._root}{path}", b""))

    def _commit(self, steps: Iterable[tuple[str, str, bytes]]) -> None:
        """Make one request, once. Raises Unavailable when the tree is another's, else what kazoo raises."""
        mark, deadline = self._mark(), monotonic() + self._patience_s
        steps = list(steps)
        while True:
            transaction = self._client.transaction()
            transaction.set_data(self._owner, mark, version=self._version)
            for kind, path, data in steps:
                if kind == "create":
                    transaction.create(path, data, self._acl)
                elif kind == "set":
                    transaction.set_data(path, data)
                else:
                    transaction.delete(path)
            try:
                results = transaction.commit_async().get(timeout=max(0.0, deadline - monotonic()))
            except ConnectionLoss:
                if self._happened(mark, deadline):
                    break
                continue
            if isinstance(results[0], BadVersionError):
                raise self._not_ours()
            for result in results:
                if isinstance(result, (NoNodeError, NodeExistsError, BadVersionError)):
                    raise result
            failed = [result for result in results if isinstance(result, Exception)]
            if failed:
                raise failed[0]
            break
        self._version += 1

    def _happened(self, mark: bytes, deadline: float) -> bool:
        """Return whether a change whose answer was lost has been made."""
        while True:
            try:
                data, stat = self._client.get_async(self._owner).get(timeout=max(0.0, deadline - monotonic()))
            except ConnectionLoss:
                continue
            if stat.version == self._version:
                return False
            if stat.version == self._version + 1 and data == mark:
                return True
            raise self._not_ours()

    def _get(self, asked: Any) -> Any:
        return asked.get(timeout=self._patience_s)

    def _not_ours(self) -> Unavailable:
        return Unavailable(f"{self} was taken over by another, which leads now")

    def _unavailable(self, verb: str, error: Exception) -> Unavailable:
        return Unavailable(f"cannot {verb} {self}: {str(error) or type(error).__name__}")


def _parts(changes: Iterable[Change]) -> Iterable[list[Change]]:
    """Split changes so that each part goes into one request; a document of its own size limit always fits one."""
    part: list[Change] = []
    size = 0
    for path, data in changes:
        # A path may bring its folders with it.
        needs = 3 * len(path) + len(data or b"") + 4 * _OVERHEAD
        if part and size + needs > REQUEST_BYTES:
            yield part
            part, size = [], 0
        part.append((path, data))
        size += needs
    yield part
