"""What an agent does about GPUs that its tasks share: turns on them, and their memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.disk.sandbox import say_in_sandbox
from mesos_gpu.agent.gpus.memory_watcher import MemoryWatcher
from mesos_gpu.agent.gpus.share_tree_mount import ShareTree
from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.agent.running.containers import Containers
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.sharing.memory import Excess


class SharedGpus:
    """Turns, and who watches memory. The turns begin before the agent does, the watching by `begin`."""

    def __init__(self, turns: Turns, memory: MemoryWatcher, tree: ShareTree | None = None) -> None:
        self.turns, self._memory, self._tree = turns, memory, tree
        memory.on_used = turns.take_memory

    def begin(self, state: AgentState, containers: Containers, post: Callable[[ev.Event], None]) -> None:
        """Look at memory from now on; tasks that have too much are told, and ended, by events that are posted."""

        def on_excess(excess: Excess) -> None:
            container = ContainerId(excess.container_id)
            if container in containers.containers():
                say_in_sandbox(Path(containers.record(container).sandbox), excess.message)
            for task in state.frameworks.tasks():
                if task.container_id == container and task.phase is not Phase.OVER:
                    post(ev.GpuIll(task.key, excess.message, kill=excess.ends))

        self._memory.on_excess = on_excess
        self._memory.start()
        if self._tree is not None:
            self._tree.start()

    async def close(self) -> None:
        """Look no more. Turns are closed with the containers that take them."""
        if self._tree is not None:
            await self._tree.close()
        await self._memory.close()
