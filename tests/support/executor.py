"""The default executor as a program, and the agent it is started for."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mesos_gpu.executor
from tests.fakes.container_agent import ContainerAgent

PROGRAM = Path(mesos_gpu.executor.__file__).with_name("__main__.py")


def task(task_id: str, **more: Any) -> dict[str, Any]:
    return {"task_id": {"value": task_id}, "name": task_id, "command": {"value": "sleep 1"}, **more}


class Pod:
    """The program, and the agent it was started for."""

    def __init__(self, agent: ContainerAgent, sandbox: Path) -> None:
        self.agent, self.sandbox = agent, sandbox
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, **variables: str) -> None:
        environment = {
            "MESOS_AGENT_ENDPOINT": f"127.0.0.1:{self.agent.port}",
            "MESOS_FRAMEWORK_ID": "F",
            "MESOS_EXECUTOR_ID": "pod",
            "MESOS_SANDBOX": str(self.sandbox),
            "MESOS_CHECKPOINT": "1",
            "MESOS_SUBSCRIPTION_BACKOFF_MAX": "100ms",
            "LIBPROCESS_IP": "127.0.0.1",
            **variables,
        }
        self.process = await asyncio.create_subprocess_exec(sys.executable, "-S", str(PROGRAM), env=environment)
        await self.agent.until(lambda: bool(self.agent.subscriptions))

    async def launch(self, *tasks: dict[str, Any]) -> dict[str, str]:
        """Launch a group; return the container of each task, once it is told to run."""
        self.agent.send("LAUNCH_GROUP", task_group={"tasks": list(tasks)})
        names = [one["task_id"]["value"] for one in tasks]
        await self.agent.until(lambda: all("TASK_RUNNING" in self.agent.states(name) for name in names))
        running = {s["task_id"]["value"]: s for s in self.agent.updates if s["state"] == "TASK_RUNNING"}
        return {name: running[name]["container_status"]["container_id"]["value"] for name in names}

    async def exit_status(self) -> int:
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)


PATIENCE_S = 60.0
