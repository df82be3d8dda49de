"""The agent program where executors must show their token: Mesos' default executor does, in a real container."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from mesos_gpu.mesos.security.authentication import EXECUTOR_TOKEN
from tests.support.agent.access import JSON, as_, secret_files
from tests.support.agent.documents import task
from tests.support.agent.groups import launch, said
from tests.support.agent.live import live_agent

pytestmark = pytest.mark.root


async def test_a_task_group_runs_on_an_agent_that_asks_its_executor_who_it_is(tmp_path: Path) -> None:
    words = [*secret_files(tmp_path), "--authenticate_http_readwrite", "--authenticate_http_executors"]
    async with live_agent(tmp_path, *words) as agent, aiohttp.ClientSession() as session:
        show = f"echo token=${EXECUTOR_TOKEN}.; sleep 600"
        launch(agent, task("a", show))
        await agent.reaches("a", "TASK_RUNNING")
        assert await agent.until_async(lambda: said(agent, "a"), "token") == "token=.\n"
        url = f"http://127.0.0.1:{agent.port}/api/v1"
        for headers, status in ((JSON, 401), ({**JSON, **as_("eve")}, 200)):
            async with session.post(url, data=json.dumps({"type": "GET_HEALTH"}), headers=headers) as answer:
                assert answer.status == status
        agent.kill("a")
        await agent.reaches("a", "TASK_KILLED")
        assert "a key that signs" not in agent.log.read_text()
