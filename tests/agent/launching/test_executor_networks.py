"""What executors in networks of their own are told, and how they reach the agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.agent.launching.executor_launch import executor_container
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, ExecutorPatience
from mesos_gpu.agent.running.networks import domain_socket
from mesos_gpu.executor.agent import Agent
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support.agent.documents import FRAMEWORK_ID, IDENTITY, framework, scalar

SOCKET = "/run/agent/agent.sock"


@pytest.mark.parametrize(
    ("networks", "for_all", "image", "told"),
    [
        ([{"name": "net"}], False, False, True),
        ([{"port_mappings": []}], False, False, False),
        ([], True, False, True),
        ([{"name": "net"}], True, True, False),
    ],
)
def test_who_cannot_reach_the_agents_address_is_told_of_its_socket(
    networks: list[Any], for_all: bool, image: bool, told: bool
) -> None:
    identity = replace(IDENTITY, domain_socket=SOCKET, domain_socket_for_all=for_all)
    container: dict[str, Any] = {"type": "MESOS", "network_infos": networks}
    if image:
        container["mesos"] = {"image": {"type": "DOCKER", "docker": {"name": "busybox"}}}
    info = {
        "type": "CUSTOM",
        "executor_id": {"value": "e"},
        "framework_id": {"value": FRAMEWORK_ID},
        "command": {"value": "true"},
        "resources": [scalar("cpus", 0.1), scalar("mem", 32.0)],
        "container": container,
    }
    executor = Executor(ExecutorKey(FRAMEWORK_ID, "e"), info, "c", "/sandbox")
    for who, expected in ((identity, told), (IDENTITY, False)):
        spec = executor_container(who, framework(), executor, [], ExecutorPatience())
        assert (spec.environment.get("MESOS_DOMAIN_SOCKET") == SOCKET) is expected
        assert spec.networks == tuple(one for one in networks if "name" in one)


def test_there_is_a_socket_where_executors_may_need_one() -> None:
    flags = AgentFlags(isolation=("network/cni",))
    assert domain_socket(flags, Path("/run/x")) is None
    assert domain_socket(flags.replace(network_cni_config_dir="/etc/cni"), Path("/run/x")) == Path("/run/x/agent.sock")
    every = flags.replace(http_executor_domain_sockets=True)
    assert domain_socket(every, Path("/run/x")) == Path("/run/x/agent.sock")
    assert domain_socket(every.replace(domain_socket_location="/s"), Path("/run/x")) == Path("/s")


async def test_an_executor_reaches_the_agent_by_a_socket_file_however_long_its_path_is(tmp_path: Path) -> None:
    calls: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(await request.json())
        return web.Response(status=202)

    app = make_app()
    app.router.add_post("/api/v1/executor", answer)
    path = tmp_path / ("a" * 120) / "agent.sock"
    path.parent.mkdir()
    path.write_text("left by an agent that was killed")
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app, path)
    try:
        executor = Agent("192.0.2.99:1", "f", "e", str(path))  # an address that nobody answers at
        status, _ = await asyncio.to_thread(executor.executor_call, {"type": "UPDATE"})
        assert status == 202
        assert calls == [{"framework_id": {"value": "f"}, "executor_id": {"value": "e"}, "type": "UPDATE"}]
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{endpoint.port}/api/v1/executor", json={}) as response,
        ):
            assert response.status == 202, "and by its port, as before"
    finally:
        await endpoint.stop()
    assert not path.exists()
