"""Finding the leading master, with a real ZooKeeper and real HTTP answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from kazoo.exceptions import ConnectionLoss

from mesos_gpu.errors import BadFlag, Unavailable
from mesos_gpu.mesos.leader import parse_zk_url, write_node
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.process.detector import FixedDetector, ListDetector, ZkDetector, open_detector
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from mesos_gpu.process.zookeeper import ZkGroup, ZkSession, ZkValue
from tests.support.golden import Golden
from tests.support.zookeeper import RealZooKeeper

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0


class Heard:
    """What a detector told, one after the other."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.told: asyncio.Queue[Pid | None] = asyncio.Queue()
        self._patience_s = patience_s

    def __call__(self, leader: Pid | None) -> None:
        self.told.put_nowait(leader)

    async def next(self) -> Pid | None:
        return await asyncio.wait_for(self.told.get(), self._patience_s)


def node(number: int) -> bytes:
    pid = f"master@10.0.0.{number}:5050"
    return write_node({"id": str(number), "ip": 0, "port": 5050, "pid": pid, "hostname": f"m{number}"})


def pid(number: int) -> Pid:
    return Pid("master", f"10.0.0.{number}", 5050)


@asynccontextmanager
async def master(redirect: Callable[[], str]) -> AsyncIterator[str]:
    """A port that says who leads; yields its host:port."""

    async def answer(request: web.Request) -> web.Response:
        where = redirect()
        return web.Response(status=307, headers={"Location": where}) if where else web.Response(status=503)

    app = make_app()
    app.router.add_get("/master/redirect", answer)
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    try:
        yield f"127.0.0.1:{endpoint.port}"
    finally:
        await endpoint.stop()


async def test_a_fixed_address_is_told_once_and_a_name_is_resolved() -> None:
    heard = Heard()
    detector = open_detector("master", "localhost:5051")
    assert isinstance(detector, FixedDetector)
    await detector.start(heard)
    assert await heard.next() == Pid("master", "127.0.0.1", 5051)
    with pytest.raises(Unavailable, match=r"no\.such\.host\.invalid"):
        await open_detector("master", "no.such.host.invalid:5050").start(heard)
    with pytest.raises(BadFlag):
        open_detector("master", "zk://nopath")


async def test_of_a_list_the_one_that_others_call_the_leader_is_found_and_followed() -> None:
    leader, heard = ["//127.0.0.1:7001"], Heard()
    async with master(lambda: "") as silent, master(lambda: leader[0]) as standby:
        found = open_detector("master", f"{silent},{standby}")
        assert isinstance(found, ListDetector)
        detector = ListDetector(found._where, interval_s=0.01)
        await detector.start(heard)
        try:
            assert await heard.next() == Pid("master", "127.0.0.1", 7001)
            leader[0] = "//127.0.0.1:7002"
            assert await heard.next() == Pid("master", "127.0.0.1", 7002)
            leader[0] = ""  # nobody knows: the last one stays
            leader[0] = "//127.0.0.1:7003"
            assert await heard.next() == Pid("master", "127.0.0.1", 7003)
        finally:
            await detector.close()


async def test_a_doubt_has_the_masters_of_a_list_asked_at_once() -> None:
    leader, heard = ["//127.0.0.1:7001"], Heard()
    async with master(lambda: leader[0]) as only:
        detector = ListDetector(open_detector("master", f"{only},{only}")._where, interval_s=3600.0)
        await detector.start(heard)
        try:
            assert await heard.next() == Pid("master", "127.0.0.1", 7001)
            leader[0] = "//127.0.0.1:7002"
            detector.doubt()
            assert await heard.next() == Pid("master", "127.0.0.1", 7002)
        finally:
            await detector.close()


async def test_a_list_is_asked_more_seldom_once_the_same_has_led_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    over = asyncio.Event()

    async def pause(detector: ListDetector, seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 20:
            leader[0] = "//127.0.0.1:7002"
        if len(pauses) >= 40:
            over.set()
        await asyncio.sleep(0)
        return len(pauses) == 15

    monkeypatch.setattr(ListDetector, "_pause", pause)
    leader = ["//127.0.0.1:7001"]
    async with master(lambda: leader[0]) as only:
        detector = ListDetector(open_detector("master", f"{only},{only}")._where, interval_s=5.0)
        await detector.start(Heard())
        try:
            await asyncio.wait_for(over.wait(), PATIENCE_S)
        finally:
            await detector.close()
    often, seldom = 5.0, 15.0
    assert pauses[:12] == [often] * 12
    assert pauses[12:15] == [seldom] * 3, "twelve more have named it"
    assert pauses[15:20] == [often] * 5, "there was doubt"
    assert pauses[20:32] == [often] * 12, "another leads"
    assert pauses[32:40] == [seldom] * 8


async def test_in_zookeeper_the_leader_is_found_when_it_comes_changes_and_goes(zookeeper: RealZooKeeper) -> None:
    url, heard = zookeeper.url("detect/mesos"), Heard()
    detector = open_detector("master", url)
    assert isinstance(detector, ZkDetector)
    await detector.start(heard)
    groups = []
    try:
        for number in (1, 2):
            group = ZkGroup(parse_zk_url("zk", url), lambda leader: None, session_timeout_s=2.0)
            groups.append(group)
            group.join(node(number))
            if number == 1:
                while await heard.next() != pid(1):
                    pass  # first there was none
        await groups[0].close()
        while (told := await heard.next()) is None:
            pass  # between the two there may be none for a moment
        assert told == pid(2)
        await groups[1].close()
        assert await heard.next() is None
    finally:
        await detector.close()
        for group in groups:
            await group.close()


async def test_a_session_that_expires_is_told_and_the_member_comes_back(zookeeper: RealZooKeeper) -> None:
    url = parse_zk_url("zk", zookeeper.url("expiry"))
    leaders: asyncio.Queue[object] = asyncio.Queue()
    lost = asyncio.Event()
    group = ZkGroup(url, leaders.put_nowait, session_timeout_s=2.0, on_lost=lost.set)
    group.join(node(7))
    try:
        while await asyncio.wait_for(leaders.get(), PATIENCE_S) is None:
            pass
        await asyncio.to_thread(zookeeper.end_session, group.session.client.client_id)
        await asyncio.wait_for(lost.wait(), PATIENCE_S)
        while await asyncio.wait_for(leaders.get(), PATIENCE_S) is not None:
            pass
        assert await asyncio.wait_for(leaders.get(), PATIENCE_S) is not None  # a follower contends again
    finally:
        await group.close()


@pytest.mark.timeout(400)
async def test_zookeeper_away_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    # A busy machine may take long to start it again: the sessions must outlive that (a server lets them last 20 ticks).
    server, session_s = RealZooKeeper(tmp_path / "zookeeper", tick_ms=3000), 60.0
    # One that is just starting may take a request and never answer; kazoo waits a session's time, then asks again.
    heard, lost = Heard(2 * session_s), asyncio.Event()
    url = parse_zk_url("zk", server.url("mesos"))
    detector = ZkDetector(url, session_s)
    await detector.start(heard)  # before there is a ZooKeeper
    group = ZkGroup(url, lambda leader: None, session_timeout_s=session_s, on_lost=lost.set)
    group.join(node(1))
    second = ZkGroup(url, lambda leader: None, session_timeout_s=session_s)
    try:
        await asyncio.to_thread(server.start)
        while await heard.next() is None:
            pass
        server.stop()
        await asyncio.to_thread(server.start)
        second.join(node(2))
        client = group.session.client
        await asyncio.to_thread(client.retry, client.exists, "/mesos")  # connected again: leaving is told at once
        await group.close()
        while (told := await heard.next()) is None:
            pass
        assert told == pid(2)
        assert not lost.is_set()
    finally:
        await detector.close()
        await group.close()
        await second.close()
        server.stop()


async def test_a_value_belongs_to_the_last_who_wrote_it(zookeeper: RealZooKeeper, golden: Golden) -> None:
    url = parse_zk_url("zk", zookeeper.url("value"))
    sessions = [ZkSession(url, 10.0), ZkSession(url, 10.0)]
    try:
        for session in sessions:
            connected = asyncio.Event()
            session.start(partial(session.call_in_loop, connected.set), lambda: None)
            await asyncio.wait_for(connected.wait(), PATIENCE_S)
        first, second = (ZkValue(session, "registry", patience_s=10.0) for session in sessions)
        assert first.read() is None
        first.write(b"one")
        assert second.read() == b"one"
        second.write(b"two")
        with pytest.raises(Unavailable) as refused:
            first.write(b"late")
        assert str(refused.value) == golden
        second.write(b"three")
        assert first.read() == b"three"
        with pytest.raises(Unavailable) as refused:
            first.write(b"x" * 2_000_000)
        assert str(refused.value) == golden
    finally:
        for session in sessions:
            await session.close()


async def test_a_write_whose_answer_was_lost_is_made_once_and_known_to_be_made(
    zookeeper: RealZooKeeper, golden: Golden
) -> None:
    class Value(ZkValue):
        """Loses the connection right before or right after the next writes."""

        lost: list[str]

        def _set(self, data: bytes, patience_s: float) -> int:
            when = self.lost.pop(0) if self.lost else ""
            version = 0 if when == "before" else super()._set(data, patience_s)
            if when:
                raise ConnectionLoss
            return version

    session = ZkSession(parse_zk_url("zk", zookeeper.url("lost-answers")), 10.0)
    try:
        connected = asyncio.Event()
        session.start(partial(session.call_in_loop, connected.set), lambda: None)
        await asyncio.wait_for(connected.wait(), PATIENCE_S)
        ours, other = Value(session, "registry", patience_s=10.0), ZkValue(session, "registry", patience_s=10.0)
        for lost in (["after"], ["before", "after"], ["before", "before"], ["after"]):
            ours.lost = lost
            data = str(lost).encode()
            await asyncio.to_thread(ours.write, data)
            assert (other.read(), ours.lost) == (data, [])
        await asyncio.to_thread(other.write, b"other")
        ours.lost = ["before"]
        with pytest.raises(Unavailable) as refused:
            await asyncio.to_thread(ours.write, b"late")
        assert str(refused.value) == golden
        impatient = Value(session, "registry", patience_s=0.0)
        impatient.lost = ["before"]
        with pytest.raises(Unavailable, match="ConnectionLoss"):
            await asyncio.to_thread(impatient.write, b"never")
        assert other.read() == b"other"
    finally:
        await session.close()
