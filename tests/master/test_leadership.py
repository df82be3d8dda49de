"""Several masters: one leads, the others redirect, and the next one continues where it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import aiohttp
import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.leadership import Leadership
from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos.leader import Leader, ZkUrl
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.process import zookeeper
from tests.support.master.build import framework_info, task_info
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, soon, until
from tests.support.zookeeper import RealZooKeeper


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def get(http: aiohttp.ClientSession, master: RunningMaster, path: str) -> tuple[int, str]:
    async with http.get(master.url + path, allow_redirects=False) as answer:
        await answer.read()
        return answer.status, answer.headers.get("Location", "")


@pytest.mark.slow
async def test_the_second_stands_by_and_goes_on_when_the_first_ends(
    tmp_path: Path, zookeeper: RealZooKeeper, http: aiohttp.ClientSession
) -> None:
    zk = [f"--zk={zookeeper.url('ha')}", "--zk_session_timeout=2secs"]
    async with AsyncExitStack() as stack:
        firsts = await stack.enter_async_context(AsyncExitStack())
        first = await firsts.enter_async_context(live_master(tmp_path / "1", *zk))
        await until(lambda: first.leadership.leading)
        second = await stack.enter_async_context(live_master(tmp_path / "2", *zk))
        await until(lambda: second.leadership.leader is not None)

        # The one that does not lead says where the leader is, whatever is asked, but for what is about itself.
        where = first.url.removeprefix("http:")
        assert await get(http, second, "/master/state?jsonp=f") == (307, f"{where}/master/state?jsonp=f")
        assert await get(http, second, "/redirect") == (307, where)
        assert await get(http, second, "/master/redirect") == (307, where)
        for path in ("/health", "/version", "/metrics/snapshot"):
            assert (await get(http, second, path))[0] == 200
        async with http.post(f"{second.url}/api/v1/scheduler", json={}, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (307, f"{where}/api/v1/scheduler")

        agent, stray = ScriptedAgent(first.url), ScriptedAgent(second.url)
        for scripted in (agent, stray):
            await scripted.start()
            stack.push_async_callback(scripted.stop)
        # Messages are never redirected: the one that stands by takes them and drops them.
        stray.introduce("RegisterSlaveMessage")
        await agent.register()

        await firsts.aclose()
        await until(lambda: second.leadership.leading)
        assert await get(http, second, "/redirect") == (307, second.url.removeprefix("http:"))
        # It knows the agent of the first: it waits for it without pinging it, and takes it back under its id.
        assert all(ping["connected"] for ping in agent.pings)
        agent.master = second.endpoint.pid("master")
        answer = await agent.reregister([], [])
        assert answer["slave_id"] == {"value": agent.id}
        assert list(second.engine.state.agents) == [agent.id]
        assert stray.messages.empty()


@pytest.mark.slow
async def test_a_leader_without_its_session_stops_and_writes_no_more(tmp_path: Path, zookeeper: RealZooKeeper) -> None:
    zk = [f"--zk={zookeeper.url('lost')}", "--zk_session_timeout=2secs"]
    async with live_master(tmp_path / "1", *zk) as first, live_master(tmp_path / "2", *zk) as second:
        await until(lambda: first.leadership.leading or second.leadership.leading)
        leader, standby = (first, second) if first.leadership.leading else (second, first)
        assert leader.group is not None
        await asyncio.to_thread(zookeeper.end_session, leader.group.session.client.client_id)
        with pytest.raises(Unavailable, match="lost the"):
            await soon(asyncio.shield(leader.engine.failed))
        await until(lambda: standby.leadership.leading)
        assert standby.engine.failed.done() is False


@pytest.mark.slow
async def test_a_leader_goes_on_while_zookeeper_is_silent_and_answers_later_who_needs_it(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    # Busy machines may take long over what is done while it is silent: sessions last 20 ticks at most.
    zookeeper = RealZooKeeper(tmp_path / "zookeeper", tick_ms=3000)
    zk = [f"--zk={zookeeper.url('silent')}", "--zk_session_timeout=60secs", "--registry_store_timeout=60secs"]
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(zookeeper.start)
        stack.callback(zookeeper.stop)
        master = await stack.enter_async_context(live_master(tmp_path / "1", "--check_invariants", *zk))
        await until(lambda: master.leadership.leading)
        agent, late, scheduler = ScriptedAgent(master.url), ScriptedAgent(master.url), Scheduler(master.url)
        stack.push_async_callback(scheduler.close)
        for scripted in (agent, late):
            await scripted.start()
            stack.push_async_callback(scripted.stop)
        await agent.register()
        await scheduler.subscribe(framework_info())
        offer = await scheduler.offer()
        zookeeper.pause()
        stack.callback(zookeeper.resume)
        late.introduce("RegisterSlaveMessage")
        weights = scheduler.operate("UPDATE_WEIGHTS", {"weight_infos": [{"role": "ml", "weight": 2.0}]})
        operator = asyncio.create_task(weights)
        await until(lambda: master.engine.metrics()["registrar/queued_operations"] == 2)
        assert (await get(http, master, "/health"))[0] == 200
        await scheduler.launch(offer, task_info(master.engine.state.agents[agent.id]))
        agent.update(await agent.message("RunTaskMessage"), "TASK_RUNNING")
        assert (await scheduler.status())["state"] == "TASK_RUNNING"
        assert late.messages.empty()
        assert not operator.done()
        zookeeper.resume()
        assert (await late.message("SlaveRegisteredMessage"))["slave_id"]["value"] in master.engine.state.agents
        assert await soon(operator) == (200, "")
        assert not master.engine.failed.done()


@pytest.mark.slow
async def test_without_a_leader_a_request_waits_a_little_and_is_refused(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    nowhere = RealZooKeeper(tmp_path / "never started")
    async with live_master(tmp_path / "1", f"--zk={nowhere.url('mesos')}") as master:
        assert await get(http, master, "/state") == (503, "")
        assert (await get(http, master, "/health"))[0] == 200


def test_who_leads_is_known_by_the_masters_id() -> None:
    async def told() -> None:
        leadership = Leadership("me")
        assert leadership.heard(None) is False
        assert leadership.heard(Leader(Pid("master", "1.2.3.4", 5050), {"id": "other"})) is False
        assert leadership.heard(Leader(Pid("master", "1.2.3.4", 5050), {"id": "me"})) is True

    asyncio.run(told())


class FakeGroup:
    """A group of masters whose leader the test chooses."""

    def __init__(
        self,
        url: ZkUrl,
        on_leader: Callable[[Leader | None], None],
        *,
        session_timeout_s: float,
        on_lost: Callable[[], None],
    ) -> None:
        self.session, self.on_leader, self.on_lost = SimpleNamespace(url=url), on_leader, on_lost

    def join(self, node: bytes) -> None:
        self.node = node

    async def close(self) -> None:
        pass


OTHER = Leader(Pid("master", "192.0.2.1", 5050), {"id": "other"})


@pytest.mark.parametrize(
    "end",
    [lambda group: group.on_leader(OTHER), lambda group: group.on_leader(None), lambda group: group.on_lost()],
    ids=["another leads", "no master leads", "session lost"],
)
async def test_a_master_that_is_not_the_leader_any_more_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[FakeGroup], None]
) -> None:
    monkeypatch.setattr(zookeeper, "ZkGroup", FakeGroup)
    monkeypatch.setattr(RunningMaster, "_keeper", lambda *_: tmp_path)
    async with live_master(tmp_path, "--zk=zk://192.0.2.2:2181/mesos") as master:
        group = cast(FakeGroup, master.group)
        group.on_leader(Leader(master.endpoint.pid("master"), {"id": master.engine.state.id}))
        await until(lambda: master.leadership.leading)
        assert not master.engine.failed.done()
        end(group)
        with pytest.raises(Unavailable):
            await soon(asyncio.shield(master.engine.failed))
