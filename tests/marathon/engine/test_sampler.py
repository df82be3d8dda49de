"""Looks at what the tasks of many agents use: in parts, and where agents are is asked once for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from mesos_gpu.errors import NotFound, Unavailable
from mesos_gpu.marathon.api.mesos_door import MesosDoor
from mesos_gpu.marathon.engine import sampler as module
from mesos_gpu.marathon.engine.sampler import Sampler
from mesos_gpu.marathon.state.events import Measured
from tests.support.marathon.builders import app
from tests.support.marathon.service import Marathon


async def no_slaves() -> list[Any]:
    raise Unavailable("the master does not answer")


async def test_many_agents_are_asked_in_parts_and_told_of_part_by_part(
    marathon: Marathon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 2)
    await marathon.call("POST", "/v2/apps", app(instances=5, constraints=[["hostname", "UNIQUE"]]))
    tasks = []
    for number in range(5):
        tasks += await marathon.launched(offer_id=f"O{number}", agent=f"A{number}", host=f"h{number}")
    for task_id in tasks:
        await marathon.say(task_id)
    now_s = marathon.scheduler.clock()
    asked: list[str] = []
    told: list[Measured] = []
    pauses: list[tuple[float, int]] = []
    tell = marathon.scheduler.tell
    monkeypatch.setattr(marathon.scheduler, "tell", lambda event: (told.append(event), tell(event)))
    real = asyncio.sleep

    async def sleep(delay_s: float, *rest: Any) -> None:
        if delay_s:
            pauses.append((delay_s, len(asked)))
        await real(0, *rest)

    monkeypatch.setattr(module.asyncio, "sleep", sleep)

    async def ask(agent_id: str, path: str) -> Any:
        asked.append(agent_id)
        if agent_id == "A3":
            raise Unavailable("A3 does not answer")
        gpus = [{"utilization_percent": 0}]
        return [{"executor_id": task, "container_id": task, "statistics": {}, "gpus": gpus} for task in tasks]

    sampler = Sampler(marathon.scheduler, ask, no_slaves, interval_s=1)
    await sampler.look()
    assert sorted(asked) == [f"A{number}" for number in range(5)]
    assert pauses == [(module._PAUSE_S, 2), (module._PAUSE_S, 4)]
    asked.clear()
    pauses.clear()
    told.clear()
    marathon.scheduler.clock = lambda: now_s + 10
    await sampler.look()
    assert sum(len(event.readings) for event in told) == 4
    assert max(len(event.readings) for event in told) <= 2, "a part at a time, so that none takes long to count"
    assert sampler.silent == {"A3": "A3 does not answer"}
    assert marathon.scheduler.metrics.measured["gpus.held-idle.gauge"] == 4


async def test_where_agents_are_is_asked_once_for_all_who_want_to_know(
    serve: Callable[[Mapping[str, Any]], Any],
) -> None:
    asked, agents = 0, [{"id": f"S{n}", "pid": f"slave(1)@127.0.0.1:{6000 + n}"} for n in range(9)]

    async def slaves(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return web.json_response({"slaves": agents})

    url = await serve({"/slaves": slaves})
    door = MesosDoor(lambda: url)
    try:
        found = await asyncio.gather(*(door.agent(f"S{n}", "containers", None) for n in range(9)))
        assert (found[3], asked) == (URL("http://127.0.0.1:6003/containers"), 1)
        with pytest.raises(NotFound):
            await door.agent("S9", "containers", None)
        assert asked == 2, "it may have come since"
    finally:
        await door.close()


@pytest.fixture
async def serve() -> Any:
    """Return what serves handlers by path on the loopback, until the test is over."""
    runners: list[web.AppRunner] = []

    async def start(handlers: Mapping[str, Any]) -> str:
        application = web.Application()
        for path, handler in handlers.items():
            application.router.add_get(path, handler)
        runner = web.AppRunner(application)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()
