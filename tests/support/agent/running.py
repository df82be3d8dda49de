"""One agent in this process, as tests start and end it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.messages import devolve
from mesos_gpu.process.endpoint import Endpoint
from tests.fakes.containerizer import FakeContainerizer
from tests.support.agent.hosting import AWARE, IDS


@dataclass
class Running:
    """One agent process, as far as it fits into this one."""

    agent: Agent
    endpoint: Endpoint
    containers: FakeContainerizer
    checkpoints: AgentCheckpoints
    killed: bool = False
    cleanups: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.endpoint.port}"

    async def has_no_update_of(self, key: TaskKey) -> None:
        """Wait until the master's acknowledgements of all that was said of a task have come."""

        async def wait() -> None:
            while self.agent.state.streams.pending(key):  # noqa: ASYNC110 - only the agent hears them
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), 20.0)

    async def close(self) -> None:
        """Stop as SIGTERM does."""
        if not self.killed:
            self.killed = True
            await self.agent.close()
            await self.endpoint.stop()

    async def die(self) -> None:
        """Stop as SIGKILL does: nothing is written or sent any more."""
        self.killed = True
        self.agent._link.close()
        self.agent._alarm.stop()
        await self.agent._runner.stop()
        await self.agent.collector.close()
        await self.endpoint.stop()


Start = Callable[..., Awaitable[Running]]


FRAMEWORK = devolve("mesos.FrameworkInfo", AWARE)


SUBSCRIBE: dict[str, Any] = {
    **IDS,
    "type": "SUBSCRIBE",
    "subscribe": {"unacknowledged_tasks": [], "unacknowledged_updates": []},
}


async def known(running: Running, tasks: int = 1) -> None:
    """Wait until the agent has that many tasks: a message of the master may be on its way still."""
    while len(running.agent.state.frameworks.tasks()) < tasks:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)
