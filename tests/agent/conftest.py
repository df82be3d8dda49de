"""An agent in this process, with a scripted master and no containers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.api.access import Access
from mesos_gpu.agent.api.operator_api import OperatorApi
from mesos_gpu.agent.decisions.registration import Registration
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.disk.recovery import recover
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.resources import Machine, agent_resources, parse_attributes
from mesos_gpu.process.endpoint import Endpoint
from tests.fakes.containerizer import FakeContainerizer
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import AGENT_ID, new_state
from tests.support.agent.running import Running, Start

BOOT = "boot-1"
_starts = itertools.count(1)


@pytest.fixture
async def master() -> AsyncIterator[ScriptedMaster]:
    scripted = await ScriptedMaster(AGENT_ID).start()
    scripted.observe(1)
    yield scripted
    await scripted.stop()


@pytest.fixture
async def start(tmp_path: Path, master: ScriptedMaster) -> AsyncIterator[Start]:
    """Start an agent on tmp_path; a second call is the next process on the same folder."""
    async with contextlib.AsyncExitStack() as stack:

        async def start_agent(
            containers: FakeContainerizer | None = None,
            *,
            port: int = 0,
            boot: str = BOOT,
            follow: bool = True,
            gpus: AgentGpus | None = None,
            access: Access | None = None,
            **info: Any,
        ) -> Running:
            checkpoints = AgentCheckpoints(tmp_path)
            checkpoints.open()
            fake = containers or FakeContainerizer(gpus=4)
            endpoint = Endpoint("127.0.0.1", port)
            total = agent_resources("mem:8192;disk:10000", "*", Machine(4, 0, 0), fake.gpus)
            document = {
                "hostname": "127.0.0.1",
                "resources": total.to_json(),
                "attributes": parse_attributes("gpu_model:stub;rack:r1"),
                **info,
            }
            identity = Identity("", "", "127.0.0.1", 0, str(tmp_path))
            if access is not None:
                identity = replace(identity, acls=access.acls, executor_key=access.executor_key)
            state = new_state(1000 * next(_starts), identity=identity)
            agent = Agent(
                document,
                state,
                endpoint=endpoint,
                containers=fake,
                checkpoints=checkpoints,
                registration=Registration(0.05),
                gpus=gpus,
            )
            await endpoint.start(OperatorApi(agent, {"port": "5051"}, access=access).make_app())
            running = Running(agent, endpoint, fake, checkpoints)
            stack.push_async_callback(running.close)
            agent.locate("127.0.0.1")
            await agent.recover(recover(checkpoints, boot))
            checkpoints.save_boot_id(boot)
            await agent.watch_gpus()
            if follow:
                agent.follow(master.pid)
                await agent.registered.wait()
            return running

        yield start_agent
