"""The one owner of a master's state: events go in one at a time, actions are carried out in order. One event loop.

Allocation follows in the same turn of the loop in which resources came free, once for all that happened in it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.decisions import invariants
from mesos_gpu.master.decisions.handle import handle
from mesos_gpu.master.decisions.offering import tick_due_s
from mesos_gpu.master.engine.alarms import Alarms
from mesos_gpu.master.engine.edges import Agents, Subscriber
from mesos_gpu.master.engine.registrar import Registrar
from mesos_gpu.master.engine.ticks import Ticks
from mesos_gpu.master.engine.waiting import Waiting
from mesos_gpu.master.engine.watchers import Watchers
from mesos_gpu.master.events.event import Event
from mesos_gpu.master.events.schedulers import Called, HeartbeatSent, StreamClosed
from mesos_gpu.master.events.timers import Allocate, FailoverExpired, Tick
from mesos_gpu.master.state.actions import (
    AwaitFailover,
    CloseStream,
    ForgetAgent,
    NotStored,
    ObserveAgent,
    SendEvent,
    Store,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer
from mesos_gpu.mesos.timers import Timer

log = logging.getLogger(__name__)

_QUIET = (Tick, Called, HeartbeatSent)
"""Most of what happens: time that goes by and leads to nothing, and what is only counted. The books are as before."""


def clock() -> Moment:
    """Return what time it is."""
    return Moment(time.monotonic(), time.time())


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
        self._waiting: set[Waiting] = set()
        self._subscribers: dict[str, Subscriber] = {}
        self._watchers, self._alarms = Watchers(state), Alarms()
        self._ticks = Ticks(state.settings.allocation_interval_s, self._tick)
        self._books = invariants.Books()
        self._allocating = False
        self._due_s: float | None = None
        self._stopped = False
        self._runs, self._latency = (
            Timer("allocator/mesos/allocation_run"),
            Timer("allocator/mesos/allocation_run_latency"),
        )

    def start(self) -> None:
        """Begin the allocation interval."""
        self._ticks.start(tick_due_s(self.state))

    def stop(self) -> None:
        """Let no timer fire any more; operators who wait for the registry are told that nobody knows."""
        self._stopped = True
        self._give_up_waiting("this master is stopping")
        self._alarms.stop()
        self._ticks.stop()

    @property
    def stopped(self) -> bool:
        """Return whether events are no longer applied."""
        return self._stopped

    def fail(self, why: str) -> None:
        """Do nothing any more, and have `failed` say why."""
        log.critical("%s", why)
        self._stopped = True
        if not self.failed.done():
            self.failed.set_exception(Unavailable(why))
        self._give_up_waiting(why)

    def _give_up_waiting(self, why: str) -> None:
        for waiting in self._waiting:
            waiting.fail(why)
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
            waiting = Waiting()
            self._waiting.add(waiting)
            try:
                with waiting:
                    self._do(event, waiting)
                await waiting.done
            finally:
                self._waiting.discard(waiting)

    def _do(self, event: Event, waiting: Waiting | None) -> None:
        if self._stopped:
            return
        actions = handle(self.state, event, self.now())
        for action in actions:
            if isinstance(action, Store):
                self._store(action, waiting)
            else:
                self._carry_out(action)
        if self.state.settings.check_invariants and (actions or not isinstance(event, _QUIET)):
            problem = self._books.broken(self.state)
            if problem is None and self._registrar.idle:
                problem = invariants.differs(self.state, self._registrar.record)
            if problem is not None:
                self.fail(f"the state of this master is inconsistent: {problem}")
        self._watchers.publish()
        self.allocate_soon()
        self._ticks.expect(tick_due_s(self.state))

    def allocate_soon(self) -> None:
        """Offer what is free once the events of this turn of the loop are through, if anything changed."""
        if self.state.allocation_due and not self._allocating and not self._stopped:
            self._allocating, self._due_s = True, self.now().mono_s
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
        self._watchers.add(stream_id, watcher, viewer)

    def unwatch(self, stream_id: str) -> None:
        """An operator's stream has ended, from whichever side."""
        self._watchers.remove(stream_id)

    @property
    def watchers(self) -> int:
        """Return how many operators listen."""
        return len(self._watchers)

    def count(self, name: str) -> None:
        """Count a message, or a call, that came in; by the last part of its metric's name."""
        self.state.counters[name] += 1

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

    def later(self, delay_s: float, event: Event) -> None:
        """Apply an event after `delay_s` seconds."""
        self.call_later(delay_s, lambda: self.do(event))

    def every(self, interval_s: float, event: Event) -> None:
        """Apply an event every `interval_s` seconds, the first time after that."""
        self._alarms.call_every(interval_s, lambda: self.do(event))

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something after `delay_s` seconds, unless stopped before."""
        self._alarms.call_later(delay_s, call)

    def _tick(self) -> None:
        try:
            if tick_due_s(self.state) <= self.now().mono_s:
                self._timed(Tick())
        finally:
            self._ticks.expect(tick_due_s(self.state))

    def _allocate(self) -> None:
        self._allocating = False
        if self.state.allocation_due:
            self._timed(Allocate())

    def _timed(self, event: Event) -> None:
        """Apply an event that may allocate; if it does, keep how long that was due and how long it took."""
        began_s, before = self.now().mono_s, self.state.counters["allocation_runs"]
        self.do(event)
        if self.state.counters["allocation_runs"] == before:
            return
        self._runs.add(self.now().mono_s - began_s)
        if self._due_s is not None:
            self._latency.add(began_s - self._due_s)
            self._due_s = None

    def _store(self, store: Store, waiting: Waiting | None) -> None:
        """Have the registrar make a change, and apply what follows it; `waiting` waits for that, too."""

        def then() -> None:
            with waiting or nullcontext():
                self._do(store.then, waiting)

        if waiting is not None:
            waiting.expect()
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
            case Warn(text, usual):
                log.log(logging.INFO if usual else logging.WARNING, "%s", text)
            case ObserveAgent(agent_id):
                if self.agents is not None:
                    self.agents.observe(agent_id)
            case ForgetAgent(agent_id, silent):
                if self.agents is not None:
                    self.agents.part(agent_id, silent=silent)
            case _:
                if self.agents is not None:
                    self.agents.perform(action)
