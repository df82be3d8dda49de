"""The agent as a member of a cluster: who it says it is, which master it follows, and its registration there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from typing_extensions import assert_never

from mesos_gpu.agent.clock import Clock
from mesos_gpu.agent.cluster.authentication import Authentication
from mesos_gpu.agent.cluster.master_link import MasterLink, Welcome
from mesos_gpu.agent.cluster.operation_effects import OperationEffects
from mesos_gpu.agent.decisions.registration import Cause, Registration, Standing, Todo, answered_with, step
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.operations import OperationAcknowledged
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document, ResourceDocument

log = logging.getLogger(__name__)

_Told: TypeAlias = tuple["list[ResourceDocument] | None", object]

TRIES_BEFORE_A_WORD = 4
# A master forgets who we are when our connection breaks, and a new one never knew.
_BEGINNINGS = frozenset(
    {Cause.DETECTED, Cause.NONE_LEADS, Cause.PINGED_AS_STRANGER, Cause.PING_MISSED, Cause.LINK_BROKE}
)
_DOUBTS = frozenset({Cause.PING_MISSED, Cause.LINK_BROKE})


def _nothing() -> None:
    """Nobody is to be told."""


class Membership:
    """Carries out what `registration` decides. Lives in one event loop.

    `info` is the AgentInfo (v1) without an id; `registered` is set while the master knows us. `post` takes what the
    state must hear of, `arm` is called when `next_due_s` may have changed.
    """

    def __init__(
        self,
        info: Document,
        state: AgentState,
        link: MasterLink,
        holdings: OperationEffects,
        checkpoints: AgentCheckpoints,
        clock: Clock,
        *,
        registration: Registration,
        post: Callable[[ev.Event], None],
        arm: Callable[[], None],
    ) -> None:
        self.info, self.registration = info, registration
        self.registered = asyncio.Event()
        self.estranged = True
        """Whether the master may not know yet what runs here, or has just been told: it has not answered since."""
        self.authentication: Authentication | None = None
        self.doubt: Callable[[], None] = _nothing
        """Called when the master that leads may be another by now: it does not answer, or its connection broke."""
        self._state, self._link, self._holdings = state, link, holdings
        self._checkpoints, self._clock = checkpoints, clock
        self._post, self._arm = post, arm
        self._saved: Document | None = None
        # What the master was told of resources: those registered with first, and the reservations told last.
        self._introduced_with: _Told | None = None
        self._said: _Told | None = None
        """What it was told with the last registration, answered or not."""

    @property
    def agent_id(self) -> AgentId | None:
        """Return the id, None before the first registration."""
        return self._state.identity.agent_id or None

    @property
    def next_due_s(self) -> float | None:
        """Return when `ring` has something to do, in monotonic seconds."""
        return self.registration.next_due_s

    def restore(self, saved: Document) -> None:
        """Be the agent that the last process was; `saved` is its AgentInfo."""
        self._become(saved["id"]["value"])
        self._saved = saved

    def _become(self, agent_id: AgentId) -> None:
        self._state.identity = replace(self._state.identity, agent_id=agent_id)
        self._checkpoints.use(agent_id)

    def follow(self, master: Pid | None) -> None:
        """Take this master for the leading one from now on, or none."""
        if master != self._link.master:
            self._link.part()
        self._link.master = master
        self.happened(Cause.NONE_LEADS if master is None else Cause.DETECTED)

    def offer(self, resources: list[ResourceDocument]) -> None:
        """Have the master know what there is; an agent says so by registering again."""
        if resources != self.info.get("resources"):
            self.info = {**self.info, "resources": resources}
            self.happened(Cause.CHANGED)

    def welcomed(self, welcome: Welcome) -> str | None:
        """Take the master's answer. Returns why this process must end: another name, or one that cannot be written."""
        introduced_with, self._introduced_with = self._introduced_with, None
        if self.agent_id not in (None, welcome.agent_id):
            return f"the master calls this agent {welcome.agent_id}, but it is {self.agent_id}"
        try:
            if self.agent_id is None:
                self._become(welcome.agent_id)
            info = {**self.info, "id": {"value": welcome.agent_id}}
            if info != self._saved:
                self._checkpoints.save_agent(info)
                self._saved = info
        except OSError as error:
            return f"cannot write down that the master calls this agent {welcome.agent_id}: {error}"
        if self.registration.standing is not Standing.REGISTERED:
            log.info("registered with %s as %s", self._link.master, welcome.agent_id)
        self.estranged = False
        self.registration = answered_with(self.registration, welcome.ping_timeout_s)
        self.happened(Cause.ANSWERED)
        if any(told not in (None, self._told()) for told in (introduced_with, self._said)):
            # A master that is storing the first of our registrations passes over the others, and it was an older one.
            # Or this answers one of several tries that were on their way while the master had us reserve something.
            self.happened(Cause.CHANGED)
        for reconcile in welcome.reconcile:
            self._post(reconcile)
        return None

    def takes(self, told: ev.RunTask | ev.Acknowledged | OperationAcknowledged) -> bool:
        """Return whether tasks may be launched, and updates acknowledged: not between a new beginning and its answer.

        It was sent by a master that is no more. Such a task is not on the list that the master gets, or has got by now,
        and would run unknown to everybody; a master that counts on it asks for it. Mesos takes it, and calls that wrong
        itself: src/slave/slave.cpp, run. What is acknowledged is on that list as what waits for it, and would stay;
        it is said again. So Mesos: src/slave/slave.cpp, statusUpdateAcknowledgement (of tasks alone).
        """
        if self.estranged:
            what = ", ".join(task["task_id"]["value"] for task in told.tasks) if isinstance(told, ev.RunTask) else told
            log.warning("ignoring %s: %s has not answered our registration yet", what, self._link.master)
        return not self.estranged

    def ring(self) -> None:
        """Do what is due by now."""
        overdue = self.registration.overdue(self._clock.mono())
        if overdue is not None:
            self.happened(overdue)

    def happened(self, cause: Cause) -> None:
        """Take note of what may change our standing, and do what follows."""
        before = self.registration.standing
        now_s = self._clock.mono()
        self.registration, todos = step(self.registration, cause, now_s, self._clock.dice())
        if before is Standing.REGISTERED and self.registration.standing is not Standing.REGISTERED:
            level = logging.INFO if cause is Cause.CHANGED else logging.WARNING
            log.log(level, "no longer registered: %s", cause.value)
            self.registered.clear()
        if cause in _BEGINNINGS:
            self.estranged = True
            if self.authentication is not None:
                self.authentication.forget()
        if cause is Cause.PING_MISSED:
            self._link.part()
        if cause in _DOUBTS:
            self.doubt()
        for todo in todos:
            match todo:
                case Todo.PAUSE_UPDATES:
                    self._holdings.pause()
                    self._post(ev.Disconnected())
                case Todo.LINK_AND_REGISTER:
                    self._register()
                case Todo.RESUME_UPDATES:
                    self._tell_holdings()
                    self._post(ev.Registered())
                    self.registered.set()
                case _:
                    assert_never(todo)
        overdue = self.registration.overdue(self._clock.mono())
        if overdue is Cause.TRY_DUE and cause is not Cause.TRY_DUE:
            self.happened(overdue)  # at once: no timer, no turn of the loop
        self._arm()

    def _told(self) -> _Told:
        """Return what a registration now says that may have changed since the last."""
        return self.info.get("resources"), self._holdings.kept

    def _tell_holdings(self) -> None:
        """Say what is not acknowledged of operations, as an agent does after each registration."""
        agent_id, operations = self._state.identity.agent_id, self._holdings.operations
        self._link.update_agent(agent_id, self._state.resource_version, operations.operations())
        self._holdings.resume(agent_id, self._clock.now())

    def _register(self) -> None:
        master = self._link.master
        if self.authentication is not None and master is not None and not self.authentication.done:
            self._link.meet()
            self.authentication.begin(master)
            return
        tries = self.registration.tries
        if tries % TRIES_BEFORE_A_WORD == 0:
            self.doubt()
        if tries >= TRIES_BEFORE_A_WORD and tries & (tries - 1) == 0:  # 4, 8, 16, ...: rarely during a long absence
            log.warning(
                "no answer from %s after %d tries: is a master running there, is that the very address it calls its "
                "own, and can it reach %s? It refuses silently; its log has the reason",
                master,
                tries - 1,
                self._link.pid,
            )
        version = self._state.resource_version
        self._said = self._told()
        self._introduced_with = self._introduced_with or self._said
        if self.agent_id is None:
            self._link.register(self.info, version, self._holdings.operations.kept_documents())
            return
        # It tells the ends of tasks, too.
        self._checkpoints.syncing.after(partial(self._reregister, master))

    def _reregister(self, master: Pid | None) -> None:
        if self._link.master != master:
            return  # that one has its own
        self._link.reregister(
            {**self.info, "id": {"value": self.agent_id}},
            self._state.resource_version,
            self._holdings.operations.kept_documents(),
            tasks=[task.to_message() for task in self._state.frameworks.tasks()],
            frameworks=[framework.info for framework in self._state.frameworks.active.values()],
            executors=[executor.info for executor in self._state.frameworks.executors() if not executor.over],
        )
