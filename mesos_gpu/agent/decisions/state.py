"""The agent's decisions about tasks: an event in, actions out. Holds no socket, file, clock or source of chance.

It plays the command executor of Mesos as well: STARTING goes out while the container is being launched, RUNNING once
it runs, and the terminal update when the container is gone and what it held is free again.
Source: Mesos src/slave/slave.cpp, src/launcher/executor.cpp.
"""

from __future__ import annotations

from typing_extensions import assert_never

from mesos_gpu.agent.decisions import checking, outcomes
from mesos_gpu.agent.decisions.collecting import of_framework
from mesos_gpu.agent.decisions.hosting import Hosting
from mesos_gpu.agent.decisions.shared_volumes import in_use
from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.events import Event, Moment
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.paths import is_path_safe, sandbox_path
from mesos_gpu.agent.model.status import Verdict
from mesos_gpu.agent.model.tasks import Cause, Fate, Framework, Phase, Task, next_phase
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.resource import Document

_OF_CONTAINERS = (ev.Launched, ev.Pulling, ev.LaunchFailed, ev.Ended, ev.Vanished)


class AgentState(Hosting):
    """Frameworks and tasks of one agent. `handle` is the only way to change it; actions are carried out in order.

    `new_uuid` gives the base64 text of 16 fresh bytes for each status update, `new_container_id` a fresh id.
    """

    @property
    def next_due_s(self) -> float | None:
        """Return when a Tick is wanted next, in monotonic seconds."""
        times = [task.deadline_s for task in self.tasks() if task.deadline_s is not None]
        others = (self.streams.next_due_s, self.executors_due_s)
        return min([*times, *(s for s in others if s is not None)], default=None)

    # --- changing -----------------------------------------------------------------------------------------------

    def handle(self, event: Event, at: Moment) -> list[Action]:
        """Take an event and return what is to be done about it, in order."""
        actions = self._decide(event, at)
        if self.parted:
            gone = [framework_id for framework_id in self.parted if framework_id not in self.frameworks]
            actions += [act.Discard((of_framework(self.identity.agent_id, framework_id),)) for framework_id in gone]
            self.parted.clear()
        if self.drain is not None and not self.frameworks:
            self.drain = None
            actions.append(act.SaveDrain(None))
        if self.stopping is not None and not self.frameworks and not self.stopped:
            self.stopped = True
            actions.append(act.Stop(self.stopping))
        return actions

    def _decide(self, event: Event, at: Moment) -> list[Action]:
        if isinstance(event, _OF_CONTAINERS) and isinstance(event.key, ExecutorKey):
            return self._of_executor(event.key, event, at)
        match event:
            case ev.RunTask():
                return self._run(event, at)
            case ev.KillTask():
                return self._kill(event, at)
            case ev.ShutdownFramework():
                return self._silence(event.framework, at)
            case ev.ShutdownAgent():
                return self._shutdown(event.why, at)
            case ev.Drain():
                return self._drain(event, at)
            case ev.UpdateFramework():
                return self._update_framework(event, at)
            case ev.Acknowledged():
                return self._acknowledged(event, at)
            case ev.Reconcile():
                return self._reconcile(event, at)
            case ev.Launched():
                return self._launched(event, at)
            case ev.Pulling():
                return self._pulling(event, at)
            case ev.LaunchFailed():
                return self._launch_failed(event, at)
            case ev.Ended():
                return self._ended(event, at)
            case ev.Vanished():
                return self._vanished(event, at)
            case ev.GpuIll():
                return self._gpu_ill(event, at)
            case ev.Subscribed():
                return self._subscribed(event, at)
            case ev.StreamClosed():
                return self._stream_closed(event)
            case ev.ExecutorSays():
                return self._executor_says(event, at)
            case ev.ExecutorMessage():
                return self._executor_message(event)
            case ev.FrameworkMessage():
                return self._framework_message(event)
            case ev.ShutdownExecutor():
                return self._shutdown_executor(event, at)
            case ev.Resized():
                return self._resized(event, at)
            case ev.Checked():
                return self._checked(event, at)
            case ev.Collected():
                self.note_collected(f"{self.identity.work_dir}/{event.path}")
                return []
            case ev.Registered():
                return self._sending(self.streams.resume(at.mono_s))
            case ev.Disconnected():
                self.streams.pause()
                return []
            case ev.Tick():
                return self._tick(at)
            case _:
                assert_never(event)

    def adopt(self, framework: Framework, task: Task, pending: list[Document]) -> list[Action]:
        """Take over a task as the last agent process left it. Returns what resumes its life."""
        known = self.frameworks.setdefault(framework.id, framework)
        if task.phase is Phase.OVER and not pending:
            known.completed.append(task)
            return self._close(task, known)
        known.tasks[task.key.task] = task
        self.streams.restore(task.key, pending, task.state)
        if task.phase is Phase.OVER or task.container_id is None:
            return []
        launching = task.phase in (Phase.LAUNCHING, Phase.CANCELLED)
        actions: list[Action] = [act.Watch(task.key, task.container_id, launching)]
        if task.phase is Phase.ENDING:
            actions.append(act.Kill(task.key, task.container_id, launch.DEFAULT_KILL_GRACE_S))
        return actions + checking.begin_checks(task)

    def adopted(self) -> None:
        """Say that `adopt` was called for all there is: frameworks without a live task are of the past."""
        for framework in list(self.frameworks.values()):
            self.part_from(framework)
        self.parted.clear()  # what they left is as old as it is: the time of its collection does not begin anew

    # --- from the master ----------------------------------------------------------------------------------------

    def _run(self, event: ev.RunTask, at: Moment) -> list[Action]:
        if self.stopping is not None or not event.tasks:
            return []
        framework_id = event.framework["id"]["value"]
        framework = self.frameworks.get(framework_id)
        if not is_path_safe(framework_id) or (framework is not None and framework.silenced):
            return []
        actions: list[Action] = []
        if framework is None or framework.info != event.framework:
            framework = self.meet(event.framework)
            if framework.checkpoint:
                actions.append(act.SaveFramework(framework_id, framework.info))
        refused = outcomes.refused_run(
            event,
            framework,
            resource_version=self.resource_version,
            draining=self.drain is not None,
            acls=self.identity.acls,
        )
        if event.group or "executor" in event.tasks[0]:
            return actions + self._host(framework, event, refused, at)
        for info in event.tasks:
            if info["task_id"]["value"] not in framework.tasks:
                actions += self._accept(framework, info, refused or outcomes.refused_task(info), at)
        return actions

    def _accept(self, framework: Framework, info: Document, refused: Verdict | None, at: Moment) -> list[Action]:
        key = TaskKey(framework.id, info["task_id"]["value"])
        executor_id = key.task
        if refused is not None:
            task = Task(key, info, executor_id, None, "", phase=Phase.OVER)
            framework.tasks[key.task] = task
            return self._say(framework, task, refused, at)
        container_id = self._new_container_id()
        sandbox = sandbox_path(self.identity.work_dir, self.identity.agent_id, key.framework, executor_id, container_id)
        task = Task(key, info, executor_id, container_id, sandbox)
        framework.tasks[key.task] = task
        actions: list[Action] = []
        if framework.checkpoint:
            actions.append(act.SaveTask(key, container_id, info))
        # The launch is begun first: it takes a hundred times as long as telling the master.
        others = in_use(self.identity.work_dir, [info], (other for other in self.tasks() if other is not task))
        spec = launch.launch_spec(self.identity, framework.info, info, container_id, others)
        actions.append(act.Launch(key, spec))
        return actions + self._say(framework, task, Verdict("TASK_STARTING"), at)

    def _kill(self, event: ev.KillTask, at: Moment) -> list[Action]:
        framework = self.frameworks.get(event.key.framework)
        if framework is None:
            return []  # the framework knows: it has been torn down
        task = framework.tasks.get(event.key.task)
        if task is not None:
            return self._end(framework, task, Fate.KILLED, event.grace_s, at)
        aware = framework.can("PARTITION_AWARE")
        past = self.past(event.key)
        verdict = outcomes.not_here(past, partition_aware=aware, reason="REASON_TASK_UNKNOWN")
        return [self._loose(event.key, verdict, at)]

    def _end(
        self, framework: Framework, task: Task, fate: Fate, asked_grace_s: float | None, at: Moment
    ) -> list[Action]:
        """Ask a task to end; asking again can only shorten its grace."""
        if task.hosted:
            return self._end_hosted(framework, task, fate, asked_grace_s, at)
        was = task.phase
        task.phase = next_phase(was, Cause.END_ASKED)
        if was is Phase.OVER or task.container_id is None:
            return []
        if task.fate is None or fate is Fate.SILENCED:
            task.fate = fate
        record = {"type": "KILL", "fate": task.fate.value, "reason": task.reason, "why": task.why}
        actions = self._log(framework, task, record)
        if task.phase is Phase.CANCELLED:
            # Its container is killed when the launch has come to an end; but a pull or a fetch may take hours.
            long = was is Phase.LAUNCHING and launch.may_take_long(task.info)
            return [*actions, act.Kill(task.key, task.container_id, 0.0)] if long else actions
        actions += checking.end_checks(task)
        if was is Phase.RUNNING and fate in (Fate.KILLED, Fate.UNHEALTHY) and framework.can("TASK_KILLING_STATE"):
            actions += self._say(framework, task, Verdict("TASK_KILLING", reason=task.reason), at)
        grace_s = self._grace_s(task, fate, asked_grace_s)
        if task.grace_ends_s is None or at.mono_s + grace_s < task.grace_ends_s:
            task.grace_ends_s = at.mono_s + grace_s
            actions.append(act.Kill(task.key, task.container_id, grace_s))
        return actions

    def _grace_s(self, task: Task, fate: Fate, asked_s: float | None) -> float:
        if fate is Fate.TIMED_OUT:
            return launch.LEAST_GRACE_S
        if fate is Fate.SILENCED:
            return launch.shutdown_grace_s(task.info)
        own_s = launch.grace_s(task.info.get("kill_policy"))
        grace_s = next((s for s in (asked_s, own_s) if s is not None), launch.DEFAULT_KILL_GRACE_S)
        most_s = None if self.drain is None else self.drain.max_grace_s
        return max(launch.LEAST_GRACE_S, grace_s if most_s is None else min(grace_s, most_s))

    def _silence(self, framework_id: str, at: Moment) -> list[Action]:
        """Kill what a framework runs, and never speak of it again."""
        framework = self.frameworks.get(framework_id)
        if framework is None or framework.silenced:
            return []
        framework.silenced = True
        actions = self._silence_executors(framework, at)
        for task in list(framework.tasks.values()):
            self.streams.forget(task.key)
            task.deadline_s = task.grace_ends_s = None
            if task.phase is Phase.OVER:
                actions += self._remove(framework, task)
            else:
                actions += self._end(framework, task, Fate.SILENCED, None, at)
        return actions

    def _shutdown(self, why: str, at: Moment) -> list[Action]:
        self.stopping = self.stopping or why
        return [action for framework in list(self.frameworks) for action in self._silence(framework, at)]

    def _drain(self, event: ev.Drain, at: Moment) -> list[Action]:
        self.drain = event
        actions: list[Action] = [act.SaveDrain(event)]
        for framework in list(self.frameworks.values()):
            for task in list(framework.tasks.values()):
                task.reason, task.gone = "REASON_AGENT_DRAINING", event.gone
                actions += self._end(framework, task, Fate.KILLED, None, at)
        return actions

    def _update_framework(self, event: ev.UpdateFramework, at: Moment) -> list[Action]:
        framework = self.frameworks.get(event.framework)
        if framework is None or framework.silenced:
            return []  # what it runs is ending, and is nobody else's
        actions: list[Action] = []
        if event.info is not None:
            self.meet(event.info)
            if framework.checkpoint:
                actions.append(act.SaveFramework(event.framework, framework.info))
        return actions + self._sending(self.streams.resend(event.framework, at.mono_s))

    def _acknowledged(self, event: ev.Acknowledged, at: Moment) -> list[Action]:
        framework = self.frameworks.get(event.key.framework)
        task = None if framework is None else framework.tasks.get(event.key.task)
        if framework is None or task is None or not self.streams.expects(event.key, event.uuid):
            return []
        actions = self._log(framework, task, {"type": "ACK", "uuid": event.uuid})
        sends, done = self.streams.acknowledge(event.key, event.uuid, at.mono_s)
        actions += self._sending(sends)
        if not done:
            return actions
        host = framework.executors.get(task.executor_id) if task.hosted else None
        actions += self._remove(framework, task)
        return actions + ([] if host is None else self._retire_if_done(framework, host))

    def _reconcile(self, event: ev.Reconcile, at: Moment) -> list[Action]:
        if self.task(event.key) is not None:
            return []  # launched while the answer was on its way
        aware, past = event.partition_aware, self.past(event.key)
        verdict = outcomes.not_here(past, partition_aware=aware, reason="REASON_RECONCILIATION")
        return [self._loose(event.key, verdict, at)]

    # --- from the containers ------------------------------------------------------------------------------------

    def _launched(self, event: ev.Launched, at: Moment) -> list[Action]:
        framework, task = self.both(event.key)
        task.phase, task.pid = next_phase(task.phase, Cause.LAUNCHED), event.pid
        task.networks = event.networks
        if task.phase is Phase.CANCELLED:
            assert task.container_id is not None
            return [act.Kill(task.key, task.container_id, 0.0)]
        limit_s = launch.max_completion_s(task.info)
        task.deadline_s = None if limit_s is None else at.mono_s + limit_s
        return self._say(framework, task, Verdict("TASK_RUNNING"), at) + checking.begin_checks(task, at.mono_s)

    def _pulling(self, event: ev.Pulling, at: Moment) -> list[Action]:
        """Tell a task's owner how far the pull of its image is."""
        framework, task = self.frameworks.get(event.key.framework), self.task(event.key)
        if framework is None or task is None or framework.silenced or task.phase is not Phase.LAUNCHING:
            return []
        return self._say(framework, task, Verdict("TASK_STARTING", message=event.message), at)

    def _launch_failed(self, event: ev.LaunchFailed, at: Moment) -> list[Action]:
        framework, task = self.both(event.key)
        was = task.phase
        task.phase = next_phase(was, Cause.LAUNCH_FAILED)
        if was is Phase.CANCELLED:
            return self._conclude(framework, task, outcomes.killed_during_launch(task), at)
        self._count("container_launch_errors")
        return self._conclude(framework, task, outcomes.launch_failed(event.cause), at)

    def _ended(self, event: ev.Ended, at: Moment) -> list[Action]:
        framework, task = self.both(event.key)
        was = task.phase
        task.phase = next_phase(was, Cause.ENDED)
        if was is Phase.CANCELLED:
            return self._conclude(framework, task, outcomes.killed_during_launch(task), at)
        return self._conclude(framework, task, outcomes.ended(framework, task, event.ending), at)

    def _vanished(self, event: ev.Vanished, at: Moment) -> list[Action]:
        framework, task = self.both(event.key)
        was = task.phase
        task.phase = next_phase(was, Cause.VANISHED)
        verdict = outcomes.vanished(framework, task, was, rebooted=event.rebooted)
        return self._conclude(framework, task, verdict, at)

    def _gpu_ill(self, event: ev.GpuIll, at: Moment) -> list[Action]:
        """Tell a task's owner that its GPU is ill, once, or end the task for it."""
        framework, task = self.frameworks.get(event.key.framework), self.task(event.key)
        if framework is None or task is None or framework.silenced or task.fate is not None:
            return []
        if event.kill:
            task.why = event.message
            return self._end(framework, task, Fate.GPU_ILL, None, at)
        told = any(status.get("message") == event.message for status in task.statuses)
        if told or task.phase is not Phase.RUNNING:
            return []
        return self._say(framework, task, Verdict("TASK_RUNNING", message=event.message), at)

    def _checked(self, event: ev.Checked, at: Moment) -> list[Action]:
        """Tell a task's owner what its checks found; a health check may have failed often enough to end the task."""
        framework, task = self.frameworks.get(event.key.framework), self.task(event.key)
        if framework is None or task is None or framework.silenced or task.phase is not Phase.RUNNING:
            return []
        verdict, kill = checking.take(task, event.news)
        actions = self._say(framework, task, verdict, at)
        return actions + (self._end(framework, task, Fate.UNHEALTHY, None, at) if kill else [])

    def _tick(self, at: Moment) -> list[Action]:
        actions = [*self._sending(self.streams.retry(at.mono_s)), *self._executors_due(at)]
        for framework in list(self.frameworks.values()):
            for task in list(framework.tasks.values()):
                if task.deadline_s is not None and task.deadline_s <= at.mono_s:
                    task.deadline_s = None
                    actions += self._end(framework, task, Fate.TIMED_OUT, None, at)
        return actions
