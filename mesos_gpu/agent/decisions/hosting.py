"""What the master and executors want of each other, as the agent decides it: an event in, actions out. Pure.

What an executor is told waits in a parcel until it has subscribed and its container has been made large enough; what it
says is on disk before it is acknowledged to it. Source: Mesos src/slave/slave.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.agent.decisions import outcomes
from mesos_gpu.agent.decisions.executor_lives import ExecutorLives
from mesos_gpu.agent.decisions.shared_volumes import in_use
from mesos_gpu.agent.launching import executor_launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.events import Moment
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, Parcel, Stage, Turn
from mesos_gpu.agent.model.status import Verdict, hosted_status, network_infos
from mesos_gpu.agent.model.tasks import Cause, Fate, Framework, Phase, Task, next_phase
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.tasks import is_terminal


class Hosting(ExecutorLives):
    """Executors, from their launch to the acknowledgement of the last update of their tasks."""

    def adopt_executor(
        self,
        framework: Framework,
        executor: Executor,
        tasks: Sequence[tuple[Task, list[Document]]],
        at: Moment,
        *,
        complete: bool = False,
    ) -> list[Action]:
        """Take over an executor as the last agent process left it; it has a while to subscribe again."""
        known = self.frameworks.setdefault(framework.id, framework)
        for task, pending in tasks:
            if complete or (task.phase is Phase.OVER and not pending):
                executor.completed.append(task)
                continue
            known.tasks[task.key.task] = task
            self.streams.restore(task.key, pending, task.state)
            task.handed_over = True
        executor.ever_sent = bool(tasks)
        if complete:
            executor.stage = Stage.TERMINATED
            known.completed.append(executor)
            return []
        known.executors[executor.key.executor] = executor
        executor.stage, executor.recovered = Stage.REGISTERING, True
        executor.deadline_s = at.mono_s + self.patience.reregistration_s
        actions: list[Action] = [act.Watch(executor.key, executor.container_id)]
        return actions + (self._end_executor(executor, at) if known.silenced else [])

    @property
    def expected_back(self) -> bool:
        """Tell whether an executor of the last process has not subscribed again yet, and still may."""
        return any(e.recovered and e.stage is Stage.REGISTERING for e in self.executors())

    # --- from the master ----------------------------------------------------------------------------------------

    def _host(self, framework: Framework, event: ev.RunTask, refused: Verdict | None, at: Moment) -> list[Action]:
        """Give tasks (a group, or one) to their executor, launching it when it is not there."""
        infos = [info for info in event.tasks if info["task_id"]["value"] not in framework.tasks]
        if not infos:
            return []
        info: Document = infos[0]["executor"]
        key = ExecutorKey(framework.id, info["executor_id"]["value"])
        executor = framework.executors.get(key.executor)
        verdict = refused or outcomes.refused_hosted(self.identity, info, infos, group=event.group)
        if verdict is None and ((executor is None and not event.launch_executor) or (executor and not executor.alive)):
            verdict = outcomes.executor_terminated(framework)
        if verdict is None and executor is not None:
            late = executor_launch.late_volume(self.identity, executor, infos, framework.hosted_by(executor))
            verdict = None if late is None else outcomes.launch_failed(late)
        if verdict is not None:
            actions: list[Action] = []
            for task_info in infos:
                task = self._enter(framework, task_info, key.executor, None, "")
                task.phase = Phase.OVER
                actions += self._say(framework, task, verdict, at)
            if event.launch_executor and (executor is None or executor.over):
                actions.append(act.ExecutorGone(*key))  # the master has booked it
            return actions
        if executor is None:
            return self._launch_executor(framework, key, info, infos, event.group)
        actions = self._enqueue(framework, executor, infos, event.group, executor.round + 1)
        return actions + ([] if executor.stage is Stage.LAUNCHING else self._fit(framework, executor))

    def _launch_executor(
        self, framework: Framework, key: ExecutorKey, info: Document, infos: list[Document], group: bool
    ) -> list[Action]:
        container_id = self._new_container_id()
        sandbox = executor_launch.sandbox(self.identity, key, container_id)
        executor = framework.executors[key.executor] = Executor(key, info, container_id, sandbox)
        actions: list[Action] = []
        if framework.checkpoint:
            actions.append(act.SaveExecutor(key, container_id, info))
        actions += self._enqueue(framework, executor, infos, group, 0)
        tasks = framework.hosted_by(executor)
        mine = {task.key for task in tasks}
        strangers = (task for task in self.tasks() if task.key not in mine)
        others = in_use(self.identity.work_dir, [info, *infos], strangers)
        spec = executor_launch.executor_spec(self.identity, framework.info, executor, tasks, self.patience, others)
        return [*actions, act.Launch(key, spec)]

    def _enqueue(
        self, framework: Framework, executor: Executor, infos: list[Document], group: bool, after_round: int
    ) -> list[Action]:
        actions: list[Action] = []
        for info in infos:
            task = self._enter(framework, info, executor.key.executor, executor.container_id, executor.sandbox)
            if framework.checkpoint:
                actions.append(act.SaveTask(task.key, executor.container_id, info, executor.key.executor))
        executor.queue.append(Parcel(tuple(info["task_id"]["value"] for info in infos), group, after_round))
        return actions

    def _enter(
        self, framework: Framework, info: Document, executor_id: str, container_id: str | None, sandbox: str
    ) -> Task:
        key = TaskKey(framework.id, info["task_id"]["value"])
        task = framework.tasks[key.task] = Task(key, info, executor_id, container_id, sandbox, hosted=True)
        return task

    def _end_hosted(
        self, framework: Framework, task: Task, fate: Fate, asked_grace_s: float | None, at: Moment
    ) -> list[Action]:
        """Have an executor end one of its tasks, or take the task back when it was not handed over yet."""
        executor = framework.executors.get(task.executor_id)
        if task.phase is Phase.OVER or executor is None:
            return []
        task.fate = task.fate or fate
        record = {"type": "KILL", "fate": task.fate.value, "reason": task.reason, "why": task.why}
        actions = self._log(framework, task, record)
        parcel = executor.queued(task.key.task)
        if parcel is not None:
            executor.queue.remove(parcel)
            for task_id in parcel.tasks:
                one = framework.tasks[task_id]
                one.phase = Phase.OVER
                actions += self._say(framework, one, outcomes.taken_back(task, one), at)
            return actions + self._end_if_useless(executor, at)
        task.phase = next_phase(task.phase, Cause.END_ASKED)
        return [*actions, *self._kill_event(executor, task, asked_grace_s)]

    def _kill_event(self, executor: Executor, task: Task, asked_grace_s: float | None) -> list[Action]:
        kill: Document = {"task_id": {"value": task.key.task}}
        most_s = None if self.drain is None else self.drain.max_grace_s
        own_s = executor_launch.kill_grace_s(task.info)
        grace_s = asked_grace_s if asked_grace_s is not None or most_s is None else own_s
        if most_s is not None:
            grace_s = most_s if grace_s is None else min(grace_s, most_s)
        if grace_s is not None:
            kill["kill_policy"] = {"grace_period": {"nanoseconds": round(grace_s * 1e9)}}
        return [act.ToExecutor(executor.key, {"type": "KILL", "kill": kill})]

    def _silence_executors(self, framework: Framework, at: Moment) -> list[Action]:
        """End the executors of a framework that is gone, without a word about their tasks."""
        for task in [task for task in framework.tasks.values() if task.hosted]:
            task.phase = Phase.OVER
            self.streams.forget(task.key)
            self.remove(framework, task)
        actions: list[Action] = []
        for executor in list(framework.executors.values()):
            executor.queue.clear()
            actions += self._retire(framework, executor) if executor.over else self._end_executor(executor, at)
        return actions

    def _shutdown_executor(self, event: ev.ShutdownExecutor, at: Moment) -> list[Action]:
        executor = self.executor(event.key)
        return [] if executor is None else self._end_executor(executor, at)

    def _framework_message(self, event: ev.FrameworkMessage) -> list[Action]:
        executor = self.executor(event.key)
        if executor is None or executor.stage is not Stage.RUNNING:
            self._count("invalid_framework_messages")
            return []
        self._count("valid_framework_messages")
        return [act.ToExecutor(event.key, {"type": "MESSAGE", "message": {"data": event.data}})]

    # --- from executors -----------------------------------------------------------------------------------------

    def _subscribed(self, event: ev.Subscribed, at: Moment) -> list[Action]:
        executor = self.executor(event.key)
        if executor is None or not executor.alive:
            return [act.ToExecutor(event.key, {"type": "SHUTDOWN"}), act.CloseStream(event.key)]
        framework = self.frameworks[event.key.framework]
        executor.turn(Turn.SUBSCRIBED)
        executor.connected, executor.deadline_s = True, None
        actions: list[Action] = []
        if framework.checkpoint:
            actions.append(act.NoteRun(executor.key, executor.container_id, "http.marker"))
        actions.append(act.Welcome(executor.key, framework.info, executor.info, executor.container_id))
        for status in event.updates:
            actions += self._executor_says(ev.ExecutorSays(event.key, status), at)
        for task in framework.hosted_by(executor):
            actions += self._compare(framework, executor, task, event.tasks, at)
        useless = self._end_if_useless(executor, at)
        return actions + (useless or self._deliver(framework, executor))

    def _compare(
        self, framework: Framework, executor: Executor, task: Task, held: Sequence[str], at: Moment
    ) -> list[Action]:
        """See that a subscribing executor has a task that was on its way to it, and knows that it should end."""
        if task.phase is Phase.OVER or not task.handed_over:
            return []
        if task.state == "TASK_STAGING" and task.key.task not in held:
            task.phase = Phase.OVER
            return self._say(framework, task, outcomes.never_arrived(framework), at)
        return self._kill_event(executor, task, None) if task.fate is not None else []

    def _stream_closed(self, event: ev.StreamClosed) -> list[Action]:
        executor = self.executor(event.key)
        if executor is not None:
            executor.connected = False
        return []

    def _executor_says(self, event: ev.ExecutorSays, at: Moment) -> list[Action]:
        """Take an update of an executor: logged, then acknowledged to it; a repeated one is acknowledged again."""
        status, executor = event.status, self.executor(event.key)
        task_id, uuid = status["task_id"]["value"], status["uuid"]
        answer = {"type": "ACKNOWLEDGED", "acknowledged": {"task_id": {"value": task_id}, "uuid": uuid}}
        acknowledge = act.ToExecutor(event.key, answer)
        if executor is None:
            return []
        framework = self.frameworks[event.key.framework]
        task = framework.tasks.get(task_id)
        known = task is not None and task.hosted and task.container_id == executor.container_id
        if task is None or not known or task.phase is Phase.OVER or uuid in task.received:
            if not known:
                self._count("invalid_status_updates")
            return [acknowledge]
        task.received.add(uuid)
        networks = network_infos(executor.info, executor.networks, self.identity)
        full = hosted_status(
            status, task, agent_id=self.identity.agent_id, networks=networks, pid=executor.pid, wall_s=at.wall_s
        )
        full = outcomes.of_agents_doing(framework, task, full)
        if is_terminal(full["state"]):
            task.phase = Phase.OVER
        actions = [*self._tell(framework, task, full, at), acknowledge]
        return actions + (self._fit(framework, executor) if is_terminal(full["state"]) else [])

    def _executor_message(self, event: ev.ExecutorMessage) -> list[Action]:
        return [] if self.executor(event.key) is None else [act.ToFramework(event.key, event.data)]
