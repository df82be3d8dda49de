"""The agent: one owner of the state. Messages, containers and clocks become events; actions are done in order."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import assert_never

from mesos_gpu.agent import events as ev
from mesos_gpu.agent.authentication import Authentication, Patience
from mesos_gpu.agent.checker import Checker, Look
from mesos_gpu.agent.checkpoints import Checkpoints
from mesos_gpu.agent.containers import Containers, Runner
from mesos_gpu.agent.events import Action, Moment
from mesos_gpu.agent.executor_api import ExecutorStreams
from mesos_gpu.agent.executors import Executor
from mesos_gpu.agent.fetcher import Fetcher
from mesos_gpu.agent.gpus import AgentGpus
from mesos_gpu.agent.holdings import Holdings
from mesos_gpu.agent.master_link import Incoming, LinkBroke, MasterLink, Ping, Welcome
from mesos_gpu.agent.operations import (
    ApplyOperation,
    KeepResources,
    OperationAcknowledged,
    OperationEvent,
    Operations,
    ReconcileOperations,
)
from mesos_gpu.agent.paths import sandbox_path
from mesos_gpu.agent.probes import look
from mesos_gpu.agent.recovery import Recovered
from mesos_gpu.agent.registration import Cause, Registration, Standing, Todo, answered_with, step
from mesos_gpu.agent.replay import replay, replay_executor
from mesos_gpu.agent.resources import with_gpus
from mesos_gpu.agent.state import AgentState
from mesos_gpu.agent.tasks import Fate, Framework, Phase, Task
from mesos_gpu.agent.updates import Forward, TaskKey
from mesos_gpu.mesos.cram_md5 import Credential
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)

TRIES_BEFORE_A_WORD = 4
# A master forgets who we are when our connection breaks, and a new one never knew.
_BEGINNINGS = frozenset(
    {Cause.DETECTED, Cause.NONE_LEADS, Cause.PINGED_AS_STRANGER, Cause.PING_MISSED, Cause.LINK_BROKE}
)


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time and chance come from."""

    mono: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    dice: Callable[[], float] = random.random

    def now(self) -> Moment:
        """Return the present moment."""
        return Moment(self.mono(), self.wall())


class Agent:
    """Ties the state, the master, the containers and the checkpoints together. Lives in one event loop.

    `info` is the AgentInfo (v1) without an id; `registered` is set while the master knows us, `stopped` once the
    master or the operator sent the agent away and everything is killed. `gpus` are watched for it, None when GPUs are
    not isolated; `kill_for_gpus`: a task whose GPU cannot be trusted is ended, else its owner is told.
    """

    def __init__(
        self,
        info: Document,
        state: AgentState,
        *,
        endpoint: Endpoint,
        containers: Containers,
        checkpoints: Checkpoints,
        registration: Registration | None = None,
        clock: Clock | None = None,
        gpus: AgentGpus | None = None,
        kill_for_gpus: bool = False,
        fetcher: Fetcher | None = None,
        credential: Credential | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.fetcher = fetcher
        self.info, self.state = info, state
        self.gpus, self._kill_for_gpus = gpus, kill_for_gpus
        self._whole = Resources.from_json(info.get("resources", []))
        self._registering_with: list[Document] | None = None
        self.registration = registration or Registration()
        self.registered, self.stopped = asyncio.Event(), asyncio.Event()
        self.stop_reason: str | None = None
        self.started_wall_s = 0.0
        self.clock = clock or Clock()
        self.containers = containers
        self._checkpoints = checkpoints
        self._link = MasterLink(endpoint, self._incoming)
        self._authentication: Authentication | None = None
        if credential is not None:
            self._authentication = Authentication(
                endpoint,
                credential,
                lambda: self._link.pid,
                on_done=lambda: self._registration(Cause.AUTHENTICATED),
                on_refused=self._stop,
                patience=patience,
            )
        self.holdings = Holdings(
            Operations(state.new_uuid), checkpoints, self._link, lambda: self._registration(Cause.CHANGED)
        )
        self._kept_when_introduced = self.holdings.kept
        self._runner = Runner(containers, self._from_containers, fetcher)
        self.streams = ExecutorStreams()
        self.takes_executors = False
        self._settled = asyncio.Event()
        self._checker = Checker[TaskKey](lambda key, news: self.post(ev.Checked(key, news)), self.clock.mono)
        self._inbox: deque[ev.Event] = deque()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._left = self._closing = False
        self._saved: Document | None = None

    @property
    def master(self) -> Pid | None:
        """Return the master that is followed now."""
        return self._link.master

    @property
    def agent_id(self) -> str | None:
        """Return the id, None before the first registration."""
        return self.state.identity.agent_id or None

    def locate(self, ip: str) -> None:
        """Take note of where the endpoint, now started, is reached."""
        pid = self._link.pid
        self.state.identity = replace(self.state.identity, pid=str(pid), ip=ip, port=pid.port)
        self.info = {**self.info, "port": pid.port}

    async def recover(self, found: Recovered) -> None:
        """Take up what the last process left: its id, its tasks, their containers and updates. Call it once, first."""
        self.started_wall_s = self.clock.wall()
        self.holdings.recover(found.resources, found.operations)
        if found.agent is None:
            await self.containers.recover(())
            self.takes_executors = True
            self._look_after_gpus()
            return
        self._become(found.agent["id"]["value"])
        self._saved = found.agent
        frameworks, tasks = self._replayed(found)
        executors = self._replayed_executors(found)
        live = [] if found.rebooted else [t.container_id for t, _ in tasks if t.phase is not Phase.OVER]
        live += [] if found.rebooted else [e.container_id for e, _, complete in executors if not complete]
        await self.containers.recover([container_id for container_id in live if container_id is not None])
        self._runner.rebooted = found.rebooted
        for task, pending in tasks:
            self._perform(self.state.adopt(frameworks[task.key.framework], task, pending))
        for executor, hosted, complete in executors:
            framework = frameworks[executor.key.framework]
            now = self.clock.now()
            self._perform(self.state.adopt_executor(framework, executor, hosted, now, complete=complete))
        self.state.adopted()
        if found.drain is not None:
            self.post(ev.Drain(found.drain.get("max_grace_s"), bool(found.drain.get("gone"))))
        self._look_after_gpus()
        self.takes_executors = True
        self._arm()
        # The master hears of no task before the executors had their time to say what became of theirs.
        self._settle()
        await self._settled.wait()
        log.info("recovered agent %s with %d tasks", self.agent_id, len(self.state.tasks()))

    def follow(self, master: Pid | None) -> None:
        """Take this master for the leading one from now on, or none."""
        if master != self.master:
            self._link.part()
        self._link.master = master
        self._registration(Cause.NONE_LEADS if master is None else Cause.DETECTED)

    def _settle(self) -> None:
        if not self.state.expected_back or self.stopped.is_set():
            self._settled.set()

    def post(self, event: ev.Event) -> None:
        """Take an event; it is handled before this returns, unless another is being handled just now."""
        self._inbox.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                self._perform(self.state.handle(self._inbox.popleft(), self.clock.now()))
        except OSError as error:
            # What cannot be written down must not be acted on; a next process finds all that was.
            self._inbox.clear()
            self._stop(f"cannot write a checkpoint: {error}; what runs goes on running")
        finally:
            self._busy = False
            self._settle()
            self._arm()

    def leave(self) -> None:
        """Unregister and kill everything; `stopped` is set when that is done. For SIGUSR1."""
        self._left = True
        if self.agent_id is not None:
            self._link.unregister(self.agent_id)
        self.post(ev.ShutdownAgent("Received SIGUSR1"))

    async def close(self) -> None:
        """Stop; tasks run on, but for those of frameworks that do not checkpoint, which nobody could find again."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._link.close()
        if self._authentication is not None:
            self._authentication.close()
        if self.gpus is not None:
            await self.gpus.close()
        await self._checker.stop()
        await self._runner.stop()
        for task in self.state.tasks():
            framework = self.state.frameworks[task.key.framework]
            if not framework.checkpoint and task.container_id is not None:
                await self.containers.destroy(task.container_id)
        for executor in self.state.executors():
            if not self.state.frameworks[executor.key.framework].checkpoint:
                await self.containers.destroy(executor.container_id)
        await self.containers.close()

    # --- GPUs ---------------------------------------------------------------------------------------------------

    async def watch_gpus(self) -> None:
        """Begin to watch the health of the GPUs; call it after `recover`."""
        if self.gpus is not None:
            self.gpus.on_change = self._look_after_gpus
            await self.gpus.start()

    def _look_after_gpus(self) -> None:
        """Offer no GPU that is ill and free, and tell whoever holds one."""
        if self.gpus is None:
            return
        self._advertise()
        for task in self.state.tasks():
            self._tell_holder(task)

    def _tell_holder(self, task: Task) -> None:
        if self.gpus is None or task.container_id is None or task.phase is Phase.OVER:
            return
        trouble = self.gpus.trouble(task.container_id)
        if trouble is not None:
            self.post(ev.GpuIll(task.key, trouble.message, kill=self._kill_for_gpus and trouble.broken))

    def _advertise(self) -> None:
        """Have the master know how many GPUs may be offered; an agent says so by registering again."""
        if self.gpus is None or self._closing or self._left or self.state.stopping is not None:
            return
        resources = with_gpus(self._whole, self.gpus.advertised, self.holdings.kept.base()).to_json()
        if resources != self.info.get("resources"):
            self.info = {**self.info, "resources": resources}
            self._registration(Cause.CHANGED)

    def _from_containers(self, event: ev.Event) -> None:
        if isinstance(event, ev.Launched):
            self.post(event)
            task = self.state.task(event.key)
            if task is not None:
                self._tell_holder(task)
            return
        # A GPU that was held and is ill is offered no more, before anyone hears that it is free.
        self._advertise()
        self.post(event)

    # --- from the master ----------------------------------------------------------------------------------------

    def _incoming(self, incoming: Incoming) -> None:
        match incoming:
            case Welcome():
                self._welcomed(incoming)
            case Ping():
                self._link.pong(incoming.sender)
                self._registration(Cause.PINGED if incoming.connected else Cause.PINGED_AS_STRANGER)
            case LinkBroke():
                self._registration(Cause.LINK_BROKE)
            case KeepResources() | ApplyOperation() | OperationAcknowledged() | ReconcileOperations():
                self._operate(incoming)
            case ev.RunTask():
                tasks = tuple(t for t in incoming.tasks if self._is_ours(t))
                unknown = not self.holdings.operations.knows(tasks)
                self.post(replace(incoming, tasks=tasks, unknown=unknown))
            case _:
                self.post(incoming)

    def _operate(self, event: OperationEvent) -> None:
        flags = Resources.from_json(self.info.get("resources", []))
        try:
            self.holdings.handle(event, self.state.identity.agent_id, flags, self.clock.mono())
        except OSError as error:
            self._stop(f"cannot keep what the master reserved: {error}; what runs goes on running")
        self._advertise()
        self._arm()

    def _is_ours(self, task: Document) -> bool:
        ours = bool(task["agent_id"]["value"] == self.agent_id)
        if not ours:
            log.warning("ignoring task %s, which is for another agent", task["task_id"]["value"])
        return ours

    def _welcomed(self, welcome: Welcome) -> None:
        if self._left or self.state.stopping is not None:
            return
        with_resources = self.info.get("resources")
        if self.agent_id is None:
            self._become(welcome.agent_id)
            with_resources, self._registering_with = self._registering_with, None
        elif self.agent_id != welcome.agent_id:
            self._stop(f"the master calls this agent {welcome.agent_id}, but it is {self.agent_id}")
            return
        info = {**self.info, "id": {"value": welcome.agent_id}}
        if info != self._saved:
            self._checkpoints.save_agent(info)
            self._saved = info
        if self.registration.standing is not Standing.REGISTERED:
            log.info("registered with %s as %s", self.master, welcome.agent_id)
        self.registration = answered_with(self.registration, welcome.ping_timeout_s)
        self._registration(Cause.ANSWERED)
        if with_resources != self.info.get("resources") or self._kept_when_introduced != self.holdings.kept:
            self._registration(Cause.CHANGED)  # the master took the first of our registrations, and it was an older one
        for reconcile in welcome.reconcile:
            self.post(reconcile)

    def _become(self, agent_id: str) -> None:
        self.state.identity = replace(self.state.identity, agent_id=agent_id)
        self._checkpoints.use(agent_id)

    def _registration(self, cause: Cause) -> None:
        before = self.registration.standing
        now_s = self.clock.mono()
        self.registration, todos = step(self.registration, cause, now_s, self.clock.dice())
        if before is Standing.REGISTERED and self.registration.standing is not Standing.REGISTERED:
            level = logging.INFO if cause is Cause.CHANGED else logging.WARNING
            log.log(level, "no longer registered: %s", cause.value)
            self.registered.clear()
        if cause in _BEGINNINGS and self._authentication is not None:
            self._authentication.forget()
        if cause is Cause.PING_MISSED:
            self._link.part()
        for todo in todos:
            match todo:
                case Todo.PAUSE_UPDATES:
                    self.holdings.operations.pause()
                    self.post(ev.Disconnected())
                case Todo.LINK_AND_REGISTER:
                    self._register()
                case Todo.RESUME_UPDATES:
                    self._tell_holdings()
                    self.post(ev.Registered())
                    self.registered.set()
                case _:
                    assert_never(todo)
        overdue = self.registration.overdue(self.clock.mono())
        if overdue is Cause.TRY_DUE and cause is not Cause.TRY_DUE:
            self._registration(overdue)  # at once: no timer, no turn of the loop
        self._arm()

    def _tell_holdings(self) -> None:
        """Say what is not acknowledged of operations, as an agent does after each registration."""
        agent_id, operations = self.state.identity.agent_id, self.holdings.operations
        self._link.update_agent(agent_id, self.state.resource_version, operations.operations())
        self.holdings.perform(operations.resume(self.clock.mono()), agent_id)

    def _register(self) -> None:
        if self._authentication is not None and self.master is not None and not self._authentication.done:
            self._link.meet()
            self._authentication.begin(self.master)
            return
        tries = self.registration.tries
        if tries % TRIES_BEFORE_A_WORD == 0:
            log.warning(
                "no answer from %s after %d tries: is a master running there, is that the very address it calls its "
                "own, and can it reach %s? It refuses silently; its log has the reason",
                self.master,
                tries - 1,
                self._link.pid,
            )
        version = self.state.resource_version
        self._kept_when_introduced = self.holdings.kept
        if self.agent_id is None:
            self._registering_with = self._registering_with or self.info.get("resources")
            self._link.register(self.info, version, self.holdings.operations.kept_documents())
            return
        self._link.reregister(
            {**self.info, "id": {"value": self.agent_id}},
            version,
            self.holdings.operations.kept_documents(),
            tasks=[task.to_message() for task in self.state.tasks()],
            frameworks=[framework.info for framework in self.state.frameworks.values()],
            executors=[executor.info for executor in self.state.executors() if not executor.over],
        )

    # --- actions ------------------------------------------------------------------------------------------------

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case ev.SaveFramework():
                    self._checkpoints.save_framework(action.framework, action.info)
                case ev.SaveTask():
                    self._checkpoints.save_task(action.key, action.container_id, action.info, action.executor)
                case ev.Log():
                    self._checkpoints.log(action.key, action.container_id, action.record, action.executor)
                case ev.Close():
                    self._checkpoints.close_run(action.key, action.container_id)
                case ev.SaveDrain():
                    drain = action.drain
                    config = None if drain is None else {"max_grace_s": drain.max_grace_s, "gone": drain.gone}
                    self._checkpoints.save_drain(config)
                case Forward():
                    self._link.forward(action)
                case ev.SendLoose():
                    self._link.update(action.key, action.status, action.status["state"])
                case ev.ExecutorGone():
                    agent_id = self.state.identity.agent_id
                    self._link.executor_gone(agent_id, action.framework, action.executor, action.status)
                case ev.SaveExecutor():
                    self._checkpoints.save_executor(action.key, action.container_id, action.info)
                case ev.NoteRun():
                    self._checkpoints.note_run(action.key, action.container_id, action.name, action.text)
                case ev.Welcome():
                    self._welcome_executor(action)
                case ev.ToExecutor():
                    self.streams.send(action.key, action.event)
                case ev.CloseStream():
                    self.streams.close(action.key)
                case ev.ToFramework():
                    self._link.executor_message(self.state.identity.agent_id, action)
                case ev.Resize():
                    self._runner.resize(action)
                case ev.Launch():
                    self._runner.launch(action)
                case ev.Watch():
                    self._runner.watch(action)
                case ev.Kill():
                    self._runner.kill(action)
                case ev.BeginChecks():
                    self._checker.begin(action.key, action.courses, self._look(action))
                case ev.EndChecks():
                    self._checker.end(action.key)
                case ev.Forget():
                    self._runner.forget(action)
                case ev.Stop():
                    self._stop(action.why)
                case _:
                    assert_never(action)

    def _welcome_executor(self, action: ev.Welcome) -> None:
        subscribed: Document = {
            "executor_info": action.executor,
            "framework_info": action.framework,
            "agent_info": {**self.info, "id": {"value": self.state.identity.agent_id}},
            "container_id": {"value": action.container_id},
        }
        self.streams.send(action.key, {"type": "SUBSCRIBED", "subscribed": subscribed})

    def _look(self, begin: ev.BeginChecks) -> Look:
        return lambda probe: look(probe, self.containers, begin.container_id, Path(begin.sandbox))

    def _stop(self, why: str) -> None:
        """End this process; the next one is a new agent when this one was sent away."""
        log.warning("stopping: %s", why)
        self.stop_reason = why
        if self.state.stopping is not None:
            self._checkpoints.forget_agent()
        self.stopped.set()

    # --- clocks -------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Have one timer run to whatever is due next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dues = (self.state.next_due_s, self.registration.next_due_s, self.holdings.operations.next_due_s)
        times = [t for t in dues if t is not None]
        if times and not self.stopped.is_set():
            delay_s = max(0.0, min(times) - self.clock.mono())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        overdue = self.registration.overdue(self.clock.mono())
        if overdue is not None:
            self._registration(overdue)
        self.holdings.perform(self.holdings.operations.retry(self.clock.mono()), self.state.identity.agent_id)
        self.post(ev.Tick())

    # --- recovery -----------------------------------------------------------------------------------------------

    def _replayed(self, found: Recovered) -> tuple[dict[str, Framework], list[tuple[Task, list[Document]]]]:
        at, agent_id = self.clock.now(), self.state.identity.agent_id
        frameworks = {name: Framework(info) for name, info in found.frameworks.items()}
        tasks = []
        for run in found.runs:
            task_id = run.task_info["task_id"]["value"]
            sandbox = sandbox_path(self.state.identity.work_dir, agent_id, run.framework, task_id, run.container_id)
            task, pending = replay(run, sandbox, at)
            if run.complete:
                task.phase, pending = Phase.OVER, []
            if task.fate is Fate.SILENCED:
                frameworks[run.framework].silenced = True
            tasks.append((task, pending))
        return frameworks, tasks

    def _replayed_executors(self, found: Recovered) -> list[tuple[Executor, list[tuple[Task, list[Document]]], bool]]:
        at, identity = self.clock.now(), self.state.identity
        executors = []
        for run in found.executors:
            name = run.info["executor_id"]["value"]
            sandbox = sandbox_path(identity.work_dir, identity.agent_id, run.framework, name, run.container_id)
            executors.append((*replay_executor(run, sandbox, at), run.complete))
        return executors
