"""The life of an executor's container, as the agent decides it: launched, resized, told to end, gone. Pure.

Source: Mesos src/slave/slave.cpp (executorLaunched, executorTerminated, registerExecutorTimeout, _shutdownExecutor).
"""

from __future__ import annotations

from mesos_gpu.agent.decisions import outcomes
from mesos_gpu.agent.decisions.steps import Steps
from mesos_gpu.agent.launching import executor_launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.events import Event, Moment
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, ExecutorPatience, Stage, Turn
from mesos_gpu.agent.model.tasks import Cause, Framework, Phase, next_phase
from mesos_gpu.mesos.resource import Document


class ExecutorLives(Steps):
    """Executors, as far as their containers are concerned, and the steps that all decisions about them share."""

    patience = ExecutorPatience()

    @property
    def executors_due_s(self) -> float | None:
        """Return when the next executor has used up its time, in monotonic seconds."""
        return min((e.deadline_s for e in self.executors() if e.deadline_s is not None), default=None)

    # --- from the containers ------------------------------------------------------------------------------------

    def _of_executor(self, key: ExecutorKey, event: Event, at: Moment) -> list[Action]:
        """Take what happened to the container of an executor."""
        executor = self.executor(key)
        if executor is None:
            return []
        framework = self.frameworks[key.framework]
        match event:
            case ev.Launched():
                executor.networks = event.networks
                return self._executor_runs(framework, executor, event.pid, at)
            case ev.LaunchFailed():
                self._count("container_launch_errors")
                executor.verdict = executor.verdict or outcomes.launch_failed(event.cause)
                return self._executor_ended(framework, executor, None, at)
            case ev.Ended():
                return self._executor_ended(framework, executor, event.ending, at)
            case ev.Vanished():
                executor.verdict = executor.verdict or outcomes.executor_vanished(framework, rebooted=event.rebooted)
                return self._executor_ended(framework, executor, None, at)
            case _:
                return []  # how far the pull of its image is: its tasks are not its own yet

    def _executor_runs(self, framework: Framework, executor: Executor, pid: int | None, at: Moment) -> list[Action]:
        executor.pid = pid
        executor.turn(Turn.LAUNCHED)
        if executor.stage is Stage.TERMINATING:
            return [act.Kill(executor.key, executor.container_id, 0.0)]
        actions: list[Action] = []
        if framework.checkpoint and pid is not None:
            actions.append(act.NoteRun(executor.key, executor.container_id, "pids/forked.pid", str(pid)))
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
                actions += self._say(framework, task, outcomes.with_its_executor(executor, task, ending), at)
        if not framework.silenced:
            actions.append(act.ExecutorGone(*executor.key, status=outcomes.wait_status(ending)))
        actions += [act.CloseStream(executor.key), act.Forget(executor.container_id)]
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
                actions += self._say(framework, task, outcomes.update_failed(event.problem), at)
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
                executor.verdict = outcomes.not_subscribed(framework, executor, self.patience)
                executor.turn(Turn.END_ASKED)
            actions.append(act.Kill(executor.key, executor.container_id, 0.0))
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
            actions.append(act.ToExecutor(executor.key, event))
        return actions

    def _fit(self, framework: Framework, executor: Executor) -> list[Action]:
        """Have the container hold exactly what the executor and its tasks were given."""
        if executor.stage not in (Stage.REGISTERING, Stage.RUNNING):
            return []
        executor.round += 1
        tasks = [task for task in framework.hosted_by(executor) if task.phase is not Phase.OVER]
        size = executor_launch.size(self.identity, executor, tasks)
        return [act.Resize(executor.key, executor.container_id, size, executor.round)]

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
            return [act.ToExecutor(executor.key, {"type": "SHUTDOWN"})]
        executor.deadline_s = None
        return [act.Kill(executor.key, executor.container_id, 0.0 if was is Stage.LAUNCHING else grace_s)]

    def _retire_if_done(self, framework: Framework, executor: Executor) -> list[Action]:
        """Forget an executor that is gone, once the ends of its tasks are known."""
        if not executor.over or framework.hosted_by(executor):
            return []
        return self._retire(framework, executor)

    def _retire(self, framework: Framework, executor: Executor) -> list[Action]:
        self.retire(framework, executor)
        close: list[Action] = [act.Close(executor.key, executor.container_id)] if framework.checkpoint else []
        return close + self._discard(framework, executor)
