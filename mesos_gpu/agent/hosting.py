"""The agent's decisions about executors of frameworks and the tasks in them: an event in, actions out. Pure.

What an executor is told waits in a parcel until it has subscribed and its container has been made large enough; what it
says is on disk before it is acknowledged to it. Source: Mesos src/slave/slave.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.agent import events as ev
from mesos_gpu.agent import executor_launch, verdicts
from mesos_gpu.agent.events import Action, Event, Moment
from mesos_gpu.agent.executors import Executor, ExecutorKey, ExecutorPatience, Parcel, Stage, Turn
from mesos_gpu.agent.status import Verdict, hosted_status
from mesos_gpu.agent.steps import Steps
from mesos_gpu.agent.tasks import Cause, Fate, Framework, Phase, Task, next_phase
from mesos_gpu.agent.updates import TaskKey
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.tasks import is_terminal


class Hosting(Steps):
    """Executors, from their launch to the acknowledgement of the last update of their tasks."""

    patience = ExecutorPatience()

    @property
    def executors_due_s(self) -> float | None:
        """Return when the next executor has used up its time, in monotonic seconds."""
        return min((e.deadline_s for e in self.executors() if e.deadline_s is not None), default=None)

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
        actions: list[Action] = [ev.Watch(executor.key, executor.container_id)]
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
        verdict = refused or verdicts.refused_hosted(self.identity, info, infos, group=event.group)
        if verdict is None and ((executor is None and not event.launch_executor) or (executor and not executor.alive)):
            verdict = verdicts.executor_terminated(framework)
        if verdict is None and executor is not None:
            late = executor_launch.late_volume(self.identity, executor, infos)
            verdict = None if late is None else verdicts.launch_failed(late)
        if verdict is not None:
            actions: list[Action] = []
            for task_info in infos:
                task = self._enter(framework, task_info, key.executor, None, "")
                task.phase = Phase.OVER
                actions += self._say(framework, task, verdict, at)
            if event.launch_executor and (executor is None or executor.over):
                actions.append(ev.ExecutorGone(*key))  # the master has booked it
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
            actions.append(ev.SaveExecutor(key, container_id, info))
        actions += self._enqueue(framework, executor, infos, group, 0)
        tasks = framework.hosted_by(executor)
        spec = executor_launch.executor_spec(self.identity, framework.info, executor, tasks, self.patience)
        return [*actions, ev.Launch(key, spec)]

    def _enqueue(
        self, framework: Framework, executor: Executor, infos: list[Document], group: bool, after_round: int
    ) -> list[Action]:
        actions: list[Action] = []
        for info in infos:
            task = self._enter(framework, info, executor.key.executor, executor.container_id, executor.sandbox)
            if framework.checkpoint:
                actions.append(ev.SaveTask(task.key, executor.container_id, info, executor.key.executor))
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
                actions += self._say(framework, one, verdicts.taken_back(task, one), at)
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
        return [ev.ToExecutor(executor.key, {"type": "KILL", "kill": kill})]

    def _silence_executors(self, framework: Framework, at: Moment) -> list[Action]:
        """End the executors of a framework that is gone, without a word about their tasks."""
        for task in [task for task in framework.tasks.values() if task.hosted]:
            task.phase = Phase.OVER
            self.streams.forget(task.key)
            self.remove(framework, task)
        actions: list[Action] = []
        for executor in list(framework.executors.values()):
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
        return [ev.ToExecutor(event.key, {"type": "MESSAGE", "message": {"data": event.data}})]

    # --- from executors -----------------------------------------------------------------------------------------

    def _subscribed(self, event: ev.Subscribed, at: Moment) -> list[Action]:
        executor = self.executor(event.key)
        if executor is None or not executor.alive:
            return [ev.ToExecutor(event.key, {"type": "SHUTDOWN"}), ev.CloseStream(event.key)]
        framework = self.frameworks[event.key.framework]
        executor.turn(Turn.SUBSCRIBED)
        executor.connected, executor.deadline_s = True, None
        actions: list[Action] = []
        if framework.checkpoint:
            actions.append(ev.NoteRun(executor.key, executor.container_id, "http.marker"))
        actions.append(ev.Welcome(executor.key, framework.info, executor.info, executor.container_id))
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
            return self._say(framework, task, verdicts.never_arrived(framework), at)
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
        acknowledge = ev.ToExecutor(event.key, answer)
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
        full = hosted_status(
            status, task, agent_id=self.identity.agent_id, ip=self.identity.ip, pid=executor.pid, wall_s=at.wall_s
        )
        full = verdicts.of_agents_doing(framework, task, full)
        if is_terminal(full["state"]):
            task.phase = Phase.OVER
        actions = [*self._tell(framework, task, full, at), acknowledge]
        return actions + (self._fit(framework, executor) if is_terminal(full["state"]) else [])

    def _executor_message(self, event: ev.ExecutorMessage) -> list[Action]:
        return [] if self.executor(event.key) is None else [ev.ToFramework(event.key, event.data)]

    # --- from the containers ------------------------------------------------------------------------------------

    def _of_executor(self, key: ExecutorKey, event: Event, at: Moment) -> list[Action]:
        """Take what happened to the container of an executor."""
        executor = self.executor(key)
        if executor is None:
            return []
        framework = self.frameworks[key.framework]
        match event:
            case ev.Launched():
                return self._executor_runs(framework, executor, event.pid, at)
            case ev.LaunchFailed():
                self._count("container_launch_errors")
                executor.verdict = executor.verdict or verdicts.launch_failed(event.cause)
                return self._executor_ended(framework, executor, None, at)
            case ev.Ended():
                return self._executor_ended(framework, executor, event.ending, at)
            case ev.Vanished():
                executor.verdict = executor.verdict or verdicts.executor_vanished(framework, rebooted=event.rebooted)
                return self._executor_ended(framework, executor, None, at)
            case _:
                return []  # how far the pull of its image is: its tasks are not its own yet

    def _executor_runs(self, framework: Framework, executor: Executor, pid: int | None, at: Moment) -> list[Action]:
        executor.pid = pid
        executor.turn(Turn.LAUNCHED)
        if executor.stage is Stage.TERMINATING:
            return [ev.Kill(executor.key, executor.container_id, 0.0)]
        actions: list[Action] = []
        if framework.checkpoint and pid is not None:
            actions.append(ev.NoteRun(executor.key, executor.container_id, "pids/forked.pid", str(pid)))
        if executor.stage is Stage.REGISTERING:
            executor.deadline_s = at.mono_s + self.patience.registration_s
        waiting = any(parcel.round > executor.round for parcel in executor.queue)
        return actions + (self._fit(framework, executor) if waiting else [])

    def _executor_ended(
        self, framework: Framework, executor: Executor, ending: ev.Ending | None, at: Moment
    ) -> list[Action]:
        executor.turn(Turn.ENDED)
        executor.connected, executor.deadline_s = False, None
        executor.queue.clear()
        actions: list[Action] = []
        for task in framework.hosted_by(executor):
            if task.phase is not Phase.OVER:
                task.phase = Phase.OVER
                actions += self._say(framework, task, verdicts.with_its_executor(executor, task, ending), at)
        if not framework.silenced:
            actions.append(ev.ExecutorGone(*executor.key, status=verdicts.wait_status(ending)))
        actions += [ev.CloseStream(executor.key), ev.Forget(executor.container_id)]
        return actions + self._retire_if_done(framework, executor)

    def _resized(self, event: ev.Resized, at: Moment) -> list[Action]:
        executor = self.executor(event.key)
        if executor is None or executor.container_id != event.container_id or not executor.alive:
            return []
        framework = self.frameworks[event.key.framework]
        executor.resized = max(executor.resized, event.round)
        actions: list[Action] = []
        if event.problem is not None:
            failed = [parcel for parcel in executor.queue if parcel.round <= event.round]
            executor.queue = [parcel for parcel in executor.queue if parcel not in failed]
            for task_id in [task_id for parcel in failed for task_id in parcel.tasks]:
                task = framework.tasks[task_id]
                task.phase = Phase.OVER
                actions += self._say(framework, task, verdicts.update_failed(event.problem), at)
        useless = self._end_if_useless(executor, at)
        return actions + (useless or self._deliver(framework, executor))

    def _executors_due(self, at: Moment) -> list[Action]:
        actions: list[Action] = []
        for executor in self.executors():
            if executor.deadline_s is None or executor.deadline_s > at.mono_s:
                continue
            executor.deadline_s = None
            if executor.stage is Stage.REGISTERING:
                framework = self.frameworks[executor.key.framework]
                executor.verdict = verdicts.not_subscribed(framework, executor, self.patience)
                executor.turn(Turn.END_ASKED)
            actions.append(ev.Kill(executor.key, executor.container_id, 0.0))
        return actions

    # --- steps --------------------------------------------------------------------------------------------------

    def _deliver(self, framework: Framework, executor: Executor) -> list[Action]:
        """Hand over what waits, as far as the container is large enough for it."""
        actions: list[Action] = []
        while executor.stage is Stage.RUNNING and executor.connected and executor.queue:
            if executor.queue[0].round > executor.resized:
                break
            parcel = executor.queue.pop(0)
            tasks = [framework.tasks[task_id] for task_id in parcel.tasks]
            for task in tasks:
                task.phase = next_phase(task.phase, Cause.LAUNCHED)
                task.handed_over = True
            executor.ever_sent = True
            event: Document = {"type": "LAUNCH", "launch": {"task": tasks[0].info}}
            if parcel.group:
                group = {"task_group": {"tasks": [task.info for task in tasks]}}
                event = {"type": "LAUNCH_GROUP", "launch_group": group}
            actions.append(ev.ToExecutor(executor.key, event))
        return actions

    def _fit(self, framework: Framework, executor: Executor) -> list[Action]:
        """Have the container hold exactly what the executor and its tasks were given."""
        if executor.stage not in (Stage.REGISTERING, Stage.RUNNING):
            return []
        executor.round += 1
        tasks = [task for task in framework.hosted_by(executor) if task.phase is not Phase.OVER]
        cpus_milli, mem_bytes, gpus = executor_launch.limits(executor, tasks)
        size = (cpus_milli, mem_bytes, gpus, executor.round)
        return [ev.Resize(executor.key, executor.container_id, *size)]

    def _end_if_useless(self, executor: Executor, at: Moment) -> list[Action]:
        """End an executor that was never given a task and has none to wait for: some would wait for ever."""
        return [] if executor.ever_sent or executor.queue else self._end_executor(executor, at)

    def _end_executor(self, executor: Executor, at: Moment) -> list[Action]:
        """Tell an executor to end; after its grace, or at once when it cannot hear, its container is ended."""
        if not executor.alive:
            return []
        was = executor.stage
        executor.turn(Turn.END_ASKED)
        grace_s = executor_launch.shutdown_grace_s(executor.info, self.patience)
        if was is Stage.RUNNING and executor.connected:
            executor.deadline_s = at.mono_s + grace_s
            return [ev.ToExecutor(executor.key, {"type": "SHUTDOWN"})]
        executor.deadline_s = None
        return [ev.Kill(executor.key, executor.container_id, 0.0 if was is Stage.LAUNCHING else grace_s)]

    def _retire_if_done(self, framework: Framework, executor: Executor) -> list[Action]:
        """Forget an executor that is gone, once the ends of its tasks are known."""
        if not executor.over or framework.hosted_by(executor):
            return []
        return self._retire(framework, executor)

    def _retire(self, framework: Framework, executor: Executor) -> list[Action]:
        self.retire(framework, executor)
        return [ev.Close(executor.key, executor.container_id)] if framework.checkpoint else []
