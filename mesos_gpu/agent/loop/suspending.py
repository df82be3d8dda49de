"""Suspends and resumes tasks with what they have on GPUs, for operators and frameworks, and tells whose they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.errors import MesosGpuError
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.suspension import Phase as Suspended
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.suspending import (
    AT_WORK,
    NOT_RESUMED,
    NOT_SUSPENDED,
    RESUME,
    RESUMED,
    SUSPEND,
    SUSPENDED,
    WORDS,
)

log = logging.getLogger(__name__)

_PUT_AWAY = f"{SUSPENDED}what it has on GPUs is put away, and others may use those until it is resumed"


class Suspending:
    """Lives in one event loop. `tasks` are those of the agent, `post` tells their frameworks."""

    def __init__(self, suspender: Suspender, tasks: Callable[[], Iterable[Task]], post: Callable[[ev.Event], None]):
        self.suspender, self._tasks, self._post = suspender, tasks, post
        self._work: set[asyncio.Task[None]] = set()
        self._at: set[tuple[ContainerId, str]] = set()
        """What frameworks have asked for and have no answer to yet."""

    async def suspend(self, container: ContainerId) -> None:
        """Put away what a container has on its GPUs, and tell whose it is. Raises what the suspender raises."""
        await self.suspender.suspend(container)
        self._tell(container, _PUT_AWAY)

    async def resume(self, container: ContainerId) -> Sequence[Gpu]:
        """Give a container its GPUs again, and tell whose it is. Raises what the suspender raises."""
        gpus = await self.suspender.resume(container)
        self._tell(container, f"{RESUMED}GPU {', '.join(f'{gpu.index} ({gpu.uuid})' for gpu in gpus)}")
        return gpus

    def heard(self, message: ev.Event) -> bool:
        """Do what a framework says of a task of its own that is a command alone; return whether it says that.

        It is heeded from the master alone, which knows whose task it is: anybody may send an executor a message.
        """
        if not isinstance(message, ev.FrameworkMessage) or message.pid is not None:
            return False
        what = WORDS.get(message.data)
        if what is None:
            return False
        for task in self._tasks():
            mine = (task.key.framework, str(task.key.task)) == (message.key.framework, str(message.key.executor))
            if mine and task.container_id is not None and task.phase is not Phase.OVER:
                self._begin(what, task.container_id)
                return True
        return False

    def _begin(self, what: str, container: ContainerId) -> None:
        """Do it; where that is being done, say so: done twice, it might be done after it was refused and given up."""
        if (container, what) in self._at:
            doing = "put away" if what == SUSPEND else "brought back"
            self._tell(container, f"{AT_WORK}what it has on GPUs is being {doing}")
            return
        self._at.add((container, what))
        work = asyncio.ensure_future(self._do(what, container))
        self._work.add(work)
        work.add_done_callback(self._work.discard)

    async def close(self) -> None:
        """Do nothing more."""
        for work in self._work:
            work.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self.suspender.close()

    async def _do(self, what: str, container: ContainerId) -> None:
        """Suspend or resume, and answer in any case; what is so already is said again."""
        there = self.suspender.book.get(container)
        try:
            if what == RESUME:
                await self.resume(container)
            elif there is not None and there.phase is Suspended.SUSPENDED:
                self._tell(container, _PUT_AWAY)
            else:
                await self.suspend(container)
        except MesosGpuError as error:
            log.warning("container %s: %s: %s", container, what, error)
            self._tell(container, f"{NOT_SUSPENDED if what == SUSPEND else NOT_RESUMED}{error}")
        finally:
            self._at.discard((container, what))

    def _tell(self, container: ContainerId, message: str) -> None:
        """Tell whoever runs the container; it is TASK_RUNNING all the while, for Mesos has no other word."""
        for task in self._tasks():
            if task.container_id == container and task.phase is not Phase.OVER:
                self._post(ev.GpuIll(task.key, message, kill=False, again=True))
