"""A drained agent continues draining over its own restart, until its last task is gone."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.messages import devolve
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import AGENT_ID, framework, task
from tests.support.cluster import cluster_agent
from tests.support.master.live import soon, until


async def test_draining_outlives_the_agent_and_ends_with_the_last_task(tmp_path: Path) -> None:
    master = await ScriptedMaster(AGENT_ID).start()
    info = devolve("mesos.FrameworkInfo", framework("PARTITION_AWARE"))
    config = {"max_grace_period": {"nanoseconds": 5 * 10**9}, "mark_gone": False}
    saved = tmp_path / "agent" / "meta" / "slaves" / AGENT_ID / "drain.config"
    try:
        async with cluster_agent(tmp_path / "agent", f"127.0.0.1:{master.pid.port}") as agent:
            await soon(agent.agent.registered.wait())
            agent.containers.obeys = False
            master.run(info, devolve("mesos.TaskInfo", task("old")))
            await master.reaches("old", "TASK_RUNNING")
            master.send("DrainSlaveMessage", {"config": config})
            await until(lambda: bool(agent.containers.kills))
            assert agent.containers.kills[0][1] <= 5.0, "the grace is capped"
            assert saved.exists()

            await agent.stop()
            await agent.start()
            await soon(agent.agent.registered.wait())
            master.run(info, devolve("mesos.TaskInfo", task("new")))
            refused = await master.reaches("new", "TASK_DROPPED")
            assert refused["status"]["reason"] == "REASON_SLAVE_DRAINING"

            (container,) = agent.containers.running
            agent.containers.end(container, Termination(signal=9))
            ended = await master.reaches("old", "TASK_KILLED")
            assert ended["status"]["reason"] == "REASON_SLAVE_DRAINING"
            await until(lambda: not saved.exists())
            master.run(info, devolve("mesos.TaskInfo", task("later")))
            await master.reaches("later", "TASK_RUNNING")
    finally:
        await master.stop()
