"""A tree that one owner changes, in a real ZooKeeper."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoAuthError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE

from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.leader import parse_zk_url
from mesos_gpu.process.zookeeper import ZkGroup, ZkSession, ZkValue
from mesos_gpu.process.zookeeper_tree import REQUEST_BYTES, ZkTree
from tests.support.golden import Golden
from tests.support.zookeeper import RealZooKeeper

pytestmark = pytest.mark.slow

NODE = b'{"pid": "master@127.0.0.1:5050", "hostname": "h", "port": 5050}'


@pytest.fixture
async def session(zookeeper: RealZooKeeper) -> AsyncIterator[ZkSession]:
    made = ZkSession(parse_zk_url("zk", zookeeper.url(uuid.uuid4().hex)), 5.0)
    connected = asyncio.Event()
    made.start(lambda: made.call_in_loop(connected.set), lambda: None)
    await asyncio.wait_for(connected.wait(), 60)
    yield made
    await made.close()


def tree(session: ZkSession, patience_s: float = 10) -> ZkTree:
    return ZkTree(session, session.url.path, patience_s=patience_s)


def content(of: ZkTree) -> dict[str, bytes]:
    return {path: document.data for path, document in of.claim().items()}


def large(count: int) -> dict[str, bytes]:
    return {f"k/{n}/doc": bytes([n]) * (REQUEST_BYTES // 2) for n in range(count)}


def test_documents_are_made_changed_and_removed_with_what_is_below(session: ZkSession) -> None:
    mine = tree(session)
    assert content(mine) == {}
    mine.write([("a/b/c", b"1"), ("a/b/d", b"2"), ("e", b"3")])
    mine.write([("a/b", None), ("e", b"4"), ("not/there", None), ("a/b/f", b"5")])
    mine.write([])
    assert content(tree(session)) == {"e": b"4", "a/b/f": b"5"}


def test_the_order_in_which_documents_were_made_is_told(session: ZkSession) -> None:
    mine = tree(session)
    mine.claim()
    for name in ("z", "a", "m"):
        mine.write([(name, b"1")])
    mine.write([("z", b"2")])
    found = tree(session).claim()
    assert sorted(found, key=lambda path: found[path].made) == ["z", "a", "m"]


def test_only_the_last_owner_writes(session: ZkSession, golden: Golden) -> None:
    first, second = tree(session), tree(session)
    first.claim()
    second.claim()
    with pytest.raises(Unavailable) as refused:
        first.write([("a", b"1")])
    assert str(refused.value) == golden.hide(path=session.url.path)
    second.write([("a", b"2")])
    assert content(second) == {"a": b"2"}


def test_of_many_who_write_at_once_only_the_last_owner_gets_through(session: ZkSession) -> None:
    written: list[str] = []

    def own(name: str) -> None:
        mine = tree(session)
        try:
            mine.claim()
            for n in range(20):
                mine.write([("who", name.encode()), (f"{name}/{n}", b"x")])
        except Unavailable:
            return
        written.append(name)

    threads = [threading.Thread(target=own, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = content(tree(session))
    assert written
    assert found["who"] == written[-1].encode()
    assert all(f"{name}/19" in found for name in written)


def test_another_programs_tree_is_left_alone(session: ZkSession, golden: Golden) -> None:
    client: KazooClient = session.client
    client.create(f"{session.url.path}/state/apps", b"protobuf", makepath=True)
    with pytest.raises(Unavailable) as refused:
        tree(session).claim()
    assert str(refused.value) == golden.hide(path=session.url.path)
    assert client.get_children(f"{session.url.path}/state") == ["apps"]


@pytest.mark.parametrize("broken_at", range(8))
def test_a_large_change_that_breaks_off_happens_wholly_or_not_at_all(
    session: ZkSession, monkeypatch: pytest.MonkeyPatch, broken_at: int
) -> None:
    mine = tree(session)
    mine.claim()
    mine.write([("before", b"1"), ("k/0/doc", b"old")])
    commit, requests = mine._commit, iter(range(100))

    def breaking(steps: Any) -> None:
        if next(requests) == broken_at:
            raise ConnectionLoss("killed")
        commit(steps)

    monkeypatch.setattr(mine, "_commit", breaking)
    broken = False
    try:
        mine.write([*large(3).items(), ("before", None)])
    except Unavailable:
        broken = True
    assert broken == (broken_at < 8)
    old, new = {"before": b"1", "k/0/doc": b"old"}, large(3)
    # Three parts and the mark that they are whole: from there on it has happened.
    assert content(tree(session)) == (new if broken_at > 3 else old)
    assert session.client.get_children(f"{session.url.path}/journal") == []
    assert content(tree(session)) == (new if broken_at > 3 else old), "nothing is done twice"


@pytest.mark.parametrize("arrived", [True, False])
def test_a_change_whose_answer_was_lost_is_made_once(
    session: ZkSession, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    mine = tree(session)
    mine.claim()
    real, lost = session.client.transaction, iter([True])

    class Lossy:
        def __init__(self) -> None:
            self._real = real()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def commit_async(self) -> Any:
            if next(lost, False):
                if arrived:
                    self._real.commit()
                raise ConnectionLoss("the answer is gone")
            return self._real.commit_async()

    monkeypatch.setattr(session.client, "transaction", Lossy)
    mine.write([("a", b"1")])
    mine.write([("a", b"2"), ("b", b"3")])
    assert content(tree(session)) == {"a": b"2", "b": b"3"}


def test_a_server_that_is_away_is_waited_for_and_given_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    async def work(server: RealZooKeeper) -> None:
        session = ZkSession(parse_zk_url("zk", server.url("m")), 40.0)
        connected = asyncio.Event()
        session.start(lambda: session.call_in_loop(connected.set), lambda: None)
        await asyncio.wait_for(connected.wait(), 60)
        mine = tree(session, patience_s=60)
        await asyncio.to_thread(mine.claim)
        server.stop()
        writing = asyncio.ensure_future(asyncio.to_thread(mine.write, [("a", b"1")]))
        await asyncio.to_thread(server.start)
        await writing
        assert content(tree(session)) == {"a": b"1"}
        hasty = tree(session, patience_s=0.5)
        hasty.claim()
        server.stop()
        with pytest.raises(Unavailable, match="cannot write"):
            await asyncio.to_thread(hasty.write, [("a", b"2")])
        await session.close()

    with RealZooKeeper(tmp_path_factory.mktemp("away"), tick_ms=2000) as server:
        asyncio.run(work(server))


async def test_with_credentials_nobody_else_reads_or_changes_the_tree(zookeeper: RealZooKeeper) -> None:
    path = uuid.uuid4().hex
    election = zookeeper.url(f"{path}/leader")
    closed = election.replace("zk://", "zk://ann:secret@")
    stranger = KazooClient(hosts=zookeeper.hosts)
    await asyncio.to_thread(stranger.start)

    async def write(url: str, text: bytes) -> dict[str, bytes]:
        """As a leader: its election is below the path of its tree."""
        elected = asyncio.Event()
        group = ZkGroup(parse_zk_url("zk", url), lambda leader: leader and elected.set(), session_timeout_s=5.0)
        group.join(NODE)
        await asyncio.wait_for(elected.wait(), 60)
        mine = ZkTree(group.session, f"/{path}", patience_s=10)
        value = ZkValue(group.session, "value", patience_s=10)

        def work() -> dict[str, bytes]:
            before = content(mine)
            mine.write([("apps/one", text)])
            value.read()
            value.write(text)
            return before

        try:
            return await asyncio.to_thread(work)
        finally:
            await group.close()

    assert await write(election, b"open") == {}
    nodes = [f"/{path}/{name}" for name in ("state", "state/apps/one", "owner", "leader/log_replicas/value")]
    for node in nodes:
        assert stranger.get(node)[0]
    # Nodes that were created without credentials are closed by a leader that has them.
    assert await write(closed, b"closed") == {"apps/one": b"open"}
    for node in nodes:
        with pytest.raises(NoAuthError):
            stranger.get(node)
    for change in (
        lambda: stranger.set(f"/{path}/owner", b"x"),
        lambda: stranger.create(f"/{path}/state/apps/two", b"x"),
        lambda: stranger.create(f"/{path}/journal/whole", b"0"),
        *(lambda node=node: stranger.delete(node) for node in nodes),
        *(lambda name=name: stranger.delete(f"/{path}/{name}") for name in ("journal", "leader/log_replicas")),
        lambda: stranger.create(f"/{path}/new", b"x"),
        lambda: stranger.create(f"/{path}/leader/json.info_0000000009", b"{}"),
    ):
        with pytest.raises((NoAuthError, NotEmptyError)) as refused:
            change()
        assert refused.type is NoAuthError
    assert "owner" in stranger.get_children(f"/{path}"), "the names of nodes are no secret"
    assert "log_replicas" in stranger.get_children(f"/{path}/leader"), "elections are read without credentials"
    # A leader of an earlier version, or without the credentials, has created open nodes since.
    open_again = KazooClient(hosts=zookeeper.hosts, auth_data=[("digest", "ann:secret")])
    await asyncio.to_thread(open_again.start)
    open_again.set_acls(nodes[1], OPEN_ACL_UNSAFE)
    assert await write(closed, b"again") == {"apps/one": b"closed"}
    with pytest.raises(NoAuthError):
        stranger.get(nodes[1])
    for client in (stranger, open_again):
        await asyncio.to_thread(client.stop)
        client.close()


async def test_who_only_follows_an_election_leaves_its_nodes_as_they_are(zookeeper: RealZooKeeper) -> None:
    path = uuid.uuid4().hex
    client = KazooClient(hosts=zookeeper.hosts)
    await asyncio.to_thread(client.start)
    client.ensure_path(f"/{path}")
    heard = asyncio.Event()
    url = zookeeper.url(path).replace("zk://", "zk://ann:secret@")
    group = ZkGroup(parse_zk_url("zk", url), lambda leader: heard.set(), session_timeout_s=5.0)
    group.follow()
    client.create(
        f"/{path}/json.info_", b'{"pid": "master@127.0.0.1:5050", "hostname": "h", "port": 5050}', sequence=True
    )
    await asyncio.wait_for(heard.wait(), 60)
    assert client.get_acls(f"/{path}")[0] == OPEN_ACL_UNSAFE
    await group.close()
    await asyncio.to_thread(client.stop)
    client.close()
