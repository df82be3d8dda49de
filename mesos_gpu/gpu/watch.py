"""A thread that listens to NVML's events and looks after GPUs that vanish without one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from mesos_gpu.gpu.binding import (
    FUNCTION_NOT_FOUND,
    GPU_UNAVAILABLE_EVENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    TIMEOUT,
    UNUSABLE,
    XID_EVENT,
    Binding,
    code_of,
    text_of,
)
from mesos_gpu.gpu.device import Gpu, HealthEvent
from mesos_gpu.gpu.health import affected, describe

_log = logging.getLogger(__name__)
_WANTED = XID_EVENT | GPU_UNAVAILABLE_EVENT
_LOST = UNUSABLE | {NOT_FOUND}
_WAITING = "waiting"
"""A cause of doubt; the other causes are uuids."""


class Pace(Struct, frozen=True):
    """How often things are done: `turn_s` bounds how long an ending takes, `probe_s` is the time between two looks
    at every GPU, `pause_s` follows an error of NVML, so that one which stays does not keep a core busy.
    """

    turn_s: float = 0.5
    probe_s: float = 10.0
    pause_s: float = 2.0


USUAL_PACE = Pace()


class HealthWatch:
    """Listens for `gpus` until `end`. A GPU that is lost is told alone, and the others are listened to further.

    An error that concerns no single GPU is told once, as an event of uuid None, until NVML answers again.
    """

    def __init__(
        self, nvml: Binding, gpus: Sequence[Gpu], on_event: Callable[[HealthEvent], None], pace: Pace = USUAL_PACE
    ) -> None:
        self._nvml, self._gpus, self._on_event, self._pace = nvml, gpus, on_event, pace
        self._boards = tuple(dict.fromkeys(gpu.uuid if gpu.mig is None else gpu.mig.parent_uuid for gpu in gpus))
        self._lost: set[str] = set()
        self._unwatched: set[str] = set()
        self._doubts: set[str] = set()
        self._ended, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml-health", daemon=True)
        self._thread.start()
        self._begun.wait()  # NVML forgets what happens before it is asked.

    def end(self) -> None:
        """Stop listening; return when the thread has ended. May be called twice, but not by the listener."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            self._begun.set()

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                with self._event_set() as (events, listening):
                    self._begun.set()
                    self._listen(events, listening)
            except self._nvml.NVMLError as error:
                if not self._find_lost() or code_of(error) not in _LOST:
                    self._doubt(_WAITING, f"NVML could not wait for events: {error}")
                self._begun.set()
                self._ended.wait(self._pace.pause_s)

    @contextmanager
    def _event_set(self) -> Iterator[tuple[Any, bool]]:
        """Give an event set with every GPU that answers, and whether there is any in it."""
        events = self._nvml.nvmlEventSetCreate()
        try:
            registered = [board for board in self._boards if self._register(board, events)]
            yield events, bool(registered)
        finally:
            self._nvml.nvmlEventSetFree(events)

    def _register(self, board: str, events: Any) -> bool:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(board)
            types = _WANTED & nvml.nvmlDeviceGetSupportedEventTypes(handle)
            if types:
                nvml.nvmlDeviceRegisterEvents(handle, types, events)
        except nvml.NVMLError as error:
            if code_of(error) in _LOST:
                self._tell_lost(affected(self._gpus, board), error)
                return False
            if code_of(error) not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                raise
            types = 0
        if not types and board not in self._unwatched:
            self._unwatched.add(board)
            _log.warning("GPU %s reports no errors through NVML: its health is only looked at now and then", board)
        return bool(types)

    def _listen(self, events: Any, listening: bool) -> None:
        since_probe = 0.0
        while not self._ended.is_set():
            if listening:
                self._wait(events)
            else:
                self._ended.wait(self._pace.turn_s)
            since_probe += self._pace.turn_s
            if since_probe >= self._pace.probe_s:
                since_probe = 0.0
                known = frozenset(self._lost)
                self._find_lost()
                if known - self._lost:
                    return  # A GPU is back: a new event set will have it.
            self._doubts.discard(_WAITING)

    def _wait(self, events: Any) -> None:
        try:
            event = self._nvml.nvmlEventSetWait_v2(events, int(self._pace.turn_s * 1000))
        except self._nvml.NVMLError as error:
            if code_of(error) == TIMEOUT:
                return
            raise
        if event.eventType == XID_EVENT:
            self._tell_event(event, int(event.eventData), describe(int(event.eventData)))
        elif event.eventType == GPU_UNAVAILABLE_EVENT:
            self._tell_event(event, None, "NVML says that the GPU is unavailable")

    def _tell_event(self, event: Any, xid: int | None, what: str) -> None:
        try:
            board = text_of(self._nvml.nvmlDeviceGetUUID(event.device))
        except self._nvml.NVMLError:
            # The GPU is too far gone to say its name.
            if not self._find_lost():
                self._tell(HealthEvent(None, xid, f"{what}, on a GPU that NVML cannot name"))
            return
        for gpu in affected(self._gpus, board, event.gpuInstanceId, event.computeInstanceId):
            self._tell(HealthEvent(gpu.uuid, xid, what))

    def _find_lost(self) -> bool:
        """Look at every GPU and tell those that have been lost since the last look; return whether any is lost."""
        nvml = self._nvml
        for gpu in self._gpus:
            try:
                nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(gpu.uuid))
            except nvml.NVMLError as error:
                if code_of(error) in _LOST:
                    self._tell_lost((gpu,), error)
                elif code_of(error) != NOT_SUPPORTED:
                    self._doubt(gpu.uuid, f"GPU {gpu.uuid} does not answer: {error}")
            else:
                self._lost.discard(gpu.uuid)
                self._doubts.discard(gpu.uuid)
        return bool(self._lost)

    def _tell_lost(self, gpus: Iterable[Gpu], error: Exception) -> None:
        for gpu in gpus:
            if gpu.uuid not in self._lost:
                self._lost.add(gpu.uuid)
                self._tell(HealthEvent(gpu.uuid, None, f"NVML cannot reach it: {error}"))

    def _doubt(self, cause: str, what: str) -> None:
        if cause not in self._doubts:
            self._doubts.add(cause)
            self._tell(HealthEvent(None, None, what))

    def _tell(self, event: HealthEvent) -> None:
        try:
            self._on_event(event)
        except Exception:
            _log.exception("the listener failed on %s", event)  # The next event must not go unheard for it.
