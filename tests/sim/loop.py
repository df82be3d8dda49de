"""An event loop whose time goes from one timer to the next at once, and whose steps belong to processes."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from tests.sim.world import PROCESS

if TYPE_CHECKING:
    from tests.sim.world import Process, World

STEP_S = 1e-6
"""What a turn of the loop takes at least; a clock that stood still would show what no clock does."""
MOST_STEPS_AT_ONCE = 2000
"""More turns than these without a pause are a loop that never ends, or looks without a pause: some 25 are usual."""
SLOWEST_THREAD_S = 0.02
RESOLUTION_S = 1e-6
"""What is due within this of now is due."""
MANY_TIMERS = 100
"""Where half of more than these were cancelled they are thrown away, as by asyncio."""


class Stuck(Exception):
    """Nothing will ever happen again, or too much at one moment."""


def _nothing() -> None:
    """What a step does that was cancelled."""


class _Step(asyncio.Handle):
    """A handle as asyncio's own, without what only its debug mode asks for."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], loop: Any, context: Context) -> None:
        self._callback, self._args, self._loop, self._context = callback, args, loop, context
        self._cancelled, self._repr, self._source_traceback = False, None, None

    def cancel(self) -> None:
        """Never make this step."""
        self._cancelled, self._callback, self._args = True, _nothing, ()


class _Timer(asyncio.TimerHandle):
    """A timer as asyncio's own, without what only its debug mode asks for."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., Any], args: tuple[Any, ...], loop: Any, context: Context
    ) -> None:
        self._callback, self._args, self._loop, self._context = callback, args, loop, context
        self._cancelled, self._repr, self._source_traceback = False, None, None
        self._when, self._scheduled = when, False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self._when)

    def cancel(self) -> None:
        """Never make this step."""
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)
        self._cancelled, self._callback, self._args = True, _nothing, ()


def _forgotten(timer: _Timer) -> bool:
    """Tell whether a timer was cancelled: then it is not counted any more."""
    if timer._cancelled:
        timer._scheduled = False
    return timer._cancelled


def _run_later(process: Process, handle: asyncio.Handle) -> None:
    """Make a step that was due when its process froze, unless that is dead by now."""
    if process.alive and not handle.cancelled():
        handle._run()


_numbers = itertools.count()


class _Future(asyncio.Future):  # type: ignore[type-arg]
    _number: int

    def __hash__(self) -> int:
        return self._number


_begin: Any = asyncio.Task.__init__


class _Task(asyncio.Task):  # type: ignore[type-arg]
    def __init__(self, coroutine: Any, **more: Any) -> None:
        self._number = next(_numbers)
        _begin(self, coroutine, **more)

    def __hash__(self) -> int:
        return self._number


def numbered(kind: type) -> None:
    """Have sets keep objects of a class in an order that is the same each time, and not by where they lie in memory."""
    made: Any = vars(kind)["__init__"]

    def __init__(self: Any, *args: Any, **more: Any) -> None:
        self._number = next(_numbers)
        made(self, *args, **more)

    for name, replacement in (("__init__", __init__), ("__hash__", lambda self: self._number)):
        setattr(kind, name, replacement)


# What it is made of inside is not told to type checkers.
_Base: Any = asyncio.BaseEventLoop


class VirtualLoop(_Base):  # type: ignore[misc]
    """`time()` is the clock of the host whose step asks; threads are steps that come a little later."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._scheduled: list[tuple[float, _Timer]]
        """When each is due beside it: so a heap need not ask the timers, which is slow."""
        self._steps = self._timer_cancelled_count = 0
        self._busy_until: dict[int, tuple[Any, float]] = {}
        """By executor, which is kept: else another one would have its place in memory, and its name here."""
        self.set_task_factory(self._new_task)

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future that sets keep in the order in which they were made."""
        future = _Future(loop=self)
        future._number = next(_numbers)
        return future

    # Time.

    def _run_once(self) -> None:
        """Go on from moment to moment, making the steps of each, until somebody stops the loop."""
        world, ready = self.world, self._ready
        while True:
            self._go_on()
            for _ in range(len(ready)):
                step = ready.popleft()
                if step._cancelled or (world.ambush is not None and not self._outlives_ambush(step)):
                    continue
                try:
                    step._context.run(step._callback, *step._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    text = f"Exception in callback {step}"
                    self.call_exception_handler({"message": text, "exception": error, "handle": step})
            if self._stopping:
                return

    def _go_on(self) -> None:
        """Go on to when something is due, which is ready then."""
        world, ready, scheduled = self.world, self._ready, self._scheduled
        if len(scheduled) > MANY_TIMERS and self._timer_cancelled_count / len(scheduled) > 0.5:
            scheduled = self._scheduled = [entry for entry in scheduled if not _forgotten(entry[1])]
            heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0][1]._cancelled:
            self._timer_cancelled_count -= 1
            heappop(scheduled)[1]._scheduled = False
        now_s = world.now_s
        if not ready and not self._stopping:
            if not scheduled:
                raise Stuck("nothing is going to happen any more")
            pause_s = scheduled[0][0] - now_s
        else:
            pause_s = 0.0
        if pause_s > STEP_S:
            self._steps = 0
            now_s += pause_s
        else:
            self._steps += 1
            now_s += STEP_S
            if self._steps > MOST_STEPS_AT_ONCE:
                raise Stuck(f"{MOST_STEPS_AT_ONCE} turns of the loop without a pause until {now_s:.6f} s")
        world.now_s = now_s
        due_s = now_s + RESOLUTION_S
        while scheduled and scheduled[0][0] < due_s:
            timer = heappop(scheduled)[1]
            timer._scheduled = False
            ready.append(timer)

    def _outlives_ambush(self, step: asyncio.Handle) -> bool:
        process = step._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or self.world.ambush is None:
            return True
        self.world.ambush(process)
        return bool(process.alive)

    def time(self) -> float:
        """Return the monotonic clock of whoever asks; the world's when it is nobody."""
        process = PROCESS.get()
        return self.world.now_s if process is None else process.host.mono()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        """Make a step now; one of a dead process is never made."""
        found = copy_context() if context is None else context
        step = _Step(callback, args, self, found)
        process = found.get(PROCESS)
        if process is not None:
            if not process.alive:
                step.cancel()
                return step
            if process.frozen_until_s > self.world.now_s:
                return self.at(self.world.now_s, callback, *args, context=found)
        self._ready.append(step)
        return step

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Make a step now: threads are steps of the same loop."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a step after so many seconds of the clock of whoever asks."""
        process = PROCESS.get()
        if process is None:
            return self.at(self.world.now_s + delay, callback, *args, context=context)
        now_s, host = self.world.now_s, process.host
        mono_s = (now_s - host.booted_s) * host.rate  # as `mono` says: this is called for most of all steps
        pause_s = mono_s + delay - mono_s
        return self.at(now_s + (pause_s / host.rate if pause_s > 0 else 0.0), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a step at a time of the clock of whoever asks."""
        process = PROCESS.get()
        if process is not None:
            when = self.world.now_s + max(0.0, when - process.host.mono()) / process.host.rate
        return self.at(when, callback, *args, context=context)

    def at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a step at a time of the world."""
        found = copy_context() if context is None else context
        process = found.get(PROCESS)
        if process is not None and when < process.frozen_until_s:
            when = process.next_thaw_s()
        now_s = self.world.now_s
        if when < now_s:
            when = now_s
        timer = _Timer(when, callback, args, self, found)
        if process is not None and not process.alive:
            timer.cancel()
            return timer
        heappush(self._scheduled, (when, timer))
        timer._scheduled = True
        return timer

    def drop(self, process: Process) -> None:
        """Make no step of a process any more."""
        ready: Any = self._ready
        process.kept.extend(ready)
        for handle in ready:
            if handle._context.get(PROCESS) is process:
                handle.cancel()
        process.kept.extend(self._scheduled)
        self._scheduled = [entry for entry in self._scheduled if entry[1]._context.get(PROCESS) is not process]
        heapify(self._scheduled)

    def freeze(self, process: Process, seconds: float) -> None:
        """Make no step of a process for a while; then those that were due, in their order."""
        process.frozen_until_s = process.thaws_s = self.world.now_s + seconds
        ready: Any = self._ready
        for handle in [handle for handle in ready if handle._context.get(PROCESS) is process]:
            ready.remove(handle)
            self.at(process.next_thaw_s(), _run_later, process, handle, context=Context())
        due = [
            timer
            for when, timer in self._scheduled
            if when < process.frozen_until_s and timer._context.get(PROCESS) is process
        ]
        for timer in sorted(due, key=lambda timer: timer.when()):
            timer._when = process.next_thaw_s()
        self._scheduled = [(timer.when(), timer) for _, timer in self._scheduled]
        heapify(self._scheduled)

    # Threads.

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Call something a little later, after what the same executor was given before."""
        answer: asyncio.Future[Any] = self.create_future()
        due_s = self.world.now_s + self.world.random.uniform(0.0, SLOWEST_THREAD_S)
        if executor is not None:
            due_s = max(due_s, self._busy_until.get(id(executor), (None, 0.0))[1])
            self._busy_until[id(executor)] = executor, due_s

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        self.at(due_s, run)
        return answer

    # Sockets.

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        """Connect to a port of a simulated host; `sock` is its address, where others have a socket. Raises OSError."""
        if sock is not None:
            host, port = sock
        return await self.world.network.connect(protocol_factory, host, port)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """Return the address of a host, by its name or address."""
        found = self.world.hosts.get(host)
        ip = host if found is None else found.ip
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))]

    # What the base class leaves to its heirs.

    def _new_task(self, loop: Any, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
        task = _Task(coroutine, loop=loop, **more)
        process = PROCESS.get()
        if process is not None and len(process.kept) < 20_000:
            process.kept.append(task)
        return task

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def add_signal_handler(self, *_: Any) -> None:
        """Signals other than SIGKILL do not happen here."""

    def remove_signal_handler(self, sig: int) -> bool:
        """Nothing was added."""
        return False
