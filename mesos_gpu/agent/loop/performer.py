"""Carries out what the agent's state decided, in the order of the list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from typing_extensions import assert_never

from mesos_gpu.agent.cluster.master_link import MasterLink
from mesos_gpu.agent.cluster.membership import Membership
from mesos_gpu.agent.decisions.collecting import spared_by
from mesos_gpu.agent.disk.checkpoints import Checkpoints
from mesos_gpu.agent.disk.collector import Collector
from mesos_gpu.agent.loop.executor_api import ExecutorStreams
from mesos_gpu.agent.loop.executor_link import ExecutorLink
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.updates import Forward, TaskKey
from mesos_gpu.agent.running.checker import Checker, Look
from mesos_gpu.agent.running.containers import Containers, Runner
from mesos_gpu.agent.running.probes import look
from mesos_gpu.mesos.resource import Document


class Performer:
    """What an agent acts with: its disk, the master, executors, containers, and the clocks of checks."""

    def __init__(
        self,
        membership: Membership,
        link: MasterLink,
        checkpoints: Checkpoints,
        containers: Containers,
        runner: Runner,
        streams: ExecutorStreams,
        executors: ExecutorLink,
        checker: Checker[TaskKey],
        collector: Collector,
        stop: Callable[[str], None],
    ) -> None:
        self._membership, self._link, self._checkpoints = membership, link, checkpoints
        self._containers, self._runner = containers, runner
        self._streams, self._executors, self._checker, self._stop = streams, executors, checker, stop
        self._collector = collector

    @property
    def _agent_id(self) -> str:
        return self._membership.agent_id or ""

    def perform(self, actions: Sequence[act.Action]) -> None:
        """Carry out all of them. Raises OSError when one cannot be written down: those after it are not done."""
        for action in actions:
            self._collector.spare(spared_by(self._agent_id, action))
            match action:
                case act.SaveFramework():
                    self._checkpoints.save_framework(action.framework, action.info, action.pid)
                case act.SaveTask():
                    self._checkpoints.save_task(action.key, action.container_id, action.info, action.executor)
                case act.Log():
                    self._checkpoints.log(action.key, action.container_id, action.record, action.executor)
                case act.Close():
                    self._checkpoints.close_run(action.key, action.container_id)
                case act.Discard():
                    self._collector.discard(action.paths)
                case act.SaveDrain():
                    drain = action.drain
                    config = None if drain is None else {"max_grace_s": drain.max_grace_s, "gone": drain.gone}
                    self._checkpoints.save_drain(config)
                case Forward():
                    self._link.forward(action)
                case act.SendLoose():
                    self._link.update(action.key, action.status, action.status["state"])
                case act.ExecutorGone():
                    self._link.executor_gone(self._agent_id, action.framework, action.executor, action.status)
                case act.SaveExecutor():
                    self._checkpoints.save_executor(action.key, action.container_id, action.info)
                case act.NoteRun():
                    self._checkpoints.note_run(action.key, action.container_id, action.name, action.text)
                case act.Welcome():
                    self._welcome_executor(action)
                case act.ToExecutor():
                    self._streams.send(action.key, action.event)
                case act.Reconnect():
                    self._executors.reconnect(action.pid, self._agent_id)
                case act.CloseStream():
                    self._streams.close(action.key)
                case act.ToFramework():
                    self._link.executor_message(self._agent_id, action)
                case act.Resize():
                    self._runner.resize(action)
                case act.Launch():
                    self._runner.launch(action)
                case act.Watch():
                    self._runner.watch(action)
                case act.Kill():
                    self._runner.kill(action)
                case act.BeginChecks():
                    self._checker.begin(action.key, action.courses, self._look_of(action))
                case act.EndChecks():
                    self._checker.end(action.key)
                case act.Forget():
                    self._runner.forget(action)
                case act.Stop():
                    self._stop(action.why)
                case _:
                    assert_never(action)

    def _welcome_executor(self, action: act.Welcome) -> None:
        subscribed: Document = {
            "executor_info": action.executor,
            "framework_info": action.framework,
            "agent_info": {**self._membership.info, "id": {"value": self._agent_id}},
            "container_id": {"value": action.container_id},
        }
        self._streams.send(action.key, {"type": "SUBSCRIBED", "subscribed": subscribed})

    def _look_of(self, begin: act.BeginChecks) -> Look:
        return lambda probe: look(probe, self._containers, begin.container_id, Path(begin.sandbox))
