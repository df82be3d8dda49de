"""Looks at tasks over the network, and the runner of checks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from mesos_gpu.agent.running.checker import Checker
from mesos_gpu.agent.running.probes import ask, connect, look
from mesos_gpu.errors import ContainerError, NotFound
from mesos_gpu.mesos.checks import Course, HealthNews, News, Probe, Result, begin, health_plan
from tests.fakes.containerizer import FakeContainerizer
from tests.support.golden import Golden


@pytest.fixture
async def server() -> web.Application:
    async def code(request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["code"]))

    async def moved(request: web.Request) -> web.Response:
        raise web.HTTPFound("/418")

    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    app = web.Application()
    app.router.add_get("/moved", moved)
    app.router.add_get("/never", never)
    app.router.add_get("/{code:\\d+}", code)
    return app


async def test_http_gives_the_code_follows_redirects_and_does_not_wait_for_ever(
    server: web.Application, golden: Golden
) -> None:
    async with TestServer(server) as running:
        assert running.port is not None
        port = running.port
        assert await ask(Probe("HTTP", port=port, path="/503")) == Result(status_code=503)
        assert await ask(Probe("HTTP", port=port, path="/moved")) == Result(status_code=418)
        late = await ask(Probe("HTTP", 0.05, port=port, path="/never"))
        assert late.error == golden
        assert await connect(Probe("TCP", port=port)) == Result(connected=True)
        tls = await ask(Probe("HTTP", port=port, path="/200", scheme="https"))
        assert tls.error is not None
    assert await connect(Probe("TCP", port=port)) == Result(connected=False)
    refused = await ask(Probe("HTTP", port=unused_port()))
    assert refused.error == golden


async def test_a_command_runs_in_the_container_and_writes_to_the_sandboxs_stderr(tmp_path: Path) -> None:
    containers = FakeContainerizer(running={"c": None})
    containers.exit_codes = [7]
    environment = {"variables": [{"name": "X", "value": "y"}]}
    probe = Probe("COMMAND", command={"value": "exit 7", "environment": environment})
    assert await look(probe, containers, "c", tmp_path) == Result(exit_code=7)
    argv = Probe("COMMAND", 3.0, command={"shell": False, "value": "/bin/test", "arguments": ["test", "-e", "f"]})
    assert await look(argv, containers, "c", tmp_path) == Result(exit_code=0)
    first, second = containers.executed
    assert (first.argv, first.environment) == (("/bin/sh", "-c", "exit 7"), {"X": "y"})
    assert (first.output, first.timeout_s) == (tmp_path / "stderr", 20.0)
    assert (second.argv, second.timeout_s) == (("/bin/test", "-e", "f"), 3.0)
    assert await look(probe, containers, "gone", tmp_path) is None


def course(**more: float) -> Course:
    rules = {"delay_seconds": 0, "interval_seconds": 0, "grace_period_seconds": 0, **more}
    return begin(health_plan({"type": "COMMAND", "command": {"value": "true"}, **rules}), 0.0)


async def test_checks_go_on_until_they_are_ended_and_tell_what_is_new(golden: Golden) -> None:
    told: asyncio.Queue[tuple[str, News]] = asyncio.Queue()
    checker = Checker[str](lambda key, news: told.put_nowait((key, news)), asyncio.get_running_loop().time)
    answers = iter([Result(exit_code=0), Result(exit_code=0), Result(error="late"), Result(exit_code=1)])
    ended = asyncio.Event()

    async def answer(probe: Probe) -> Result | None:
        try:
            return next(answers)
        except StopIteration:
            ended.set()
            await asyncio.Event().wait()
            raise

    checker.begin("t", [course(consecutive_failures=2)], answer)
    await ended.wait()
    assert [told.get_nowait() for _ in range(told.qsize())] == [
        ("t", HealthNews(True)),
        ("t", HealthNews(False, why="late")),
        ("t", HealthNews(False, True, golden)),
    ]
    checker.end("t")
    await checker.stop()


async def test_checks_of_a_container_that_is_gone_end_by_themselves() -> None:
    gone = asyncio.Event()

    async def answer(probe: Probe) -> Result | None:
        gone.set()
        return None

    def tell(key: str, news: News) -> None:
        raise AssertionError(news)

    checker = Checker[str](tell, asyncio.get_running_loop().time)
    checker.begin("t", [course()], answer)
    await gone.wait()
    await asyncio.gather(*checker._tasks["t"])
    await checker.stop()


async def test_what_the_runtime_refuses_is_a_failure_in_its_words(tmp_path: Path) -> None:
    class Refusing(FakeContainerizer):
        async def execute(self, container_id: str, execution: object) -> int:
            raise ContainerError("no such thing") if container_id == "c" else NotFound(container_id)

    probe = Probe("COMMAND", command={"value": "true"})
    assert await look(probe, Refusing(), "c", tmp_path) == Result(error="no such thing")
