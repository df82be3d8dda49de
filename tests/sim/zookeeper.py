"""A ZooKeeper ensemble, and kazoo's client of it, for as much as the services use.

The ensemble is one host that nothing happens to but that it is cut off, or has no quorum for a while; what it has
taken it keeps, as ZooKeeper's promise is. Sessions end as there: when nothing was heard for their time, or a client
closes them.

Calls of the client that wait for an answer are made in threads, which are steps here: they are answered at once, or
fail at once where a real thread would have waited to its end. Now and then a connection is lost while an answer is on
its way; then the change has been made, or not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from tests.sim.world import PROCESS, Host, Process

if TYPE_CHECKING:
    from tests.sim.world import World

PORT = 2181
AGAIN_S = 0.7
"""How often a client without a connection tries to make one."""
LOST_ANSWERS = 0.004
"""How many of the changes have their answer lost."""


@dataclass
class _Node:
    data: bytes
    made: int
    owner: int | None = None
    version: int = 0
    children_made: int = 0


@dataclass(frozen=True)
class Stat:
    """What ZooKeeper tells of a node."""

    version: int
    czxid: int


@dataclass(eq=False)
class Ensemble:
    """The tree, the sessions, and who watches what."""

    world: World
    host: Host
    quorum: bool = True
    nodes: dict[str, _Node] = field(default_factory=lambda: {"/": _Node(b"", 0)})
    clients: dict[int, Client] = field(default_factory=dict)
    _below: dict[str, dict[str, None]] = field(default_factory=dict)
    """The names below each node, in the order in which they were made."""
    _changes: int = 0
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.world.network.on_change.append(self.look)

    def reaches(self, host: Host) -> bool:
        """Tell whether requests of a host are answered."""
        cut = self.world.network.is_cut(host, self.host)
        return self.quorum and not host.down and not cut

    def lose_quorum(self, seconds: float) -> None:
        """Answer nobody for a while; sessions last on meanwhile, as nobody is there to end them."""
        self.quorum = False
        self.look()
        self.world.soon(seconds, self.regain)

    def regain(self) -> None:
        """Answer again."""
        self.quorum = True
        for session, client in self.clients.items():
            if client.heard_s is not None:
                client.heard_s = self.world.now_s
                self._expire_later(session, client)

    def look(self) -> None:
        """The network has changed: who cannot be reached any more is taken note of."""
        for session, client in list(self.clients.items()):
            if client.process.alive and client.state == KazooState.CONNECTED and not self.reaches(client.process.host):
                self.silent(session, client)
                pause_s = self.world.random.uniform(0.0, client.timeout_s * 2 / 3)
                self.world.soon(pause_s, client.suspend, process=client.process)

    def silent(self, session: int, client: Client) -> None:
        """Nothing comes from a session any more."""
        if client.heard_s is None:
            client.heard_s = self.world.now_s
            self._expire_later(session, client)

    def _expire_later(self, session: int, client: Client) -> None:
        self.world.soon(client.timeout_s, self._expire, session, client.heard_s)

    def _expire(self, session: int, since_s: float | None) -> None:
        client = self.clients.get(session)
        if client is not None and self.quorum and client.heard_s is not None and client.heard_s == since_s:
            self.end(session)

    def begin(self, client: Client) -> int:
        """Return a new session."""
        session: int = next(self._numbers)
        self.clients[session] = client
        return session

    def end(self, session: int) -> None:
        """End a session: its ephemeral nodes go with it."""
        if self.clients.pop(session, None) is not None:
            self.world.tell("zookeeper", f"session {session} is over")
            for path in [path for path, node in self.nodes.items() if node.owner == session]:
                self.delete(path)

    def children(self, path: str) -> list[str]:
        """Return the names below a node. Raises NoNodeError."""
        if path not in self.nodes:
            raise NoNodeError
        return list(self._below.get(path, ()))

    def _place(self, path: str, node: _Node) -> None:
        above, _, name = path.rpartition("/")
        self.nodes[path] = node
        self._below.setdefault(above or "/", {})[name] = None

    def put_back(self, nodes: Mapping[str, _Node]) -> None:
        """Let these be all the nodes that there are."""
        self.nodes = {"/": nodes["/"]}
        self._below.clear()
        for path, node in nodes.items():
            if path != "/":
                self._place(path, node)

    def create(self, path: str, data: bytes, owner: int | None, *, sequence: bool, above: bool) -> str:
        """Make a node. Raises NodeExistsError, NoNodeError."""
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.nodes:
            if not above:
                raise NoNodeError
            self.create(parent, b"", None, sequence=False, above=True)
        if sequence:
            path += f"{self.nodes[parent].children_made:010d}"
        if path in self.nodes:
            raise NodeExistsError
        self._changes += 1
        self.nodes[parent].children_made += 1
        self._place(path, _Node(data, self._changes, owner))
        self._tell(parent)
        return path

    def change(self, path: str, data: bytes, version: int) -> Stat:
        """Change a node that has this version, or any for -1. Raises NoNodeError, BadVersionError."""
        node = self._of(path, version)
        self._changes += 1
        node.data = data
        node.version += 1
        return Stat(node.version, node.made)

    def delete(self, path: str, version: int = -1) -> None:
        """Remove a node. Raises NoNodeError, BadVersionError."""
        self._of(path, version)
        self._changes += 1
        above, _, name = path.rpartition("/")
        del self.nodes[path], self._below[above or "/"][name]
        self._tell(above or "/")

    def _of(self, path: str, version: int) -> _Node:
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError
        if version not in (-1, node.version):
            raise BadVersionError
        return node

    def _tell(self, path: str) -> None:
        for client in list(self.clients.values()):
            if path in client.watches:
                client.watch_soon(path)


class _Answer:
    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask

    def get(self, timeout: float | None = None) -> Any:
        return self._ask()


class Client:
    """Looks like kazoo's KazooClient to the services; made by the process whose step it is."""

    ensemble: Ensemble

    def __init__(self, hosts: str, timeout: float, **_: Any) -> None:
        process = PROCESS.get()
        if process is None:
            raise RuntimeError("this is a step of nobody")
        self.process: Process = process
        self.timeout_s = timeout
        self.state: str | None = None
        self.session: int | None = None
        self.heard_s: float | None = None
        """Since when nothing has come from it; None while it is connected."""
        self.watches: dict[str, Callable[[list[str]], Any]] = {}
        self._listeners: list[Callable[[str], Any]] = []
        self._due: set[str] = set()
        self._lost_once = self._closed = False
        process.at_end.append(self._died)
        process.on_freeze.append(self._froze)
        process.waits_for = lambda: not self.usable and not self._closed

    @property
    def usable(self) -> bool:
        """Tell whether requests are answered."""
        alive = self.session in self.ensemble.clients
        return alive and self.state == KazooState.CONNECTED and self.ensemble.reaches(self.process.host)

    def add_listener(self, listener: Callable[[str], Any]) -> None:
        """Tell a function of every change of state."""
        self._listeners.append(listener)

    def start_async(self) -> None:
        """Begin to connect."""
        self._later(self.ensemble.world.random.uniform(0.001, 0.05), self._connect)

    def stop(self) -> None:
        """End the session, if the ensemble can be told."""
        self._closed = True
        if self.usable and self.session is not None:
            self.ensemble.end(self.session)
        self.state = KazooState.LOST

    def close(self) -> None:
        """Nothing is left to close."""

    def suspend(self) -> None:
        """The connection is gone, if it still is."""
        if self.state == KazooState.CONNECTED and not self._closed:
            if self.ensemble.reaches(self.process.host):
                self.heard_s = None
            else:
                self._become(KazooState.SUSPENDED)
                self._later(AGAIN_S, self._connect)

    def _connect(self) -> None:
        if self._closed:
            return
        if not self.ensemble.reaches(self.process.host):
            self._later(AGAIN_S, self._connect)
            return
        self.heard_s = None
        if self.session not in self.ensemble.clients:
            if self.session is not None:
                self._become(KazooState.LOST)
            self.session = self.ensemble.begin(self)
        self._become(KazooState.CONNECTED)
        for path in self.watches:
            self.watch_soon(path)

    def _become(self, state: str) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    def _later(self, seconds: float, call: Callable[..., Any], *args: Any) -> None:
        self.ensemble.world.soon(seconds, call, *args, process=self.process)

    def _died(self) -> None:
        if self.session is not None and self.session in self.ensemble.clients:
            self.ensemble.silent(self.session, self)

    def _froze(self, seconds: float) -> None:
        """Nothing comes from it for so long; then it finds out whether its session is over."""
        if self.session in self.ensemble.clients and self.state == KazooState.CONNECTED:
            self.ensemble.silent(self.session, self)
            self.ensemble.world.soon(seconds, self._thawed)

    def _thawed(self) -> None:
        if not self.process.alive or self._closed or self.state != KazooState.CONNECTED:
            return
        if self.session in self.ensemble.clients and self.ensemble.reaches(self.process.host):
            self.heard_s = None
        else:
            self._later(self.ensemble.world.random.uniform(0.0, 2.0), self._broken)

    def _broken(self) -> None:
        """Its connection is found broken."""
        if self.state == KazooState.CONNECTED and not self._closed:
            self._become(KazooState.SUSPENDED)
            self._later(AGAIN_S, self._connect)

    # Watches.

    def ChildrenWatch(self, path: str) -> Callable[[Callable[[list[str]], Any]], Any]:
        """Tell a function of the children of a node, now and at every change."""

        def watch(call: Callable[[list[str]], Any]) -> Any:
            self.watches[path] = call
            call(self.ensemble.children(path))
            return call

        return watch

    def watch_soon(self, path: str) -> None:
        """Have a watch looked at, once for all changes that come before."""
        if path not in self._due:
            self._due.add(path)
            self._later(self.ensemble.world.random.uniform(0.001, 0.02), self._watched, path)

    def _watched(self, path: str) -> None:
        self._due.discard(path)
        if self.usable and not self._closed:
            self.watches[path](self.ensemble.children(path))

    # Requests.

    def retry(self, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Call until no connection is lost."""
        while True:
            try:
                return call(*args, **more)
            except ConnectionLoss:
                continue

    def ensure_path(self, path: str, acl: Any = None) -> None:
        """Make a node, and those above it, unless they are there."""
        self._reach()
        if path not in self.ensemble.nodes:
            self.ensemble.create(path, b"", None, sequence=False, above=True)

    def create(
        self, path: str, value: bytes, acl: Any = None, *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Make a node."""
        owner = self.session if ephemeral else None
        made: str = self._change(lambda: self.ensemble.create(path, value, owner, sequence=sequence, above=False))
        return made

    def get(self, path: str) -> tuple[bytes, Stat]:
        """Return a node."""
        self._reach()
        node = self.ensemble.nodes.get(path)
        if node is None:
            raise NoNodeError
        return node.data, Stat(node.version, node.made)

    def get_async(self, path: str) -> _Answer:
        """Return a node, by its `get`."""
        return _Answer(lambda: self.get(path))

    def get_children_async(self, path: str) -> _Answer:
        """Return the names below a node, by its `get`."""

        def ask() -> list[str]:
            self._reach()
            return self.ensemble.children(path)

        return _Answer(ask)

    def set_async(self, path: str, data: bytes, version: int = -1) -> _Answer:
        """Change a node, by its `get`."""
        return _Answer(lambda: self._change(lambda: self.ensemble.change(path, data, version)))

    def create_async(self, path: str, data: bytes, acl: Any = None, makepath: bool = False) -> _Answer:
        """Make a node, by its `get`."""
        return _Answer(
            lambda: self._change(lambda: self.ensemble.create(path, data, None, sequence=False, above=makepath))
        )

    def transaction(self) -> _Transaction:
        """Return what makes several changes as one."""
        return _Transaction(self)

    def _reach(self) -> None:
        if not self.process.alive or not self.usable:
            raise KazooTimeoutError("timeout exceeded")

    def _change(self, make: Callable[[], Any]) -> Any:
        """Make a change; now and then whoever asked does not get to know whether it was made."""
        self._reach()
        chance = self.ensemble.world.random
        # Never twice in a row: where a connection is lost for good it is a host's that was cut off.
        lost = not self._lost_once and chance.random() < LOST_ANSWERS
        self._lost_once = lost
        if not lost:
            return make()
        self.ensemble.world.tell(self.process.name, "an answer of ZooKeeper is lost")
        if chance.random() < 0.5:
            make()
        raise ConnectionLoss


class _Transaction:
    def __init__(self, client: Client) -> None:
        self._client, self._steps = client, list[Callable[[], Any]]()

    def set_data(self, path: str, data: bytes, version: int = -1) -> None:
        self._steps.append(lambda: self._client.ensemble.change(path, data, version))

    def create(self, path: str, data: bytes, acl: Any = None) -> None:
        self._steps.append(lambda: self._client.ensemble.create(path, data, None, sequence=False, above=False))

    def delete(self, path: str, version: int = -1) -> None:
        self._steps.append(lambda: self._client.ensemble.delete(path, version))

    def commit_async(self) -> _Answer:
        return _Answer(lambda: self._client._change(self._commit))

    def _commit(self) -> Sequence[Any]:
        """Make all changes, or none: then say which could not be."""
        nodes = self._client.ensemble.nodes
        before = {path: (node, node.data, node.version, node.children_made) for path, node in nodes.items()}
        results: list[Any] = []
        for step in self._steps:
            try:
                results.append(step())
            except (NoNodeError, NodeExistsError, BadVersionError) as error:
                for node, data, version, children in before.values():
                    node.data, node.version, node.children_made = data, version, children
                self._client.ensemble.put_back({path: found[0] for path, found in before.items()})
                rest = len(self._steps) - len(results) - 1
                return [RolledBackError()] * len(results) + [error] + [RuntimeInconsistency()] * rest
        return results
