"""What agents know, and in whose name they are asked: seen in their memory, so that no history is another for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mesos_gpu.agent.cluster import master_link
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Agent as MasterAgent
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import ContainerId
from tests.sim.books import LIVE
from tests.sim.world import PROCESS

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine
    from tests.sim.services import Cluster
    from tests.sim.world import Process, World

SOON_S = 100.0
"""So soon an agent that is there has seen that something has ended; also one that was started after that."""
_DECODE = "decode_to_v1"
STAYED_S = 420.0
"""After so long every master has heard of each agent's process."""


class Insight:
    """The agents and masters that are there; wraps what they are made by, and what reads operations."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world, self._cluster = world, cluster
        self._agents: dict[str, tuple[Process, Agent]] = {}
        self._masters: dict[str, tuple[Process, Engine]] = {}
        self._ended_s: dict[ContainerId, float] = {}
        self.over: dict[str, str] = {}
        """Tasks of which an agent has told their framework that they have ended, and how."""

    def ended(self, container: Container) -> None:
        """A container has ended, whoever sees it."""
        self._ended_s[container.config.container_id] = self._world.now_s

    def install(self) -> None:
        """Be told of every agent, and of every operation that one is asked for. For good."""
        insight, real_init, real_decode = self, Agent.__init__, getattr(master_link, _DECODE)
        real_init_engine, real_add_task = Engine.__init__, MasterState.add_task

        def init(self: Agent, *args: Any, **more: Any) -> None:
            real_init(self, *args, **more)
            process = PROCESS.get()
            if process is not None:
                insight._agents[process.name] = process, self

        def decode(name: str, body: bytes) -> Any:
            document, process = real_decode(name, body), PROCESS.get()
            if name.endswith(".ApplyOperationMessage") and process is not None:
                insight._is_asked(process, document)
            return document

        def init_engine(self: Engine, *args: Any, **more: Any) -> None:
            real_init_engine(self, *args, **more)
            process = PROCESS.get()
            if process is not None:
                insight._masters[process.name] = process, self

        def add_task(self: MasterState, framework: Framework, agent: MasterAgent, task: Task) -> None:
            real_add_task(self, framework, agent, task)
            over = insight.over.get(task.id)
            if over is not None and task.state in LIVE:
                insight._world.finding(f"a master enters {task.id} as {task.state}, and its framework knows: {over}")

        for owner, name, wrapped in (
            (MasterState, "add_task", add_task),
            (Agent, "__init__", init),
            (Engine, "__init__", init_engine),
            (master_link, _DECODE, decode),
        ):
            setattr(owner, name, wrapped)

    def _is_asked(self, process: Process, document: Any) -> None:
        """An operation names the version of its agent's resources, as launches do.

        Agents look at it for resources of providers alone, whose manager refuses what names another. Source: Mesos
        src/master/master.cpp, _apply; src/resource_provider/manager.cpp, applyOperation.
        """
        named = document.get("resource_version_uuid", {}).get("uuid", {}).get("value")
        own = self._agents[process.name][1].state.resource_version
        processes = [self._world.processes.get(host.name) for host in self._cluster.agents]
        stayed = all(one is not None and one.began_s < self._world.now_s - STAYED_S for one in processes)
        if stayed and named != own:
            self._world.finding(
                f"an operation names {named}, the version of an earlier process of {process.name}: {own}"
            )

    # Again and again.

    def look(self) -> None:
        """Say what agents that were there, and could write, have not seen to be over."""
        for name, machine in self._cluster.machines.items():
            process, agent = self._agents.get(name, (None, None))
            since_s = self._world.now_s - SOON_S
            if process is None or agent is None or not process.alive or process.began_s > since_s:
                continue
            if process.frozen_until_s < since_s and machine.host.disk.refused_s < process.began_s:
                for said in self._not_seen(agent, machine):
                    self._world.finding(f"{name} {said}, {SOON_S:g} s after its end")

    def _not_seen(self, agent: Agent, machine: Machine) -> Iterator[str]:
        for task in agent.state.frameworks.tasks():
            if (
                task.phase in (Phase.RUNNING, Phase.ENDING)
                and not task.hosted
                and self._is_over(task.container_id, machine)
            ):
                yield f"says of {task.key.task} that {task.phase.value}"
        if agent.suspending is not None:
            for container in agent.suspending.suspender.book:
                if self._is_over(container, machine):
                    yield f"has {container} suspended still"
        isolator = getattr(agent.containers, "isolator", None)
        for container in () if isolator is None else (*isolator.shares, *isolator._whole.held):
            if self._is_over(container, machine):
                yield f"has GPUs taken for {container} still"

    def _is_over(self, container: ContainerId | None, machine: Machine) -> bool:
        if container is None or container in machine.running:
            return False
        return self._ended_s.get(container, self._world.now_s) < self._world.now_s - SOON_S

    # At peace.

    def differences(self, state: Any) -> Iterator[str]:
        """Tell where the master whose `state` this is counts on other reservations and volumes than an agent keeps."""
        process, engine = self._masters.get(state["hostname"], (None, None))
        for one in () if process is None or engine is None or not process.alive else engine.state.agents.values():
            process, agent = self._agents.get(one.hostname, (None, None))
            if process is None or agent is None or not process.alive or not one.connected or agent.agent_id != one.id:
                continue
            counted, kept = one.total.kept().unallocated(), agent.holdings.kept
            if counted != kept:
                yield f"a master counts on {counted} of {one.hostname}, which keeps {kept}"
