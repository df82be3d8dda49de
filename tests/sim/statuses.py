"""What agents promise of status updates: each that was written down is told, and none is forgotten before it was."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.model.updates import TaskKey, UpdateStreams
from mesos_gpu.master.state.state import MasterState
from tests.sim.world import PROCESS

if TYPE_CHECKING:
    from tests.sim.world import Process, World

SOON_S = 600.0
"""An update that is younger may be on its way still: it is sent again after so long at most."""


@dataclass
class _Owed:
    """An update that an agent has to tell; `lasting`: so has its next process, for it is on the disk."""

    task: str
    framework: str
    state: str
    process: Process
    since_s: float
    boot: int
    """Of its machine: what was there before another boot is said to be gone."""
    lasting: bool = False


class Statuses:
    """Knows what agents have to tell and what frameworks were told; wraps what agents keep updates in."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._told: set[str] = set()
        self._owed: dict[str, _Owed] = {}
        self._removed: set[str] = set()
        """Frameworks that a master has removed for good: nobody is there to hear of their tasks."""

    def told(self, status: dict[str, Any]) -> None:
        """A framework got a TaskStatus."""
        if "uuid" in status:
            self._told.add(status["uuid"])
            self._owed.pop(status["uuid"], None)

    def settled(self, there: Collection[str], excused: Callable[[str], bool]) -> None:
        """Everything works again: what agents had to tell is told by now, but for tasks that are excused.

        `there`: the ids of the frameworks that are subscribed.
        """
        for owed in self._owed.values():
            if owed.framework in self._removed and owed.framework not in there:
                # A power cut may bring back its tasks' records, and the masters of now do not know that it is removed.
                continue
            kept = (owed.lasting or owed.process.alive) and owed.process.host.boots == owed.boot
            if kept and self._world.now_s - owed.since_s > SOON_S and not excused(owed.task):
                host = owed.process.host.name
                self._world.finding(f"{host} has never told that task {owed.task} was {owed.state}")

    def install(self) -> None:
        """Be told of every update. For good."""
        ledger = self

        def add(self: UpdateStreams, key: TaskKey, status: Any, now_s: float) -> Any:
            sent = real_add(self, key, status, now_s)
            process = PROCESS.get()
            if process is not None and any(one is status for one in self.pending(key)):
                ledger._owe(key, status, process)
            return sent

        def acknowledge(self: UpdateStreams, key: TaskKey, uuid: str, now_s: float) -> Any:
            before = self.pending(key)
            sent = real_acknowledge(self, key, uuid, now_s)
            if before and len(self.pending(key)) < len(before) and before[0]["uuid"] not in ledger._told:
                process = PROCESS.get()
                ledger._world.finding(f"{process} forgets that task {key.task} was {before[0]['state']}; nobody heard")
            return sent

        def forget(self: UpdateStreams, key: TaskKey) -> None:
            for status in self.pending(key):
                ledger._owed.pop(status["uuid"], None)
            real_forget(self, key)

        def log(self: AgentCheckpoints, key: Any, container_id: Any, record: Any, *more: Any, **how: Any) -> None:
            real_log(self, key, container_id, record, *more, **how)
            if record["type"] == "UPDATE" and record["status"]["uuid"] in ledger._owed:
                ledger._owed[record["status"]["uuid"]].lasting = True

        def close_runs(self: AgentCheckpoints, framework: Any) -> None:
            # What a framework is could not be written, or was lost: none of its tasks is known any more.
            process = PROCESS.get()
            for uuid, owed in list(ledger._owed.items()):
                if process is not None and owed.process.host is process.host and owed.framework == framework:
                    del ledger._owed[uuid]
            real_close_runs(self, framework)

        real_add, real_acknowledge, real_forget = UpdateStreams.add, UpdateStreams.acknowledge, UpdateStreams.forget
        real_log, real_close_runs = AgentCheckpoints.log, AgentCheckpoints.close_runs
        for owner, name, wrapped in (
            (UpdateStreams, "add", add),
            (UpdateStreams, "acknowledge", acknowledge),
            (UpdateStreams, "forget", forget),
            (AgentCheckpoints, "log", log),
            (AgentCheckpoints, "close_runs", close_runs),
        ):
            setattr(owner, name, wrapped)
        self._install_removals()

    def _install_removals(self) -> None:
        """Be told of frameworks that are removed, and of what agents forget of them."""
        ledger = self

        def forget_framework(self: UpdateStreams, framework: Any) -> None:
            # Source: Mesos src/slave/slave.cpp, removeFramework(): a master that has removed one has agents shut it
            # down, and they close its streams. Of one that is there still all is owed as before.
            if framework in ledger._removed:
                for key in (key for key in self if key.framework == framework):
                    for status in self.pending(key):
                        ledger._owed.pop(status["uuid"], None)
            real_forget_framework(self, framework)

        def remember_framework(self: MasterState, framework: Any) -> None:
            ledger._removed.add(framework.id)
            real_remember_framework(self, framework)

        def forget_agent(self: AgentCheckpoints) -> None:
            # Its master has sent it away, as an operator marked it as gone, say: that one speaks of its tasks now.
            process = PROCESS.get()
            for uuid, owed in list(ledger._owed.items()):
                if process is not None and owed.process.host is process.host:
                    del ledger._owed[uuid]
            real_forget_agent(self)

        real_forget_framework, real_remember_framework = UpdateStreams.forget_framework, MasterState.remember_framework
        real_forget_agent = AgentCheckpoints.forget_agent
        for owner, name, wrapped in (
            (UpdateStreams, "forget_framework", forget_framework),
            (MasterState, "remember_framework", remember_framework),
            (AgentCheckpoints, "forget_agent", forget_agent),
        ):
            setattr(owner, name, wrapped)

    def _owe(self, key: TaskKey, status: Any, process: Process) -> None:
        # The same process writes it down in the same step, before anybody is told of it.
        new = _Owed(key.task, key.framework, status["state"], process, self._world.now_s, process.host.boots)
        owed = self._owed.setdefault(status["uuid"], new)
        owed.process = process
