"""ZooKeeper, through kazoo, and nothing but here: following a group's leader, being in it, and one durable value.

kazoo has threads of its own; everything is handed to the event loop, where all callbacks run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, ConnectionLoss, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Permissions, make_acl

from mesos_gpu.errors import ProtocolError, Unavailable
from mesos_gpu.mesos.leader import LABEL, SESSION_TIMEOUT_S, Leader, ZkUrl, leading, read_node

log = logging.getLogger(__name__)

MAX_VALUE = 1024 * 1000
"""Bytes that ZooKeeper takes in one node by default (jute.maxbuffer), with room for the request around them."""
_RETRY_MAX_S = 1.0
_RETRY_S = 0.1
# kazoo says much about every lost connection; we say once what it means.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class ZkSession:
    """One session. Reconnects forever; after an expiry it continues as a new session, and says so.

    Use it from one event loop. `on_lost()` is called there when the session expired, or must have: when nothing was
    heard from ZooKeeper for the session's time.
    """

    def __init__(self, url: ZkUrl, session_timeout_s: float, on_lost: Callable[[], None] | None = None) -> None:
        self.url, self._timeout_s, self._on_lost = url, session_timeout_s, on_lost
        self._loop = asyncio.get_running_loop()
        self._silence: asyncio.TimerHandle | None = None
        self._warned = self._expired = self._closing = False
        self._work: Callable[[], None] | None = None
        self._renew: Callable[[], None] | None = None
        auth = [("digest", url.credentials)] if url.credentials is not None else None
        self.client = KazooClient(
            hosts=url.hosts,
            timeout=session_timeout_s,
            auth_data=auth,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=_RETRY_MAX_S),
            command_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=_RETRY_MAX_S),
        )
        self.client.add_listener(self._state)

    @property
    def acl(self) -> Sequence[ACL]:
        """Return the ACL of election nodes, which contain addresses only: readable by all, as in Mesos.

        Without credentials also writable. Source: Mesos src/zookeeper/group.cpp, EVERYONE_READ_CREATOR_ALL.
        """
        if self.url.credentials is None:
            return list(OPEN_ACL_UNSAFE)
        return [make_acl("world", "anyone", read=True), *CREATOR_ALL_ACL]

    @property
    def private_acl(self) -> Sequence[ACL]:
        """Return the ACL of all other nodes: only for clients with the credentials; without credentials for all."""
        return list(OPEN_ACL_UNSAFE if self.url.credentials is None else CREATOR_ALL_ACL)

    def restrict(self, path: str, *, patience_s: float | None = None) -> None:
        """Give an existing node `acl`, so that only who has the credentials can add and remove nodes below it.

        Nothing happens without credentials. Raises KazooException, KazooTimeoutError.
        """
        if self.url.credentials is None:
            return
        found, _ = self.client.get_acls_async(path).get(timeout=patience_s)
        if any(acl.id.scheme == "world" and acl.perms != Permissions.READ for acl in found):
            self.client.set_acls_async(path, self.acl).get(timeout=patience_s)

    def close_to_others(self, path: str, *, patience_s: float) -> None:
        """Give a node, and all below it, `private_acl`.

        An earlier version, or a program without the credentials, may have created any of them with another ACL, so all
        are looked at, a level of the tree at a time. Nothing happens without credentials, and where there is no such
        node. Raises KazooException, KazooTimeoutError.
        """
        level = [] if self.url.credentials is None else [path]
        while level:
            asked = [(node, self.client.get_acls_async(node), self.client.get_children_async(node)) for node in level]
            level, changed = [], []
            for node, acls, children in asked:
                try:
                    found, _ = acls.get(timeout=patience_s)
                    level += [f"{node}/{child}" for child in children.get(timeout=patience_s)]
                except NoNodeError:
                    continue
                if any(acl.id.scheme == "world" for acl in found):
                    changed.append(self.client.set_acls_async(node, self.private_acl))
            for change in changed:
                change.get(timeout=patience_s)

    def start(self, work: Callable[[], None], renew: Callable[[], None]) -> None:
        """Connect, however long it takes, then call `work`; `renew` when a new session follows one that expired.

        Both are called in a thread of their own and may wait for answers.
        """
        self._work, self._renew = work, renew
        self.client.start_async()

    def _begin(self, work: Callable[[], None]) -> None:
        def begin() -> None:
            try:
                self.client.ensure_path(self.url.path, acl=self.acl)
                work()
            except (KazooException, KazooTimeoutError) as error:
                log.log(logging.DEBUG if self._closing else logging.ERROR, "%s: %s", self.url, _words(error))

        threading.Thread(target=begin, name="zookeeper", daemon=True).start()

    def call_in_loop(self, callback: Callable[[], None]) -> None:
        """Have something called in the event loop; nothing happens once that is closed."""
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            log.debug("the event loop is gone")

    async def close(self) -> None:
        """End the session: its ephemeral nodes are gone when this returns, if ZooKeeper answers."""
        self._on_lost, self._closing = None, True
        self._stop_waiting()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            self.client.stop()
            self.client.close()
        except KazooException as error:
            log.debug("closing %s: %s", self.url, error)

    def _state(self, state: str) -> None:
        """Take note of a change; kazoo calls this in its connection's thread, which must not wait."""
        if state == KazooState.LOST:
            self._expired = True
        elif state == KazooState.CONNECTED:
            work, self._work = self._work, None
            if work is None and self._expired:
                work = self._renew
            self._expired = False
            if work is not None:
                self._begin(work)
        self.call_in_loop(lambda: self._changed(state))

    def _changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._stop_waiting()
            if self._warned:
                log.info("connected with %s again", self.url)
                self._warned = False
        elif state == KazooState.SUSPENDED:
            log.warning("no connection with %s", self.url)
            self._warned = True
            self._silence = self._silence or self._loop.call_later(self._timeout_s, self._lost)
        else:
            self._lost()

    def _lost(self) -> None:
        self._stop_waiting()
        if self._on_lost is not None:
            log.warning("the session with %s is over", self.url)
            self._on_lost()

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


class ZkGroup:
    """The masters below one path: who leads, and, for a master, being one of them."""

    def __init__(
        self,
        url: ZkUrl,
        on_leader: Callable[[Leader | None], None],
        *,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        on_lost: Callable[[], None] | None = None,
        on_failed: Callable[[str], None] | None = None,
    ) -> None:
        """`on_leader` is told whenever the leader changes, in the event loop; None: nobody leads.

        While ZooKeeper cannot be reached the last leader stays. `on_lost`: our session is over, and our membership.
        `on_failed` is told what is wrong with the leader's node, when it cannot be read.
        """
        self._session = ZkSession(url, session_timeout_s, on_lost)
        self._on_leader = on_leader
        self._on_failed = on_failed
        self._told: Leader | None = None
        self._member: bytes | None = None

    @property
    def session(self) -> ZkSession:
        """Return the session, for a ZkValue beside the group."""
        return self._session

    def follow(self) -> None:
        """Tell who leads from now on."""
        self._session.start(self._watch, self._enter)

    def join(self, node: bytes) -> None:
        """Become a member with this content, then tell who leads from now on."""
        self._member = node
        self.follow()

    async def close(self) -> None:
        """Leave."""
        await self._session.close()

    def _watch(self) -> None:
        self._enter()
        self._session.client.ChildrenWatch(self._session.url.path)(self._children)  # it survives expiries by itself

    def _enter(self) -> None:
        client, path = self._session.client, self._session.url.path
        if self._member is not None:
            self._session.restrict(path)
            prefix = f"{path}/{LABEL}_"
            # Was the answer lost and the node made twice, both tell of the same master: whichever leads, it does.
            client.retry(client.create, prefix, self._member, self._session.acl, ephemeral=True, sequence=True)

    def _children(self, children: Sequence[str]) -> None:
        """Look who leads; called by kazoo, again after each change and reconnection."""
        client, path = self._session.client, self._session.url.path
        name = leading(children)
        if name is None:
            self._tell(None)
            return
        try:
            data, _ = client.retry(client.get, f"{path}/{name}")
            self._tell(read_node(name, data))
        except NoNodeError:
            log.debug("%s is gone; what follows it comes as a change of its own", name)
        except ProtocolError as error:
            words = f"{self._session.url}: {error}"
            log.error("%s", words)
            if self._on_failed is not None:
                failed = self._on_failed
                self._session.call_in_loop(lambda: failed(words))

    def _tell(self, leader: Leader | None) -> None:
        def tell() -> None:
            if leader != self._told:
                self._told = leader
                self._on_leader(leader)

        self._session.call_in_loop(tell)


class ZkValue:
    """One durable value beside a group, that only the newest owner may change: who wrote since we read is noticed.

    It lies below `log_replicas`, the one child of a group that every detector passes over (Mesos keeps its log there).
    Its calls wait for ZooKeeper: they belong into a thread, one at a time.
    """

    def __init__(self, session: ZkSession, name: str, *, patience_s: float) -> None:
        self._session, self._client, self._acl = session, session.client, session.private_acl
        self.path = f"{session.url.path}/log_replicas/{name}"
        self._patience_s = patience_s
        self._version: int | None = None

    def __str__(self) -> str:
        return f"{self.path} in ZooKeeper"

    def read(self) -> bytes | None:
        """Return the value, None when there is none yet; from now on we own it. Raises Unavailable."""
        try:
            self._session.close_to_others(self.path.rpartition("/")[0], patience_s=self._patience_s)
            data, stat = self._client.get_async(self.path).get(timeout=self._patience_s)
        except NoNodeError:
            self._version = None
            return None
        except (KazooException, KazooTimeoutError) as error:
            raise Unavailable(f"cannot read {self}: {_words(error)}") from None
        self._version = stat.version
        return bytes(data)

    def write(self, data: bytes) -> None:
        """Replace the value. Raises Unavailable when that fails, or another wrote since we read: it owns it now.

        A connection that breaks is not a failure while the session lasts: it is tried again for `patience_s` in all.
        """
        if len(data) > MAX_VALUE:
            raise Unavailable(f"cannot write {self}: {len(data)} bytes, and it takes {MAX_VALUE}")
        deadline_s = time.monotonic() + self._patience_s
        unsure = False
        while True:
            try:
                self._version = self._set(data, deadline_s - time.monotonic())
                return
            except ConnectionLoss as error:
                unsure, problem = True, error  # it may have arrived
            except (BadVersionError, NodeExistsError):
                if unsure and self._is_ours(data, deadline_s - time.monotonic()):
                    return
                raise Unavailable(f"{self} was written by another master, which leads now") from None
            except (KazooException, KazooTimeoutError) as error:
                raise Unavailable(f"cannot write {self}: {_words(error)}") from None
            if time.monotonic() >= deadline_s:
                raise Unavailable(f"cannot write {self}: {_words(problem)}")
            time.sleep(_RETRY_S)

    def _set(self, data: bytes, patience_s: float) -> int:
        if self._version is None:
            self._client.create_async(self.path, data, self._acl, makepath=True).get(timeout=patience_s)
            return 0
        version: int = self._client.set_async(self.path, data, self._version).get(timeout=patience_s).version
        return version

    def _is_ours(self, data: bytes, patience_s: float) -> bool:
        """Return whether the last change is one of ours whose answer was lost; from now on we know its version."""
        try:
            found, stat = self._client.get_async(self.path).get(timeout=patience_s)
        except (KazooException, KazooTimeoutError) as error:
            raise Unavailable(f"cannot write {self}: {_words(error)}") from None
        if bytes(found) != data or stat.version != (0 if self._version is None else self._version + 1):
            return False
        self._version = stat.version
        return True


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
