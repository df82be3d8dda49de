"""Executors of frameworks under the agent program, in a real container: pymesos' driver, and one as libmesos'."""

from __future__ import annotations

import base64
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.agent.custom_executors import CUSTOM, hosted
from tests.support.agent.documents import AGENT_ID
from tests.support.agent.hosting import IDS
from tests.support.agent.live import FRAMEWORK, LiveAgent, live_agent

pytestmark = pytest.mark.root

PATIENT = "--executor_reregistration_timeout=15secs"  # of a busy machine; it continues as soon as all are back


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path) as live:
        yield live


def send_message(agent: LiveAgent, text: str) -> None:
    data = base64.b64encode(text.encode()).decode()
    agent.master.send("FrameworkToExecutorMessage", {"slave_id": {"value": AGENT_ID}, **IDS, "data": data})


@pytest.mark.parametrize("program", CUSTOM)
async def test_one_executor_runs_many_tasks_grows_with_them_and_outlives_the_agent(
    agent: LiveAgent, program: str
) -> None:
    line = f"exec {sys.executable} {CUSTOM[program]}"
    agent.master.run(FRAMEWORK, hosted("one", gpus=1, line=line))
    status = await agent.reaches("one", "TASK_RUNNING")
    assert status["source"] == "SOURCE_EXECUTOR"
    assert status["container_status"]["executor_pid"] > 0
    agent.master.run(FRAMEWORK, hosted("two", gpus=2, line=line), launch_executor=False)
    await agent.reaches("two", "TASK_RUNNING")
    (executor,) = (await agent.get("/state"))["frameworks"][0]["executors"]
    assert executor["resources"]["gpus"] == 3.0
    (container,) = await agent.get("/containers")
    assert len(container["gpus"]) == 3
    assert container["executor_name"] == "an echo"
    assert container["statistics"]["mem_limit_bytes"] == (64 + 64 + 64) << 20

    send_message(agent, "hello")
    answer = await agent.master.got("ExecutorToFrameworkMessage")
    assert base64.b64decode(answer["data"]) == b"you said hello"

    await agent.signal(signal.SIGKILL)
    await agent.start(PATIENT)
    await agent.until_said("echo", "reregistered")
    reported = agent.master.messages("ReregisterSlaveMessage")[-1]
    assert [info["executor_id"]["value"] for info in reported["executor_infos"]] == ["echo"]
    assert sorted(one["task_id"]["value"] for one in reported["tasks"]) == ["one", "two"]
    agent.kill("two")
    assert (await agent.reaches("two", "TASK_KILLED"))["message"] == "asked to"
    agent.run("others", "nvidia-smi -L | wc -l", gpus=3)  # two of them are free again
    await agent.reaches("others", "TASK_FINISHED")

    send_message(agent, "exit 7")
    assert (await agent.reaches("one", "TASK_FAILED"))["reason"] == "REASON_EXECUTOR_TERMINATED"
    assert (await agent.master.got("ExitedExecutorMessage"))["status"] == 7 << 8
    agent.run("all", "true", gpus=4)
    await agent.reaches("all", "TASK_FINISHED")


@pytest.mark.parametrize("program", CUSTOM)
async def test_an_executor_ends_when_told_and_when_it_does_not_listen(agent: LiveAgent, program: str) -> None:
    agent.master.run(FRAMEWORK, hosted("one", gpus=4, line=f"exec {sys.executable} {CUSTOM[program]}"))
    await agent.reaches("one", "TASK_RUNNING")
    agent.master.send("ShutdownExecutorMessage", IDS)
    assert (await agent.reaches("one", "TASK_FAILED"))["message"] == "Executor terminated"
    await agent.master.got("ExitedExecutorMessage")
    assert "shutdown" in await agent.said("echo")

    agent.master.run(FRAMEWORK, hosted("deaf", gpus=4, line="trap '' TERM; while :; do sleep 1; done"))
    agent.master.send("KillTaskMessage", {"framework_id": IDS["framework_id"], "task_id": {"value": "deaf"}})
    assert (await agent.reaches("deaf", "TASK_KILLED"))["reason"] == "REASON_TASK_KILLED_DURING_LAUNCH"
    agent.run("all", "true", gpus=4)
    assert await agent.ends("all") == "TASK_FINISHED"
