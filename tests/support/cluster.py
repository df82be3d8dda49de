"""Our agents with any master, over real sockets in this process; the containers are fakes that keep their promises."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from mesos_gpu.agent.api.access import Access
from mesos_gpu.agent.api.operator_api import OperatorApi
from mesos_gpu.agent.cluster.authentication import Patience
from mesos_gpu.agent.decisions.registration import Registration
from mesos_gpu.agent.decisions.state import AgentState, FreshIds
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.disk.recovery import recover
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.resources import Machine, agent_resources
from mesos_gpu.mesos.security.cram_md5 import Credential
from mesos_gpu.process.detector import Detector, open_detector
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.secure.tls import Tls
from tests.fakes.containerizer import FakeContainerizer


class ClusterAgent:
    """One work_dir, and the agent process on it, as far as it fits into this one."""

    def __init__(
        self,
        folder: Path,
        master: str,
        *,
        credential: Credential | None = None,
        access: Access | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.folder, self.master, self._credential, self._access = folder, master, credential, access
        self._tls = tls
        self.containers = FakeContainerizer(gpus=4)
        self.detector: Detector | None = None
        self.port = 0

    async def start(self) -> ClusterAgent:
        """Start, or start again after `stop` or `die`: the containers have run on."""
        self.folder.mkdir(exist_ok=True)
        checkpoints = AgentCheckpoints(self.folder)
        checkpoints.open()
        self.endpoint = Endpoint("127.0.0.1", self.port, tls=self._tls)
        total = agent_resources("mem:8192;disk:10000", "*", Machine(4, 0, 0), self.containers.gpus)
        identity = Identity("", "", "127.0.0.1", 0, str(self.folder))
        if self._access is not None:
            identity = replace(identity, acls=self._access.acls, executor_key=self._access.executor_key)
        state = AgentState(identity, _uuid(), FreshIds(_uuid, lambda: str(uuid.uuid4())))
        self.agent = Agent(
            {"hostname": "127.0.0.1", "resources": total.to_json(), "attributes": []},
            state,
            endpoint=self.endpoint,
            containers=self.containers,
            checkpoints=checkpoints,
            registration=Registration(0.05),
            credential=self._credential,
            patience=Patience(0.5, 1.0, 0.1),
        )
        await self.endpoint.start(OperatorApi(self.agent, {"port": "5051"}, access=self._access).make_app())
        self.port = self.endpoint.port
        self.agent.locate("127.0.0.1")
        await self.agent.recover(recover(checkpoints, "boot"))
        checkpoints.save_boot_id("boot")
        self.detector = open_detector("master", self.master, tls=self._tls)
        await self.detector.start(self.agent.follow)
        return self

    async def stop(self) -> None:
        """Stop as SIGTERM does; nothing happens the second time."""
        detector, self.detector = self.detector, None
        if detector is not None:
            await detector.close()
            await self.agent.close()
            await self.endpoint.stop()


@asynccontextmanager
async def cluster_agent(
    folder: Path,
    master: str,
    *,
    credential: Credential | None = None,
    access: Access | None = None,
    tls: Tls | None = None,
) -> AsyncIterator[ClusterAgent]:
    agent = ClusterAgent(folder, master, credential=credential, access=access, tls=tls)
    try:
        yield await agent.start()
    finally:
        await agent.stop()


def _uuid() -> str:
    return base64.b64encode(uuid.uuid4().bytes).decode("ascii")
