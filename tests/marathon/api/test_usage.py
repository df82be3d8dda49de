"""What tasks had and used, asked over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from mesos_gpu.errors import Unavailable
from mesos_gpu.marathon.engine.sampler import Sampler
from tests.support.marathon.service import Marathon


async def no_slaves() -> list[Any]:
    raise Unavailable("the master does not answer")


async def test_hours_are_told_by_app_role_and_user_over_a_restart(marathon: Marathon) -> None:
    now_s = marathon.scheduler.clock()
    await marathon.running(gpus=2, user="ann")
    marathon.scheduler.clock = lambda: now_s + 1800
    found = await marathon.get("/v1/usage")
    (mine,) = found["usage"]
    assert (mine["app"], mine["user"], found["by"]) == ("/a", "ann", "app")
    assert 0.99 < mine["gpuHours"] <= 1.01
    assert mine["gpuEfficiency"] is None
    (task_id,) = [task["id"] for task in (await marathon.get("/v2/tasks"))["tasks"]]
    assert (await marathon.call("DELETE", "/v2/apps//a")).status == 200
    await marathon.say(task_id, "TASK_KILLED")
    ended = (await marathon.get("/v1/usage?by=user"))["usage"]
    assert [(each["user"], each["tasksEnded"]) for each in ended] == [("ann", 1)]
    await marathon.restart()
    assert (await marathon.get("/v1/usage?by=user"))["usage"] == ended
    assert (await marathon.get("/v1/usage?app=/other"))["usage"] == []
    assert (await marathon.get("/v1/usage?since=2999-01-01T00:00:00.000Z"))["usage"] == []


async def test_what_is_no_time_or_no_group_is_refused(marathon: Marathon) -> None:
    for query in ("by=nobody", "since=yesterday"):
        assert (await marathon.call("GET", f"/v1/usage?{query}")).status in (400, 422)


async def test_what_agents_measure_is_told_and_who_does_not(marathon: Marathon) -> None:
    (task_id,) = await marathon.running(gpus=1)
    say: list[Any] = []

    async def ask(agent_id: str, path: str) -> Any:
        assert path == "containers"
        if not say:
            raise Unavailable(f"{agent_id} does not answer")
        return say[-1]

    now_s = marathon.scheduler.clock()
    sampler = Sampler(marathon.scheduler, ask, no_slaves, interval_s=0.001)
    marathon.scheduler.silent = lambda: sampler.silent
    await sampler.look()
    assert (await marathon.get("/v1/usage"))["notTold"] == ["S0 does not answer"]
    for at, cpu_s in ((10, 1.0), (20, 2.0)):
        marathon.scheduler.clock = lambda at=at: now_s + at
        statistics = {"cpus_user_time_secs": cpu_s, "cpus_system_time_secs": 0.0, "mem_rss_bytes": 16 << 20}
        say.append(
            [
                {"executor_id": task_id, "framework_id": "of others", "statistics": {}},
                {
                    "executor_id": task_id,
                    "framework_id": marathon.scheduler.state.framework_id,
                    "container_id": "c",
                    "statistics": statistics,
                    "gpus": [{"utilization_percent": 50}],
                },
            ]
        )
        await sampler.look()
        await marathon.settled()
    (mine,) = (await marathon.get("/v1/usage"))["usage"]
    assert (mine["gpuEfficiency"], mine["gpuIdle"], mine["maxRssMiB"]) == (50.0, 0.0, 16.0)
    assert mine["cpuEfficiency"] == 100.0, "a tenth of a processor, all the time"

    again = asyncio.Event()

    async def nonsense(agent_id: str, path: str) -> Any:
        asked.append(agent_id)
        if len(asked) > 1:
            again.set()
        return [{"executor_id": 3}, None]

    asked: list[str] = []
    looking = asyncio.ensure_future(Sampler(marathon.scheduler, nonsense, no_slaves, interval_s=0.001).run())
    await asyncio.wait_for(again.wait(), 30)
    assert not looking.done(), "what an agent says in error ends nothing"
    looking.cancel()


async def test_fragments_and_what_is_held_and_idle_are_gauges(marathon: Marathon) -> None:
    (task_id,) = await marathon.running(gpus=2, cpus=2)
    container = {"executor_id": task_id, "container_id": "c", "statistics": {}}
    gpus = [{"utilization_percent": 0}, {"utilization_percent": 7}]

    async def ask(agent_id: str, path: str) -> Any:
        return [{**container, "gpus": gpus}]

    async def slaves() -> list[Any]:
        total, used = {"cpus": 8, "gpus": 4, "mem": 8192}, {"cpus": 7, "gpus": 1}
        return [{"id": "S0", "hostname": "g", "pid": "slave(1)@g:1", "resources": total, "used_resources": used}]

    before = (await marathon.get("/metrics"))["gauges"]
    assert "marathon.gpus.unusable.gauge" not in before, "nothing is made up before it is known"
    now_s = marathon.scheduler.clock()
    sampler = Sampler(marathon.scheduler, ask, slaves, interval_s=0.001)
    marathon.scheduler.clock = lambda: now_s + 10
    await sampler.look()
    marathon.scheduler.clock = lambda: now_s + 20
    await sampler.look()
    await sampler.look_for_fragments()
    gauges = {name: each["value"] for name, each in (await marathon.get("/metrics"))["gauges"].items()}
    assert gauges["marathon.gpus.held-idle.gauge"] == 1
    assert gauges["marathon.gpus.measured.gauge"] == 2
    assert (gauges["marathon.gpus.free.gauge"], gauges["marathon.gpus.unusable.gauge"]) == (3, 3)
    assert (gauges["marathon.gpus.unusable.cpus.gauge"], gauges["marathon.gpus.unusable.mem.gauge"]) == (3, 0)
    text = (await marathon.call("GET", "/metrics/prometheus")).body
    assert "marathon_gpus_unusable_cpus_gauge 3.0" in text
    assert "marathon_gpus_held_idle_gauge 1.0" in text
