"""Steps that the agent's decisions share: an update said, logged and sent; a task forgotten. As pure as they are."""

from __future__ import annotations

from collections.abc import Callable

from mesos_gpu.agent.decisions import checking, collecting
from mesos_gpu.agent.decisions.roster import Roster
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.events import Identity, Moment
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.status import Verdict, container_status, make_status, network_infos
from mesos_gpu.agent.model.tasks import Framework, Task
from mesos_gpu.agent.model.updates import Forward, TaskKey, UpdateStreams
from mesos_gpu.mesos.resource import Document


class Steps(Roster):
    """The books of one agent: who it is, its tasks, and their streams of updates."""

    def __init__(
        self,
        identity: Identity,
        resource_version: str,
        *,
        new_uuid: Callable[[], str],
        new_container_id: Callable[[], str],
    ) -> None:
        super().__init__()
        self.identity = identity
        self.resource_version = resource_version
        self.streams = UpdateStreams()
        self.drain: ev.Drain | None = None
        self.stopping: str | None = None
        self.stopped = False
        self.counts: dict[str, int] = {}
        self.new_uuid, self._new_container_id = new_uuid, new_container_id

    def _conclude(self, framework: Framework, task: Task, verdict: Verdict, at: Moment) -> list[Action]:
        """Say how a task ended, or nothing when its framework is gone."""
        task.deadline_s = None
        actions = self._remove(framework, task) if framework.silenced else self._say(framework, task, verdict, at)
        assert task.container_id is not None
        return [*checking.end_checks(task), *actions, act.Forget(task.container_id)]

    def _say(self, framework: Framework, task: Task, verdict: Verdict, at: Moment) -> list[Action]:
        """Put a status update on its way: logged first, then sent when it is its turn."""
        container: Document | None = None
        if task.container_id is not None:
            container = container_status(
                task.container_id, network_infos(task.info, task.networks, self.identity), task.pid
            )
        status = self._status(task.key, verdict, at, executor_id=task.executor_id, container=container)
        status |= checking.said(task, verdict)
        return self._tell(framework, task, status, at)

    def _tell(self, framework: Framework, task: Task, status: Document, at: Moment) -> list[Action]:
        """Put a whole status on its way."""
        task.note(status)
        self._count(status["state"])
        actions = self._log(framework, task, {"type": "UPDATE", "status": status})
        return actions + self._sending(self.streams.add(task.key, status, at.mono_s))

    def _loose(self, key: TaskKey, verdict: Verdict, at: Moment) -> Action:
        """Say something about a task that is not here; whoever asked asks again when it gets lost."""
        return act.SendLoose(key, self._status(key, verdict, at))

    def _status(
        self,
        key: TaskKey,
        verdict: Verdict,
        at: Moment,
        *,
        executor_id: str | None = None,
        container: Document | None = None,
    ) -> Document:
        return make_status(
            verdict,
            task_id=key.task,
            agent_id=self.identity.agent_id,
            executor_id=executor_id,
            uuid=self.new_uuid(),
            wall_s=at.wall_s,
            container=container,
        )

    def _sending(self, sends: list[Forward]) -> list[Action]:
        for send in sends:
            task = self.task(send.key)
            if task is not None:
                task.forwarded_state, task.forwarded_uuid = send.status["state"], send.status["uuid"]
        return list(sends)

    def _log(self, framework: Framework, task: Task, record: Document) -> list[Action]:
        if not framework.checkpoint or task.container_id is None:
            return []
        return [act.Log(task.key, task.container_id, record, task.executor_id if task.hosted else None)]

    def _close(self, task: Task, framework: Framework) -> list[Action]:
        if not framework.checkpoint or task.container_id is None or task.hosted:
            return []
        return [act.Close(task.key, task.container_id)]

    def _remove(self, framework: Framework, task: Task) -> list[Action]:
        """Forget a task that everyone knows the end of; its framework too, when that was its last."""
        self.streams.forget(task.key)
        self.remove(framework, task)
        return [*self._close(task, framework), *self._discard(framework, task)]

    def _discard(self, framework: Framework, over: Task | Executor) -> list[Action]:
        """Have what a run left on the disk collected; of a task whose executor goes on, what was written down of it."""
        agent_id = self.identity.agent_id
        if isinstance(over, Task) and over.hosted:
            noted = over.container_id is not None and framework.checkpoint
            return [act.Discard((collecting.of_task(agent_id, over),))] if noted else []
        paths = collecting.of_run(agent_id, framework, over)
        return [act.Discard(paths)] if paths else []

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
