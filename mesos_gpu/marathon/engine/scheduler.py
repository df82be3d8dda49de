"""The owner of the state: takes events one after another, lets `orchestrator` decide, and carries its actions out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from typing_extensions import assert_never

from mesos_gpu.errors import MesosGpuError, Unavailable
from mesos_gpu.marathon.decisions.orchestrator import handle, next_tick_s
from mesos_gpu.marathon.engine.event_bus import EventBus
from mesos_gpu.marathon.engine.ids import ids_from, new_id
from mesos_gpu.marathon.engine.mesos_link import LinkEvent, MesosLink
from mesos_gpu.marathon.engine.metrics import PREFIX, Metrics
from mesos_gpu.marathon.engine.prober import Prober
from mesos_gpu.marathon.engine.probes import probes
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Action,
    Answer,
    Decline,
    Exit,
    Kill,
    Launch,
    Publish,
    Reconcile,
    Resubscribe,
    Revive,
    Save,
    Say,
    Suppress,
    Tell,
    UpdateRoles,
)
from mesos_gpu.marathon.state.events import Event, Moment, Offered, Subscribed, Tick
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State, restored
from mesos_gpu.marathon.store.store import Store
from mesos_gpu.mesos.ids import AgentId

log = logging.getLogger(__name__)

# Timers are rounded up so that a tick does not come a hair before its time and then again at once.
_TICK_SLACK_S = 0.002
_TURN_S = 0.05
"""For so long, and one event more, is decided before that is saved and done, and told to who waits for it."""
_OFFERS_AT_ONCE = 8


@dataclass(slots=True)
class _Asked:
    """An event, and who waits for its answer (the API; nobody for news from Mesos)."""

    event: Event
    answer: asyncio.Future[Answer | None] | None


@dataclass(slots=True)
class _Turn:
    """What was decided about some events, and saved."""

    state: State
    events: list[Event] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    answers: list[tuple[asyncio.Future[Answer | None], Answer | None]] = field(default_factory=list)
    refused: list[tuple[_Asked, Exception]] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    left: list[_Asked] = field(default_factory=list)
    """What there was no time for."""
    unsaved: MesosGpuError | None = None
    """Why it is not on disk."""


class Scheduler:
    """Runs one framework.

    One thread decides and saves, from one state to the next, which are values: meanwhile the event loop's thread goes
    on serving, however much there is to decide. All else happens there, but for the link.
    """

    def __init__(
        self,
        store: Store,
        link: MesosLink,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_id,
        load: bool = True,
        metrics_prefix: str = PREFIX,
    ) -> None:
        """Load what was saved, unless that is left for later. Raises Unavailable when it cannot be read."""
        self.settings, self.clock, self.bus = settings, clock, EventBus(clock)
        self.new_id = new_id
        self.metrics = Metrics(clock, metrics_prefix)
        self.master: str | None = None
        """HOST:PORT of the master that took us in last."""
        self.silent: Callable[[], Mapping[AgentId, str]] = dict
        """Says which agents do not tell what tasks use, and why."""
        self._store, self._link = store, link
        self._state = State()
        if load:
            self.load()
        self._inbox: deque[_Asked] = deque()
        self._wake = asyncio.Event()
        self._prober = Prober(lambda event: self._put(event, None), at_a_time=settings.max_concurrent_checks)
        # One thread: turns come one after another, and the loop continues serving while one is decided and saved.
        self._deciding = ThreadPoolExecutor(1, thread_name_prefix="decisions")

    @property
    def state(self) -> State:
        """Return the latest state that is on disk."""
        return self._state

    def moment(self) -> Moment:
        """Return the present moment, with ids for what is decided in it."""
        return Moment(self.clock(), ids_from(self.new_id))

    def load(self) -> None:
        """Take over what the store has; waits for it, before `run`. Raises Unavailable when it cannot be read."""
        self._state = restored(self._store.load())

    def tell(self, event: Event) -> None:
        """Have an event handled; nobody waits for what comes of it."""
        self._put(event, None)

    async def ask(self, event: Event) -> Answer | None:
        """Handle an event and return its answer, once it is on disk. Raises what the decision raises."""
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._put(event, answer)
        return await answer

    def preview(self, event: Event) -> Answer:
        """Return what an event would be answered, and do nothing. Raises what the decision raises."""
        _, actions = handle(self._state, event, self.moment(), self.settings)
        return next(action for action in actions if isinstance(action, Answer))

    async def run(self) -> None:
        """Work until cancelled. Raises Unavailable when going on is not possible."""
        loop = asyncio.get_running_loop()

        arrived: list[LinkEvent] = []
        lock = Lock()

        def take_over() -> None:
            with lock:
                events = list(arrived)
                arrived.clear()
            for event in events:
                self._put(event, None)

        def from_link(event: LinkEvent) -> None:
            # The loop is woken once for all that comes until it is there.
            with lock:
                woken = bool(arrived)
                arrived.extend(_parts(event))
            if not woken:
                with suppress(RuntimeError):  # the loop has ended before the link
                    loop.call_soon_threadsafe(take_over)

        self.metrics.leading_since_s = self.clock()
        self._link.start(self._state.lasting.framework_id, from_link)
        self._follow(None)
        try:
            while True:
                await self._turn(await self._batch())
        finally:
            await loop.run_in_executor(None, self._link.stop)
            await self._prober.stop()
            self._deciding.shutdown()
            for asked in self._inbox:
                if asked.answer is not None and not asked.answer.done():
                    asked.answer.set_exception(Unavailable("this Marathon is shutting down"))

    def _put(self, event: Event, answer: asyncio.Future[Answer | None] | None) -> None:
        self._inbox.append(_Asked(event, answer))
        self._wake.set()

    async def _batch(self) -> list[_Asked]:
        """Wait for something to happen and return all that has; a Tick when it is time for one."""
        moment = self.moment()
        at_s = next_tick_s(self._state, self.settings, moment)
        timer = None
        if at_s is not None:
            delay_s = max(0.0, at_s - moment.now_s) + _TICK_SLACK_S
            timer = asyncio.get_running_loop().call_later(delay_s, self._put, Tick(), None)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._wake.clear()
        batch = list(self._inbox)
        self._inbox.clear()
        return batch

    async def _turn(self, batch: list[_Asked]) -> None:
        """Have all events of the batch decided about and saved at once, then act.

        What there is no time for goes back into the inbox, so that who waits for an answer has it in between.
        """
        turn = await asyncio.get_running_loop().run_in_executor(self._deciding, self._decided, batch)
        if turn.left:
            self._inbox.extendleft(reversed(turn.left))
            self._wake.set()
        for event in turn.events:
            self.metrics.event(event)
        for took_s in turn.took_s:
            self.metrics.decisions.took(took_s)
        for asked, error in turn.refused:
            self.metrics.refused(error)
            _refuse(asked, error)
        if turn.unsaved is not None:
            for answer, _ in turn.answers:
                if not answer.done():
                    answer.set_exception(turn.unsaved)
            raise turn.unsaved
        before, self._state = self._state, turn.state
        self._follow(before)
        for answer, result in turn.answers:
            if not answer.done():
                answer.set_result(result)
        for action in turn.actions:
            self.metrics.action(action)
            self._perform(action)
        self.bus.flush()
        for event in turn.events:
            if isinstance(event, Subscribed):
                self.master = event.master
                log.info("subscribed at %s as framework %s", event.master, event.framework_id)

    def _decided(self, batch: list[_Asked]) -> _Turn:
        """Decide about events for as long as a turn may take, and save what follows; in the thread for that."""
        turn = _Turn(self._state)
        until_s = time.monotonic() + _TURN_S
        for number, asked in enumerate(batch):
            if number > 0 and time.monotonic() > until_s:
                turn.left = batch[number:]
                break
            self._decide(turn, asked)
        saves = [action for action in turn.actions if isinstance(action, Save)]
        if saves:
            try:
                self._store.save(saves)
            except MesosGpuError as error:
                turn.unsaved = error
        return turn

    def _decide(self, turn: _Turn, asked: _Asked) -> None:
        """Add to a turn what follows from one event; what cannot be done, or not be kept, is for who asked."""
        turn.events.append(asked.event)
        began_s = time.perf_counter()
        try:
            state, actions = handle(turn.state, asked.event, self.moment(), self.settings)
            if asked.answer is not None:
                for action in actions:
                    if isinstance(action, Save):
                        self._store.refuse(action)
        except Exception as error:
            turn.refused.append((asked, error))
            return
        turn.took_s.append(time.perf_counter() - began_s)
        turn.state = state
        turn.actions += actions
        if asked.answer is not None:
            turn.answers.append((asked.answer, next((a for a in actions if isinstance(a, Answer)), None)))

    def _follow(self, before: State | None) -> None:
        """Check what is to be checked now; nothing to do when nothing has changed that decides about it."""
        now, was = self._state, before
        if (
            was is None
            or now.instances is not was.instances
            or now.versions is not was.versions
            or now.deployments is not was.deployments
            or now.readiness is not was.readiness
        ):
            self._prober.follow(probes(now))

    def _perform(self, action: Action) -> None:
        match action:
            case Save() | Answer():
                pass  # done, before everything else
            case Launch():
                done = [operation["type"].lower() for operation in action.operations]
                log.info(
                    "on offer %s: %s", action.offer_id, ", ".join([*done, *map("start {}".format, action.task_ids)])
                )
                self._link.call(action)
            case (
                Decline()
                | Revive()
                | Suppress()
                | Kill()
                | Tell()
                | Acknowledge()
                | Reconcile()
                | UpdateRoles()
                | Resubscribe()
            ):
                self._link.call(action)
            case Publish(kind=kind, fields=fields):
                self.bus.publish(kind, fields, hold=True)
            case Say(text=text):
                log.warning("%s", text)
            case Exit(reason=reason):
                raise Unavailable(reason)
            case _:
                assert_never(action)


def _parts(event: LinkEvent) -> list[LinkEvent]:
    """Return an event as such that take a short time each; a master with many agents offers all of them at once."""
    if not isinstance(event, Offered) or len(event.offers) <= _OFFERS_AT_ONCE:
        return [event]
    return [Offered(event.offers[at : at + _OFFERS_AT_ONCE]) for at in range(0, len(event.offers), _OFFERS_AT_ONCE)]


def _refuse(asked: _Asked, error: Exception) -> None:
    """Give an error to who asked; news from Mesos that we cannot handle must not stop what comes after it."""
    if asked.answer is None:
        log.error("cannot handle %s", asked.event, exc_info=error)
    elif not asked.answer.done():
        asked.answer.set_exception(error)
