"""Checks of real tasks by the agent program."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import unused_port

from tests.support.agent.live import LiveAgent, live_agent

pytestmark = pytest.mark.root

SOON_CHECK = {"delay_seconds": 0, "interval_seconds": 0.05}
SOON = {**SOON_CHECK, "grace_period_seconds": 0}


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path) as live:
        yield live


def checks_of(agent: LiveAgent, task_id: str) -> list[dict[str, Any]]:
    """Return what the updates of a task said of its checks, in order."""
    statuses = [update["status"] for update in agent.master.news(task_id)]
    names = ("state", "reason", "healthy", "check_status")
    said = [{name: status[name] for name in names if name in status} for status in statuses]
    return [fields for number, fields in enumerate(said) if fields not in said[:number]]


async def until_said_of(agent: LiveAgent, task_id: str, **wanted: Any) -> None:
    await agent.master.until(lambda: any(wanted.items() <= fields.items() for fields in checks_of(agent, task_id)))


async def test_commands_run_in_the_tasks_container_and_a_sick_task_is_killed_as_recorded(agent: LiveAgent) -> None:
    command = {"value": 'test "$(nvidia-smi -L | wc -l)" = 1 && test -e well && test $X = y'}
    environment = {"variables": [{"name": "X", "value": "y"}]}
    check = {"type": "COMMAND", "command": {"command": {"value": "exit 5"}}, "delay_seconds": 0, "interval_seconds": 60}
    agent.run(
        "sick",
        "",
        command={"value": "touch well; echo up; exec sleep 600", "environment": environment},
        gpus=1,
        health_check={"type": "COMMAND", "command": command, **SOON, "grace_period_seconds": 60},
        check=check,
    )
    await agent.until_said("sick", "up")
    await until_said_of(agent, "sick", healthy=True)
    (executor,) = (await agent.get("/state"))["frameworks"][0]["executors"]
    assert executor["tasks"][0]["statuses"][-1]["healthy"] is True
    five = {"type": "COMMAND", "command": {"exit_code": 5}}
    await until_said_of(agent, "sick", check_status=five)
    (Path(executor["directory"]) / "well").unlink()
    status = await agent.reaches("sick", "TASK_KILLED")
    assert (status["healthy"], status["message"]) == (False, "Command terminated with signal Terminated")
    empty, reason = {"type": "COMMAND", "command": {}}, "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"
    said = checks_of(agent, "sick")
    assert said[0] == {"state": "TASK_STARTING", "check_status": empty}
    assert said[-3:] == [
        {"state": "TASK_RUNNING", "reason": reason, "healthy": False, "check_status": five},
        {"state": "TASK_KILLING", "check_status": empty},
        {"state": "TASK_KILLED", "healthy": False, "check_status": empty},
    ]
    assert len([u for u in agent.master.updates("sick") if u["status"].get("healthy") is False]) >= 4


async def test_a_task_is_checked_on_after_the_agent_was_killed(agent: LiveAgent) -> None:
    port = unused_port()
    line = f"exec python3 -m http.server --bind 127.0.0.1 {port}"
    agent.run("web", line, health_check={"type": "HTTP", "http": {"port": port}, **SOON, "grace_period_seconds": 60})
    agent.run("tcp", "exec sleep 600", check={"type": "TCP", "tcp": {"port": port}, **SOON_CHECK})
    await until_said_of(agent, "web", healthy=True)
    await until_said_of(agent, "tcp", check_status={"type": "TCP", "tcp": {"succeeded": True}})
    await agent.signal(signal.SIGKILL)
    await agent.start()
    agent.kill("web")
    await agent.reaches("web", "TASK_KILLED")
    await until_said_of(agent, "tcp", check_status={"type": "TCP", "tcp": {"succeeded": False}})
    agent.kill("tcp")
    await agent.reaches("tcp", "TASK_KILLED")
