"""Looks from time to time at what the tasks of this Marathon use, and at which free GPUs nothing can use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.matching.machines import read_machines
from mesos_gpu.marathon.model.measuring import Look, Wanted, measured, wanted
from mesos_gpu.marathon.model.usage import Reading
from mesos_gpu.marathon.state.events import Measured
from mesos_gpu.marathon.why.fragments import figures
from mesos_gpu.mesos.ids import AgentId, TaskId

log = logging.getLogger(__name__)

_AT_ONCE = 16
"""Agents that are asked at a time."""
_TOGETHER, _PAUSE_S = 200, 5.0
"""Of more agents so many are asked, and then, after a pause, so many more: each costs 1 ms of a processor."""


class Sampler:
    """Asks the agents that run tasks of ours for their containers, and tells the scheduler what it found.

    `ask` returns what an endpoint of an agent says, `slaves` a master's agents; both raise MesosGpuError.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        ask: Callable[[AgentId, str], Awaitable[Any]],
        slaves: Callable[[], Awaitable[Sequence[Any]]],
        *,
        interval_s: float,
    ) -> None:
        self._scheduler, self._ask, self._slaves, self.interval_s = scheduler, ask, slaves, interval_s
        self._looks: dict[TaskId, Look] = {}
        self._first_s = scheduler.clock()
        self.silent: dict[AgentId, str] = {}
        """Why agents did not tell what tasks use when they were last asked."""

    async def run(self) -> None:
        """Look until cancelled."""
        self._first_s = self._scheduler.clock()
        while True:
            await asyncio.sleep(self.interval_s)
            try:
                await self.look()
                await self.look_for_fragments()
            except Exception:
                log.exception("cannot look at what tasks use")

    async def look(self) -> None:
        """Look once at every task that runs, and tell the scheduler of each part of the agents that was asked."""
        instances = self._scheduler.state.instances
        tasks = await asyncio.to_thread(lambda: wanted(iter(instances.values())))
        agents, silent = list(tasks), dict[AgentId, str]()
        gpus = idle = 0
        for at in range(0, len(agents), _TOGETHER):
            if at:
                await asyncio.sleep(_PAUSE_S)
            part = {agent_id: tasks[agent_id] for agent_id in agents[at : at + _TOGETHER]}
            readings = await self._look_at(part, silent)
            gpus += sum(reading.gpus for reading in readings)
            idle += sum(reading.idle_gpus for reading in readings)
        if silent and not self.silent:
            log.info("what tasks use is not told by every agent: %s", next(iter(silent.values())))
        self.silent = silent
        alive = {each.task_id for mine in tasks.values() for each in mine}
        self._looks = {task_id: look for task_id, look in self._looks.items() if task_id in alive}
        self._scheduler.metrics.measured |= {"gpus.measured.gauge": gpus, "gpus.held-idle.gauge": idle}

    async def _look_at(self, tasks: Mapping[AgentId, list[Wanted]], silent: dict[AgentId, str]) -> Sequence[Reading]:
        """Ask these agents, tell the scheduler, and return what it was told; `silent` learns who does not tell."""
        state = self._scheduler.state
        limit = asyncio.Semaphore(_AT_ONCE)

        async def look_at(agent_id: AgentId, mine: list[Wanted]) -> list[tuple[Wanted, Reading | None, Look]]:
            async with limit:
                try:
                    shown = await self._ask(agent_id, "containers")
                except MesosGpuError as error:
                    silent[agent_id] = str(error)
                    return []
            ours = [each for each in shown if each.get("framework_id") in (None, state.framework_id)]
            now_s = self._scheduler.clock()
            return list(measured(ours, mine, self._looks, first_s=self._first_s, now_s=now_s))

        answers = await asyncio.gather(*(look_at(agent_id, mine) for agent_id, mine in tasks.items()))
        found = [each for answer in answers for each in answer]
        self._looks |= {task.task_id: look for task, _, look in found}
        readings = {task.task_id: reading for task, reading, _ in found if reading is not None}
        if readings:
            whose = {task.task_id: task.instance_id for task, reading, _ in found if reading is not None}
            self._scheduler.tell(Measured(readings, whose))
        return list(readings.values())

    async def look_for_fragments(self) -> None:
        """Look once at which free GPUs nothing that this Marathon is asked for could use."""
        state = self._scheduler.state
        try:
            machines = read_machines(await self._slaves())
        except MesosGpuError:
            return  # the figures stay as they are; that the master is away is said elsewhere
        specs = list(state.apps())
        jobs = [job.definition for job in state.jobs.values()]
        self._scheduler.metrics.measured |= await asyncio.to_thread(figures, machines, specs, jobs)
