"""Tasks as a master sends them in its messages, and waiting for what the loop does with them."""

from __future__ import annotations

import asyncio
from typing import Any

from mesos_gpu.mesos.messages import devolve
from tests.support.agent.documents import ALL_CAPABILITIES, framework, task

FRAMEWORK = devolve("mesos.FrameworkInfo", framework(*ALL_CAPABILITIES))


def internal(*args: Any, **more: Any) -> dict[str, Any]:
    return devolve("mesos.TaskInfo", task(*args, **more))


async def wait_for(true: Any, timeout_s: float = 20.0) -> None:
    """Let the loop turn until something is true."""

    async def wait() -> None:
        while not true():  # noqa: ASYNC110 - turns of the loop, no waiting
            await asyncio.sleep(0)

    await asyncio.wait_for(wait(), timeout_s)
