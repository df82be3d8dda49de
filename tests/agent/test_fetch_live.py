"""URIs of real tasks: in the container they are the user's, and a missing one is told in the words of Mesos."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.agent.live import live_agent
from tests.support.golden import Golden

pytestmark = pytest.mark.root


def program() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        content = b"#!/bin/sh\necho hello from $0; stat -c %U tools/hello\n"
        member = tarfile.TarInfo("tools/hello")
        member.size, member.mode = len(content), 0o755
        archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


async def test_a_task_runs_what_was_fetched_and_a_missing_uri_fails_it_as_recorded(
    tmp_path: Path, golden: Golden
) -> None:
    async def archive(request: web.Request) -> web.Response:
        return web.Response(body=program())

    app = web.Application()
    app.router.add_get("/hello.tgz", archive)
    async with TestServer(app) as server, live_agent(tmp_path) as agent:
        uri = {"value": str(server.make_url("/hello.tgz")), "cache": True}
        agent.run("t", "", command={"value": "tools/hello", "user": "nobody", "uris": [uri]})
        assert (await agent.reaches("t", "TASK_FINISHED"))["state"] == "TASK_FINISHED"
        assert await agent.said("t") == "hello from tools/hello\nnobody\n"
        numbers = await agent.get("/metrics/snapshot")
        assert numbers["containerizer/fetcher/cache_size_used_bytes"] == len(program())
        assert numbers["containerizer/fetcher/task_fetches_succeeded"] == 1.0

        missing = [{"value": "file:///etc/hostname-does-not-exist"}]
        agent.run("argv", "", command={"shell": False, "value": "/bin/echo", "uris": missing})
        status = await agent.reaches("argv", "TASK_FAILED")
        assert (status["source"], status["reason"]) == ("SOURCE_SLAVE", "REASON_CONTAINER_LAUNCH_FAILED")
        assert status["message"] == golden
        assert "hostname-does-not-exist" in await agent.said("argv", "stderr")


async def test_a_task_is_killed_while_its_uris_are_fetched(tmp_path: Path) -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a little")
        assert request.transport is not None
        while not request.transport.is_closing():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        return response

    app = web.Application()
    app.router.add_get("/never", never)
    async with TestServer(app) as server, live_agent(tmp_path) as agent:
        agent.run("t", "", command={"value": "true", "uris": [{"value": str(server.make_url("/never"))}]})
        await agent.reaches("t", "TASK_STARTING")
        agent.kill("t")
        status = await agent.reaches("t", "TASK_KILLED")
        assert status["reason"] == "REASON_TASK_KILLED_DURING_LAUNCH"
        assert [path.name for path in tmp_path.rglob("*never*")] == []
