"""Two masters and an agent that find each other through a real ZooKeeper: the leader dies under a running task."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.agent.documents import task
from tests.support.cluster import cluster_agent
from tests.support.master.build import framework_info
from tests.support.master.live import Scheduler, live_master, soon, until
from tests.support.zookeeper import RealZooKeeper


async def test_the_next_master_has_the_agent_the_task_and_the_framework(
    tmp_path: Path, zookeeper: RealZooKeeper
) -> None:
    url = zookeeper.url("failover/mesos")
    flags = [f"--zk={url}", "--zk_session_timeout=2secs"]
    async with AsyncExitStack() as stack:
        leaving = await stack.enter_async_context(AsyncExitStack())
        first = await leaving.enter_async_context(live_master(tmp_path / "m1", *flags))
        await until(lambda: first.leadership.leading)
        second = await stack.enter_async_context(live_master(tmp_path / "m2", *flags))
        agent = await stack.enter_async_context(cluster_agent(tmp_path / "agent", url))
        await soon(agent.agent.registered.wait())
        assert agent.agent.master == first.endpoint.pid("master")

        scheduler = Scheduler(first.url)
        stack.push_async_callback(scheduler.close)
        await scheduler.subscribe(framework_info())
        offer = await scheduler.offer()
        document = {**task("t", gpus=1), "agent_id": offer["agent_id"]}
        await scheduler.launch(offer, document)
        states = []
        while "TASK_RUNNING" not in states:
            status = await scheduler.status()
            states.append(status["state"])
            await scheduler.acknowledge(status)
        agent_id, framework_id = agent.agent.agent_id, scheduler.framework_id

        await leaving.aclose()  # its node is gone from ZooKeeper
        await until(lambda: second.leadership.leading)
        await until(lambda: agent.agent.master == second.endpoint.pid("master") and agent.agent.registered.is_set())
        assert agent.agent.agent_id == agent_id
        back = Scheduler(second.url)
        stack.push_async_callback(back.close)
        await back.subscribe(framework_info(), framework_id)
        (known,) = second.engine.state.agents.values()
        assert [(t.id, t.state) for t in known.tasks.values()] == [("t", "TASK_RUNNING")]
        await back.call("KILL", {"task_id": {"value": "t"}})
        status = await back.status()
        assert status["state"] == "TASK_KILLED"
