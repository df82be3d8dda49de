"""Two clusters: a master whose registry has an agent that belongs to the other one leaves it alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.model import KnownAgent
from mesos_gpu.master.model.record import Record
from mesos_gpu.mesos.messages import encode
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support.cluster import cluster_agent
from tests.support.master.build import report
from tests.support.master.live import PREFIX, live_master, soon, until

PACE = ("--agent_ping_timeout=20ms", "--agent_reregister_timeout=300ms")


async def test_a_stray_master_does_not_disturb_an_agent_in_its_registry(tmp_path: Path) -> None:
    async with live_master(tmp_path / "production") as production:
        address = production.url.removeprefix("http://")
        async with cluster_agent(tmp_path / "agent", address) as agent:
            await soon(agent.agent.registered.wait())
            counters, agent_id = production.engine.state.counters, str(agent.agent.agent_id)
            pid = agent.agent.state.identity.pid
            known = KnownAgent(report(agent_id=agent_id).info, pid)
            (tmp_path / "stray").mkdir()
            Registry(tmp_path / "stray").save(Record(agents={agent_id: known}))
            async with live_master(tmp_path / "stray", *PACE) as stray:
                assert list(stray.engine.state.recovered) == [agent_id]
                await until(lambda: agent_id in stray.engine.state.unreachable)
            assert agent.agent.registered.is_set()
            assert (counters["messages_register_slave"], counters["messages_reregister_slave"]) == (1, 0)


async def test_nor_does_one_that_calls_the_agent_disconnected(tmp_path: Path) -> None:
    """As masters of earlier versions did after their start, to each address in their registry."""
    async with live_master(tmp_path / "production") as production:
        address = production.url.removeprefix("http://")
        async with cluster_agent(tmp_path / "agent", address) as agent:
            await soon(agent.agent.registered.wait())
            stray, pongs = Endpoint("127.0.0.1", 0), asyncio.Queue[str]()
            await stray.start(make_app())
            try:
                stray.spawn("slave-observer(1)", lambda message: pongs.put_nowait(message.name), None)
                for _ in range(3):
                    name = f"{PREFIX}PingSlaveMessage"
                    to = agent.endpoint.pid("slave(1)")
                    stray.send("slave-observer(1)", to, name, encode(name, {"connected": False}))
                    assert await soon(pongs.get()) == f"{PREFIX}PongSlaveMessage"
            finally:
                await stray.stop()
            assert agent.agent.registered.is_set()
            assert production.engine.state.counters["messages_reregister_slave"] == 0


async def test_an_agent_is_back_soon_after_its_master_was_away_for_many_tries(tmp_path: Path) -> None:
    async with live_master(tmp_path / "master") as first:
        port, address = first.endpoint.port, first.url.removeprefix("http://")
        agent_of = cluster_agent(tmp_path / "agent", address)
        agent = await agent_of.__aenter__()
        await soon(agent.agent.registered.wait())
    try:
        await until(lambda: agent.agent.membership.registration.tries >= 6)
        async with live_master(tmp_path / "master", f"--port={port}") as second:
            await asyncio.wait_for(agent.agent.registered.wait(), 10.0)
            assert not second.engine.state.recovered
    finally:
        await agent_of.__aexit__(None, None, None)
