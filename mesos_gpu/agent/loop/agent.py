"""The agent: one owner of the state. Messages, containers and clocks become events; actions are done in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from mesos_gpu.agent.clock import Clock
from mesos_gpu.agent.cluster.authentication import Authentication, Patience
from mesos_gpu.agent.cluster.master_link import Incoming, LinkBroke, MasterLink, Ping, Welcome
from mesos_gpu.agent.cluster.membership import Membership
from mesos_gpu.agent.cluster.operation_effects import OperationEffects
from mesos_gpu.agent.decisions.adopting import adopt_executor, adopt_task, adopted
from mesos_gpu.agent.decisions.collecting import in_use
from mesos_gpu.agent.decisions.from_containers import ended_container
from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.lending import master_account
from mesos_gpu.agent.decisions.operations import Operations
from mesos_gpu.agent.decisions.registration import Cause, Registration
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.disk.collector import Collector
from mesos_gpu.agent.disk.recovery import Recovered, replayed, replayed_executors
from mesos_gpu.agent.fetch.fetcher import Fetcher
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.lending_desk import LendingDesk
from mesos_gpu.agent.loop.alarm import Alarm
from mesos_gpu.agent.loop.cards_told import with_cards
from mesos_gpu.agent.loop.executor_api import ExecutorStreams
from mesos_gpu.agent.loop.executor_link import ExecutorLink
from mesos_gpu.agent.loop.offering import Offering
from mesos_gpu.agent.loop.performer import Performer
from mesos_gpu.agent.loop.shared_gpus import SharedGpus
from mesos_gpu.agent.loop.suspending import Suspending
from mesos_gpu.agent.mig.keeper import MigKeeper
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.operations import (
    ApplyOperation,
    KeepResources,
    OperationAcknowledged,
    OperationEvent,
    ReconcileOperations,
)
from mesos_gpu.agent.model.resources import counting_gpus
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.agent.running.checker import Checker
from mesos_gpu.agent.running.containers import Containers, Devices, Runner
from mesos_gpu.agent.running.nested_sandboxes import NestedSandboxes
from mesos_gpu.agent.views.pods import GPU
from mesos_gpu.isolator.ledger import MasterAccount
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import AgentId, ContainerId, Role
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.cram_md5 import Credential
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)


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
        checkpoints: AgentCheckpoints,
        registration: Registration | None = None,
        clock: Clock | None = None,
        gpus: AgentGpus | None = None,
        desk: LendingDesk | None = None,
        devices: Devices | None = None,
        kill_for_gpus: bool = False,
        fetcher: Fetcher | None = None,
        credential: Credential | None = None,
        patience: Patience | None = None,
        collector: Collector | None = None,
    ) -> None:
        self.fetcher = fetcher
        self.state = state
        self.gpus, self._kill_for_gpus = gpus, kill_for_gpus
        self.desk = desk
        self.devices = devices
        self._whole = Resources.from_json(info.get("resources", []))
        self.shared_gpus: SharedGpus | None = None
        self.suspending: Suspending | None = None
        self.mig: MigKeeper | None = None
        self.stopped = asyncio.Event()
        self.stop_reason: str | None = None
        self.refused = False
        """Whether a master shut the agent down instead of registering it."""
        self.recovery_s = 0.0
        """How long it took to take up what the last process left."""
        self.started_wall_s = 0.0
        self.clock = clock or Clock()
        self.containers = containers
        self._checkpoints = checkpoints
        checkpoints.syncing.on_failure = self._unwritten
        self.collector = collector or Collector(checkpoints.work_dir, clock=self.clock)
        self.nested_sandboxes = NestedSandboxes(containers, self.collector)
        self.collector.on_removed = lambda path: self.post(ev.Collected(path))
        self._link = MasterLink(endpoint, self._incoming)
        self.holdings = OperationEffects(
            Operations(state.ids.uuid), checkpoints, self._link, lambda: self.membership.happened(Cause.CHANGED)
        )
        self.membership = self._membership(info, registration or Registration())
        if credential is not None:
            self.membership.authentication = self._authentication(endpoint, credential, patience)
        self._runner = Runner(containers, self._from_containers, fetcher, devices)
        self.streams = ExecutorStreams()
        self.takes_executors = False
        self._link.executors = executors = ExecutorLink(
            endpoint, state, self.streams, post=self.post, ready=lambda: self.takes_executors
        )
        self._settled = asyncio.Event()
        self._checker = Checker[TaskKey](lambda key, news: self.post(ev.Checked(key, news)), self.clock.mono)
        self._performer = self._performing(executors)
        self._inbox: deque[ev.Event] = deque()
        self._busy = False
        self._alarm = Alarm(self.clock, self._ring)
        self._left = self._closing = False

    def _membership(self, info: Document, registration: Registration) -> Membership:
        return Membership(
            info,
            self.state,
            self._link,
            self.holdings,
            self._checkpoints,
            self.clock,
            registration=registration,
            post=self.post,
            arm=self._arm,
        )

    def _performing(self, executors: ExecutorLink) -> Performer:
        return Performer(
            membership=self.membership,
            link=self._link,
            checkpoints=self._checkpoints,
            collector=self.collector,
            containers=self.containers,
            runner=self._runner,
            checker=self._checker,
            streams=self.streams,
            executors=executors,
            to_send=self.state.streams.to_send,
            stop=self._stop,
        )

    def _authentication(self, endpoint: Endpoint, credential: Credential, patience: Patience | None) -> Authentication:
        return Authentication(
            endpoint,
            credential,
            lambda: self._link.pid,
            on_done=lambda: self.membership.happened(Cause.AUTHENTICATED),
            on_refused=self._stop,
            patience=patience,
        )

    @property
    def info(self) -> Document:
        """Return the AgentInfo (v1), without an id."""
        return self.membership.info

    @property
    def registered(self) -> asyncio.Event:
        """Return what is set while the master knows us."""
        return self.membership.registered

    @property
    def master(self) -> Pid | None:
        """Return the master that is followed now."""
        return self._link.master

    @property
    def agent_id(self) -> AgentId | None:
        """Return the id, None before the first registration."""
        return self.membership.agent_id

    def locate(self, ip: str) -> None:
        """Take note of where the endpoint, now started, is reached."""
        self.state.identity = self.state.identity.at(self._link.pid, ip)
        self.membership.info = {**self.info, "port": self._link.pid.port}

    async def recover(self, found: Recovered) -> None:
        """Take up what the last process left: its id, its tasks, their containers and updates. Call it once, first."""
        self.started_wall_s, began_s = self.clock.wall(), self.clock.mono()
        await self._recover(found)
        agent_id = self.state.identity.agent_id
        nested = self.nested_sandboxes.recover(self.state.identity.work_dir)
        await self.collector.recover(agent_id, lambda: nested | in_use(agent_id, self.state.frameworks.active.values()))
        self.collector.start()
        self.recovery_s = self.clock.mono() - began_s

    async def _recover(self, found: Recovered) -> None:
        self.holdings.recover(found.resources, found.operations)
        if found.agent is None:
            await self.containers.recover(())
            if self.devices is not None:
                self.devices.recover(())
            self.takes_executors = True
            self._look_after_gpus()
            return
        self.membership.restore(found.agent)
        now, identity = self.clock.now(), self.state.identity
        frameworks, tasks = replayed(found, identity, now)
        executors = replayed_executors(found, identity, now)
        live = [] if found.rebooted else [t.container_id for t, _ in tasks if t.phase is not Phase.OVER]
        live += [] if found.rebooted else [e.container_id for e, _, complete in executors if not complete]
        await self.containers.recover([container_id for container_id in live if container_id is not None])
        if self.devices is not None:
            self.devices.recover(self.containers.containers())
        # In doubt, too: an earlier process since the restart may have been unable to write down what it lost.
        self._runner.rebooted = self.state.rebooted = self.state.doubt = found.doubt
        for task, pending in tasks:
            self._performer.perform(adopt_task(self.state, frameworks[task.key.framework], task, pending, now))
        for executor, hosted, complete in executors:
            framework = frameworks[executor.key.framework]
            self._performer.perform(adopt_executor(self.state, framework, executor, hosted, now, complete=complete))
        adopted(self.state)
        if found.drain is not None:
            self.post(ev.Drain(found.drain.get("max_grace_s"), bool(found.drain.get("gone"))))
        self._look_after_gpus()
        self.takes_executors = True
        self._arm()
        # The master hears of no task before the executors had their time to say what became of theirs.
        self._settle()
        await self._settled.wait()
        log.info("recovered agent %s with %d tasks", self.agent_id, len(self.state.frameworks.tasks()))

    def follow(self, master: Pid | None) -> None:
        """Take this master for the leading one from now on, or none."""
        self.membership.follow(master)

    def _settle(self) -> None:
        if not self.state.expected_back or self.stopped.is_set():
            self._settled.set()

    def post(self, event: ev.Event) -> None:
        """Take an event; it is handled before this returns, unless another is being handled just now."""
        self._inbox.append(with_cards(event, self.state.frameworks, self.gpus))
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                self._performer.perform(handle(self.state, self._inbox.popleft(), self.clock.now()))
        except OSError as error:
            # What cannot be written down must not be acted on; a next process finds all that was.
            self._inbox.clear()
            self._unwritten(error)
        finally:
            self._busy = False
            self._settle()
            self._arm()
        if self.state.frameworks.fewer and self.state.identity.shared_cards:
            self.state.frameworks.fewer = False
            self._advertise()  # units of a suspended task were there for as long as it was

    def _unwritten(self, error: OSError) -> None:
        self._stop(f"cannot write a checkpoint: {error}; what runs {'ends' if self._left else 'continues running'}")

    def leave(self) -> None:
        """Unregister and kill everything; `stopped` is set when that is done. For SIGUSR1."""
        self._left = True
        if self.agent_id is not None:
            self._link.unregister(self.agent_id)
        self.post(ev.ShutdownAgent("Received SIGUSR1"))

    async def close(self) -> None:
        """Stop; tasks run on, but for those that nobody could find again (no checkpoints), and, after `leave`, all."""
        self._closing = True
        self._alarm.stop()
        self._link.close()
        if self.membership.authentication is not None:
            self.membership.authentication.close()
        if self.mig is not None:
            self.mig.close()
        lender = None if self.desk is None else self.desk.lender
        for part in (self.shared_gpus, self.suspending, self.gpus, lender, self.devices):
            if part is not None:
                await part.close()
        await self.nested_sandboxes.close()
        await self.collector.close()
        await self._checker.stop()
        await self._runner.stop()
        self._checkpoints.syncing.close()
        frameworks = self.state.frameworks
        lives = [(one.key.framework, one.container_id) for one in frameworks.tasks()]
        lives += [(one.key.framework, one.container_id) for one in frameworks.executors()]
        for framework, container_id in lives:
            if container_id is not None and (self._left or not frameworks.active[framework].checkpoint):
                await self.containers.destroy(container_id)
        await self.containers.close()

    # --- GPUs ---------------------------------------------------------------------------------------------------

    async def watch_gpus(self) -> None:
        """Begin to watch the health of the GPUs, and to lend them; call it after `recover`."""
        if self.gpus is not None:
            self.gpus.on_change = self._look_after_gpus
            await self.gpus.start()
        if self.desk is not None:
            self.desk.lender.on_change = self._advertise
            self.desk.lender.start()
        if self.devices is not None:
            self.devices.on_change = self._advertise
            self._advertise()
            await self.devices.start()
        if self.suspending is not None:
            self.suspending.suspender.on_change = self._advertise
            await self.suspending.suspender.recover()
            self._advertise()
        if self.shared_gpus is not None:
            self.shared_gpus.begin(self.state, self.containers, self.post)

    def _look_after_gpus(self) -> None:
        """Offer no GPU that is unhealthy and free, and tell whoever holds one."""
        if self.gpus is None:
            return
        self._advertise()
        for task in self.state.frameworks.tasks():
            self._tell_holder(task)

    def held(self) -> Mapping[ContainerId, Mapping[str, Iterable[str]]]:
        """Return the ids of the devices of every container, by the name of the resource: GPUs, and plugins' devices."""
        found: dict[ContainerId, dict[str, Iterable[str]]] = {}
        if self.gpus is not None:
            found = {container: {GPU: [gpu.uuid for gpu in gpus]} for container, gpus in self.gpus.held.items()}
        if self.devices is not None:
            for container, devices in self.devices.held.items():
                found.setdefault(container, {}).update(devices)
        return found

    def there(self) -> Mapping[str, Sequence[str]]:
        """Return the ids of all devices that are fit for containers, by the name of the resource."""
        gpus = [] if self.gpus is None else [gpu.uuid for gpu in self.gpus.all() if self.gpus.illness(gpu.uuid) is None]
        return {GPU: gpus, **({} if self.devices is None else self.devices.there)}

    def account(self) -> MasterAccount:
        """Return what the master counts of GPUs for each container, and what it reserved."""
        frameworks = self.state.frameworks
        return master_account([*frameworks.tasks(), *frameworks.executors()], self.holdings.kept)

    def _tell_holder(self, task: Task | None) -> None:
        if self.gpus is None or task is None or task.container_id is None or task.phase is Phase.OVER:
            return
        if (trouble := self.gpus.trouble(task.container_id)) is not None:
            self.post(ev.GpuIll(task.key, trouble.message, kill=self._kill_for_gpus and trouble.broken))

    def _advertise(self, ended: ContainerId | None = None) -> None:
        """Have the master know how many GPUs may be offered, now that a container has ended, if one has."""
        if self._closing or self._left or self.state.departure.stopping is not None:
            return
        parts = Offering(self.gpus, self.devices)
        if not parts.fixed:
            self.membership.offer(parts.total(self._whole, self.holdings.kept.base(), self.state, ended).to_json())

    def count_gpus(self, gpus: int, role: Role, attributes: list[Document]) -> None:
        """Have as many GPUs from now on, for MIG instances come and go; `attributes` say which."""
        self._whole = counting_gpus(self._whole, gpus, role)
        self.membership.info = {**self.info, "attributes": attributes}
        self._look_after_gpus()

    def _from_containers(self, event: ev.Event) -> None:
        if not isinstance(event, ev.Launched):
            # Before a master hears that they are free: ill GPUs, parts that others have in a suspended task's place.
            self._advertise(ended_container(self.state, event))
        self.post(event)
        if isinstance(event, ev.Launched):
            self._tell_holder(self.state.frameworks.task(event.key))

    # --- from the master ----------------------------------------------------------------------------------------

    def _incoming(self, incoming: Incoming) -> None:
        match incoming:
            case Welcome():
                self._welcomed(incoming)
            case Ping():
                self._link.pong(incoming.sender)
                if incoming.ours:
                    self.membership.happened(Cause.PINGED if incoming.connected else Cause.PINGED_AS_STRANGER)
            case LinkBroke():
                self.membership.happened(Cause.LINK_BROKE)
            case ev.RunTask() | ev.Acknowledged() | OperationAcknowledged() if not self.membership.takes(incoming):
                pass
            case KeepResources() | ApplyOperation() | OperationAcknowledged() | ReconcileOperations():
                self._operate(incoming)
            case ev.RunTask():
                self._runner.expect()
                tasks = tuple(t for t in incoming.tasks if self._is_ours(t))
                self.post(replace(incoming, tasks=tasks, unknown=not self.holdings.operations.knows(tasks)))
            case _ if self.suspending is None or not self.suspending.heard(incoming):
                if isinstance(incoming, ev.ShutdownAgent):
                    self.refused = not self.membership.registered.is_set()
                self.post(incoming)

    def _operate(self, event: OperationEvent) -> None:
        flags = Resources.from_json(self.info.get("resources", []))
        try:
            self.holdings.handle(event, self.state.identity.agent_id, flags, self.clock.now())
        except OSError as error:
            self._stop(f"cannot keep what the master reserved: {error}; what runs continues running")
        self._advertise()
        self._arm()

    def _is_ours(self, task: TaskInfo) -> bool:
        if task["agent_id"]["value"] == self.agent_id:
            return True
        log.warning("ignoring task %s, which is for another agent", task["task_id"]["value"])
        return False

    def _welcomed(self, welcome: Welcome) -> None:
        if self._left or self.state.departure.stopping is not None:
            return
        why = self.membership.welcomed(welcome)
        if why is not None:
            self._stop(why)

    def _stop(self, why: str) -> None:
        """End this process; the next one is a new agent when this one was sent away."""
        log.warning("stopping: %s", why)
        self.stop_reason = why
        if self.state.departure.stopping is not None:
            with suppress(OSError):  # a disk that has failed: the next process comes back as this one
                self._checkpoints.forget_agent()
        self.stopped.set()

    # --- clocks -------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Have whatever is due next done in time."""
        if self.stopped.is_set():
            self._alarm.stop()
        else:
            operations = self.holdings.operations
            self._alarm.set(self.state.next_due_s, self.membership.next_due_s, operations.next_due_s)

    def _ring(self) -> None:
        self.membership.ring()
        self.holdings.retry(self.state.identity.agent_id, self.clock.now())
        self.post(ev.Tick())
