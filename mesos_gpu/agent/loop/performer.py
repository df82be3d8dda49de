"""Carries out what the agent's state decided, in the order of the list.

What a task's run or end depends on is on the disk first, and not only written: a launch before anything of it runs or
its executor hears of it, an end before the master does. So such actions wait for a sync, in their order, while others
go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from typing_extensions import assert_never

from mesos_gpu.agent.cluster.master_link import MasterLink
from mesos_gpu.agent.cluster.membership import Membership
from mesos_gpu.agent.decisions.collecting import spared_by
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.disk.collector import Collector
from mesos_gpu.agent.loop.executor_api import ExecutorStreams
from mesos_gpu.agent.loop.executor_link import ExecutorLink
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.updates import Forward, TaskKey
from mesos_gpu.agent.running.checker import Checker, Look
from mesos_gpu.agent.running.containers import Containers, Runner
from mesos_gpu.agent.running.probes import look
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.tasks import is_terminal


class Performer(Struct, frozen=True):
    """What an agent acts with: its disk, the master, executors, containers, and the clocks of checks."""

    membership: Membership
    link: MasterLink
    checkpoints: AgentCheckpoints
    collector: Collector
    containers: Containers
    runner: Runner
    checker: Checker[TaskKey]
    streams: ExecutorStreams
    executors: ExecutorLink
    to_send: Callable[[Forward], bool]
    """Whether an update that waited for the disk is still the one to be told."""
    stop: Callable[[str], None]

    @property
    def _agent_id(self) -> AgentId:
        return self.membership.agent_id or AgentId("")

    def perform(self, actions: Sequence[act.Action]) -> None:
        """Carry out all of them. Raises OSError when one cannot be written down: those after it are not done."""
        for action in actions:
            self.collector.spare(spared_by(self._agent_id, action))
            if isinstance(action, act.OnDisk):
                self._write(action)
            elif isinstance(action, act.ToMaster):
                self._tell_master(action)
            elif isinstance(action, act.OfExecutors):
                self._tell_executor(action)
            elif isinstance(action, act.OfContainers):
                self._run(action)
            else:
                self.stop(action.why)

    def _write(self, action: act.OnDisk) -> None:
        match action:
            case act.SaveFramework():
                self.checkpoints.save_framework(action.framework, action.info, action.pid)
            case act.SaveTask():
                self.checkpoints.save_task(action.key, action.container_id, action.info, action.executor)
            case act.SaveExecutor():
                self.checkpoints.save_executor(action.key, action.container_id, action.info)
            case act.NoteRun():
                self.checkpoints.note_run(action.key, action.container_id, action.name, action.text)
            case act.Log():
                key, run, whose = action.key, action.container_id, action.executor
                self.checkpoints.log(key, run, action.record, whose, lasting=action.lasting)
            case act.Close():
                self.checkpoints.close_run(action.key, action.container_id)
            case act.Discard():
                self.collector.discard(action.paths)
            case act.SaveDoubt():
                self.checkpoints.save_doubt(doubt=action.doubt)
            case act.SaveDrain():
                drain = action.drain
                config = None if drain is None else {"max_grace_s": drain.max_grace_s, "gone": drain.gone}
                self.checkpoints.save_drain(config)
            case _:
                assert_never(action)

    def _tell_master(self, action: act.ToMaster) -> None:
        match action:
            case Forward():
                if is_terminal(action.latest_state):
                    self.checkpoints.syncing.after(lambda: self._forward_late(action))
                else:
                    self.link.forward(action)
            case act.ExecutorGone():  # after the ends of its tasks
                gone = partial(self.link.executor_gone, self._agent_id)
                after = partial(gone, action.framework, action.executor, action.status)
                self.checkpoints.syncing.after(after)
            case act.ToFramework():
                self.link.executor_message(self._agent_id, action)
            case _:
                assert_never(action)

    def _forward_late(self, forward: Forward) -> None:
        if self.to_send(forward):
            self.link.forward(forward)

    def _tell_executor(self, action: act.OfExecutors) -> None:
        after = self.checkpoints.syncing.after
        match action:
            case act.Welcome():
                after(partial(self.streams.sender(action.key), self._welcome(action)))
            case act.ToExecutor():
                after(partial(self.streams.sender(action.key), action.event))
            case act.CloseStream():
                after(self.streams.closer(action.key))
            case act.Reconnect():
                self.executors.reconnect(action.pid, self._agent_id)
            case _:
                assert_never(action)

    def _run(self, action: act.OfContainers) -> None:
        match action:
            case act.Launch():
                self.runner.launch(action, self.checkpoints.syncing.synced())
            case act.Watch():
                self.runner.watch(action)
            case act.Kill():
                self.runner.kill(action)
            case act.Resize():
                self.runner.resize(action)
            case act.Forget():
                self.runner.forget(action)
            case act.BeginChecks():
                self.checker.begin(action.key, action.courses, self._look_of(action))
            case act.EndChecks():
                self.checker.end(action.key)
            case _:
                assert_never(action)

    def _welcome(self, action: act.Welcome) -> Document:
        subscribed: Document = {
            "executor_info": action.executor,
            "framework_info": action.framework,
            "agent_info": {**self.membership.info, "id": {"value": self._agent_id}},
            "container_id": {"value": action.container_id},
        }
        return {"type": "SUBSCRIBED", "subscribed": subscribed}

    def _look_of(self, begin: act.BeginChecks) -> Look:
        return lambda probe: look(probe, self.containers, begin.container_id, Path(begin.sandbox))
