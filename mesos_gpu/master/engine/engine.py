"""The one owner of a master's state: events go in one at a time, actions are carried out in order. One event loop.

Allocation follows in the same turn of the loop in which resources came free, once for all that happened in it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Protocol

from typing_extensions import assert_never

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.decisions import invariants
from mesos_gpu.master.decisions.handle import handle
from mesos_gpu.master.engine.registrar import Registrar
from mesos_gpu.master.events.event import Event
from mesos_gpu.master.events.schedulers import StreamClosed
from mesos_gpu.master.events.timers import Allocate, FailoverExpired, Tick
from mesos_gpu.master.model.model import Moment
from mesos_gpu.master.state.actions import (
    AcknowledgeOperation,
    AcknowledgeStatus,
    Action,
    AgentRegistered,
    AgentReregistered,
    ApplyOperation,
    AwaitFailover,
    CloseStream,
    DrainAgent,
    ForgetAgent,
    KeepResources,
    KillTask,
    MessageExecutor,
    NotStored,
    ObserveAgent,
    ReconcileOperations,
    RunTask,
    RunTaskGroup,
    SendEvent,
    ShutdownAgent,
    ShutdownExecutor,
    ShutdownFramework,
    Store,
    ToAgent,
    UpdateFramework,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views import operator_events
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.timers import Timer
from mesos_gpu.mesos.viewing import EVERYBODY, Viewer

log = logging.getLogger(__name__)


class Subscriber(Protocol):
    """A scheduler's open stream."""

    def send(self, event: Document) -> None:
        """Send an event; never blocks."""

    def close(self) -> None:
        """End the stream after what was sent."""


class Agents(Protocol):
    """The way to the agents."""

    def perform(self, action: ToAgent) -> None:
        """Send an agent a message."""

    def removals(self) -> Mapping[str, int]:
        """Return how many agents were `scheduled` to be unreachable, are since (`completed`), or answered in time."""

    def observe(self, agent_id: str) -> None:
        """Link to an agent and ping it from now on."""

    def part(self, agent_id: str, *, silent: bool) -> None:
        """Ping it no more, and have no connection to it; with `silent`, what did not arrive yet never shall."""


class Stored:
    """Waits for one event's changes of the registry, and for what followed them. Left as often as entered."""

    def __init__(self) -> None:
        """Expect the event itself."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._expected = 1

    def expect(self) -> None:
        """Wait for one thing more."""
        self._expected += 1

    def fail(self, why: str) -> None:
        """Wait no more: it will not be."""
        if not self.done.done():
            self.done.set_exception(Unavailable(why))
            self.done.exception()  # it is told to who waits, if anybody does still

    def __enter__(self) -> None:
        """Begin one of the things."""

    def __exit__(self, *error: object) -> None:
        """End it."""
        self._expected -= 1
        if not self._expected and not self.done.done():
            self.done.set_result(None)


def clock() -> Moment:
    """Return what time it is."""
    return Moment(time.time(), time.monotonic())


class Engine:
    """Has events entered in the books, one at a time, and carries out what follows."""

    def __init__(self, state: MasterState, registrar: Registrar, *, now: Callable[[], Moment] = clock) -> None:
        self.state, self.now = state, now
        self.agents: Agents | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has an exception when the master cannot go on."""
        self._registrar = registrar
        registrar.on_failure = self.fail
        self._changing = asyncio.Lock()
        self._waiting: set[Stored] = set()
        self._subscribers: dict[str, Subscriber] = {}
        self._watchers: dict[str, tuple[Subscriber, Viewer]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._allocating = False
        self._due_s: float | None = None
        self._stopped = False
        self._runs, self._latency = (
            Timer("allocator/mesos/allocation_run"),
            Timer("allocator/mesos/allocation_run_latency"),
        )

    def start(self) -> None:
        """Begin the allocation interval."""
        self.call_later(self.state.settings.allocation_interval_s, self._tick)

    def stop(self) -> None:
        """Let no timer fire any more; operators who wait for the registry are told that nobody knows."""
        self._stopped = True
        self._give_up_waiting("this master is stopping")
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    @property
    def stopped(self) -> bool:
        """Tell whether events are applied no more."""
        return self._stopped

    def fail(self, why: str) -> None:
        """Do nothing any more, and have `failed` say why."""
        log.critical("%s", why)
        self._stopped = True
        if not self.failed.done():
            self.failed.set_exception(Unavailable(why))
        self._give_up_waiting(why)

    def _give_up_waiting(self, why: str) -> None:
        for stored in self._waiting:
            stored.fail(why)
        self._waiting.clear()

    def do(self, event: Event) -> None:
        """Apply one event and carry out its actions, then allocate in this turn of the loop if that is due."""
        self._do(event, None)

    async def store(self, event: Event) -> None:
        """Apply an operator's event, and return when all that it wants of the registry is durable and has followed.

        One after the other, so that each is judged by what those before it left. Raises what the event raises, and
        Unavailable when this master ends before: then nobody knows whether it was stored.
        """
        async with self._changing:
            if self._stopped:
                raise Unavailable("this master has stopped")
            stored = Stored()
            self._waiting.add(stored)
            try:
                with stored:
                    self._do(event, stored)
                await stored.done
            finally:
                self._waiting.discard(stored)

    def _do(self, event: Event, stored: Stored | None) -> None:
        if self._stopped:
            return
        self._perform(handle(self.state, event, self.now()), stored)
        if self.state.settings.check_invariants:
            problem = invariants.broken(self.state)
            if problem is None and self._registrar.idle:
                problem = invariants.differs(self.state, self._registrar.record)
            if problem is not None:
                self.fail(f"the books of this master do not add up: {problem}")
        self._publish()
        self.allocate_soon()

    def allocate_soon(self) -> None:
        """Offer what is free once the events of this turn of the loop are through, if anything changed."""
        if self.state.allocation_due and not self._allocating and not self._stopped:
            self._allocating, self._due_s = True, self.now().monotonic_s
            asyncio.get_running_loop().call_soon(self._allocate)

    def open_stream(self, stream_id: str, subscriber: Subscriber) -> None:
        """Events for this stream go to `subscriber` from now on."""
        self._subscribers[stream_id] = subscriber

    def stream_closed(self, stream_id: str) -> None:
        """A stream has ended, from whichever side."""
        self._subscribers.pop(stream_id, None)
        self.do(StreamClosed(stream_id))

    def watch(self, stream_id: str, watcher: Subscriber, viewer: Viewer = EVERYBODY) -> None:
        """Tell an operator everything there is now, and from now on what changes; the oldest gives way to a new one."""
        while len(self._watchers) >= self.state.settings.max_watchers:
            oldest, _ = self._watchers.pop(next(iter(self._watchers)))
            oldest.close()
        self._watchers[stream_id] = watcher, viewer
        self.state.watched = True
        for event in operator_events.subscribed(self.state, viewer):
            watcher.send(event)

    def unwatch(self, stream_id: str) -> None:
        """An operator's stream has ended, from whichever side."""
        self._watchers.pop(stream_id, None)
        self.state.watched = bool(self._watchers)

    @property
    def watchers(self) -> int:
        """Return how many operators listen."""
        return len(self._watchers)

    def metrics(self) -> dict[str, float]:
        """Return what the state does not know of: how long things took, the registry's size, agents given up."""
        return {
            **self._runs.shown(),
            **self._latency.shown(),
            **self._registrar.metrics(),
            **self._removals(),
        }

    def _removals(self) -> dict[str, float]:
        counts = {} if self.agents is None else self.agents.removals()
        return {
            f"master/slave_{what}_{step}": float(counts.get(step, 0))
            for what in ("shutdowns", "unreachable")  # one thing under two names, the first being the older
            for step in ("scheduled", "completed", "canceled")
        }

    def _publish(self) -> None:
        for event in operator_events.take(self.state):
            for watcher, viewer in list(self._watchers.values()):
                seen = operator_events.seen(self.state, event, viewer)
                if seen is not None:
                    watcher.send(seen)

    def later(self, delay_s: float, event: Event) -> None:
        """Apply an event after `delay_s` seconds."""
        self.call_later(delay_s, lambda: self.do(event))

    def every(self, interval_s: float, event: Event) -> None:
        """Apply an event every `interval_s` seconds, the first time after that."""

        def run() -> None:
            self.call_later(interval_s, run)
            self.do(event)

        self.call_later(interval_s, run)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something after `delay_s` seconds, unless stopped before."""

        def run() -> None:
            self._timers.discard(timer)
            call()

        timer = asyncio.get_running_loop().call_later(delay_s, run)
        self._timers.add(timer)

    def _tick(self) -> None:
        self._timed(Tick())
        self.call_later(self.state.settings.allocation_interval_s, self._tick)

    def _allocate(self) -> None:
        self._allocating = False
        if self.state.allocation_due:
            self._timed(Allocate())

    def _timed(self, event: Event) -> None:
        """Apply an event that may allocate; if it does, keep how long that was due and how long it took."""
        began_s, before = self.now().monotonic_s, self.state.counters["allocation_runs"]
        self.do(event)
        if self.state.counters["allocation_runs"] == before:
            return
        self._runs.add(self.now().monotonic_s - began_s)
        if self._due_s is not None:
            self._latency.add(began_s - self._due_s)
            self._due_s = None

    def _perform(self, actions: list[Action], stored: Stored | None) -> None:
        for action in actions:
            if isinstance(action, Store):
                self._store(action, stored)
            else:
                self._carry_out(action)

    def _store(self, store: Store, stored: Stored | None) -> None:
        """Have the registrar make a change, and apply what follows it; `stored` waits for that, too."""

        def then() -> None:
            with stored or nullcontext():
                self._do(store.then, stored)

        if stored is not None:
            stored.expect()
        self._registrar.apply(store.operation, then)

    def _carry_out(self, action: NotStored) -> None:
        match action:
            case SendEvent(stream_id, event):
                if stream_id in self._subscribers:
                    self._subscribers[stream_id].send(event)
            case CloseStream(stream_id):
                if stream_id in self._subscribers:
                    self._subscribers.pop(stream_id).close()
            case AwaitFailover(framework_id, epoch, delay_s):
                self.later(delay_s, FailoverExpired(framework_id, epoch))
            case Warn(text):
                log.warning("%s", text)
            case ObserveAgent(agent_id):
                if self.agents is not None:
                    self.agents.observe(agent_id)
            case ForgetAgent(agent_id, silent):
                if self.agents is not None:
                    self.agents.part(agent_id, silent=silent)
            case (
                AgentRegistered()
                | AgentReregistered()
                | ShutdownAgent()
                | RunTask()
                | RunTaskGroup()
                | DrainAgent()
                | KillTask()
                | AcknowledgeStatus()
                | UpdateFramework()
                | ShutdownFramework()
                | ShutdownExecutor()
                | MessageExecutor()
                | ApplyOperation()
                | KeepResources()
                | AcknowledgeOperation()
                | ReconcileOperations()
            ):
                if self.agents is not None:
                    self.agents.perform(action)
            case _:
                assert_never(action)
