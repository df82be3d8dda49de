"""Task groups on a live agent."""

from __future__ import annotations

from typing import Any

from mesos_gpu.mesos.messages import devolve
from tests.support.agent.documents import FRAMEWORK_ID, scalar
from tests.support.agent.live import FRAMEWORK, LiveAgent


def launch(agent: LiveAgent, *tasks: dict[str, Any], new: bool = True, executor_id: str | None = None) -> None:
    group = {"tasks": [devolve("mesos.TaskInfo", one) for one in tasks]}
    named = POD if executor_id is None else {**POD, "executor_id": {"value": executor_id}}
    executor = devolve("mesos.ExecutorInfo", named)
    document = {"framework": FRAMEWORK, "executor": executor, "task_group": group, "launch_executor": new}
    agent.master.send("RunTaskGroupMessage", document)


async def said(agent: LiveAgent, task_id: str) -> str:
    """Return what a task of the pod wrote, where Mesos' pages look for it."""
    (executor,) = await executors(agent)
    path = f"{executor['directory']}/tasks/{task_id}/stdout"
    return str((await agent.get("/files/read", path=path, offset="0"))["data"])


POD: dict[str, Any] = {
    "type": "DEFAULT",
    "executor_id": {"value": "pod"},
    "framework_id": {"value": FRAMEWORK_ID},
    "resources": [scalar("cpus", 0.1), scalar("mem", 64.0), scalar("disk", 8.0)],
}


async def executors(agent: LiveAgent) -> list[dict[str, Any]]:
    state = await agent.get("/state")
    frameworks = [*state["frameworks"], *state["completed_frameworks"]]
    return [e for f in frameworks for e in (*f["executors"], *f["completed_executors"]) if e["id"] == "pod"]
