"""Faults of simulated GPUs, read from a file."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct, field

from mesos_gpu.gpu.device import Gpu, HealthEvent
from mesos_gpu.gpu.health import Severity, describe, xid_of

_log = logging.getLogger(__name__)

_LOST = "lost"
_WORD = re.compile(rf"[0-9]{{1,5}}|{_LOST}")
_POLL_S = 0.1


class Fault(Struct, frozen=True):
    """What the file says of one GPU: its XIDs, and whether it has fallen off the bus."""

    xids: frozenset[int] = field(default_factory=frozenset)
    lost: bool = False

    def why_not_fit(self) -> str | None:
        """Return why a GPU with this fault is not fit for use; None when it is."""
        if self.lost:
            return "it is lost"
        severe = sorted(xid for xid in self.xids if xid_of(xid).severity is not Severity.IGNORE)
        return f"it has {describe(severe[0])}" if severe else None


_NONE = Fault()


class Faults:
    """A file of lines `GPU XID` or `GPU lost`; GPU is an index or a UUID, `#` starts a comment.

    A line that appears is an event; one that goes away makes the GPU fit again. A line that cannot be read is skipped,
    with a word in the log; no file means no fault.
    """

    def __init__(self, path: Path | None, gpus: Collection[Gpu]) -> None:
        self._path = path
        self._by_name = {name: gpu.uuid for gpu in gpus for name in (str(gpu.index), gpu.uuid)}
        self._said: set[str] = set()

    def of(self, gpu: Gpu) -> Fault:
        """Return what the file says of `gpu` now."""
        return self._read().get(gpu.uuid, _NONE)

    def watch(self, on_event: Callable[[HealthEvent], None]) -> Callable[[], None]:
        """Tell every fault in the file now, and each that comes later, from a thread; return what ends that."""
        if self._path is None:
            return lambda: None
        ended = threading.Event()

        def run() -> None:
            told: Mapping[str, Fault] = {}
            while not ended.is_set():
                now = self._read()
                for uuid, fault in now.items():
                    for event in _new(uuid, told.get(uuid, _NONE), fault):
                        on_event(event)
                told = now
                ended.wait(_POLL_S)

        thread = threading.Thread(target=run, name="simulated-gpu-faults", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            thread.join()

        return end

    def _read(self) -> Mapping[str, Fault]:
        if self._path is None:
            return {}
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._say_once(f"cannot read {self._path}: {error.strerror}")
            return {}
        faults: dict[str, Fault] = {}
        for line in text.splitlines():
            words = line.partition("#")[0].split()
            if not words:
                continue
            uuid = self._by_name.get(words[0])
            if uuid is None or len(words) != 2 or not _WORD.fullmatch(words[1]):
                self._say_once(f"{self._path}: '{line.strip()}' is not 'GPU XID' or 'GPU lost' of a GPU that is here")
                continue
            before = faults.get(uuid, _NONE)
            if words[1] == _LOST:
                faults[uuid] = Fault(before.xids, lost=True)
            else:
                faults[uuid] = Fault(before.xids | {int(words[1])}, before.lost)
        return faults

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            _log.warning("%s", text)


def _new(uuid: str, before: Fault, now: Fault) -> list[HealthEvent]:
    """Return the events of one GPU between two readings of the file."""
    events = [HealthEvent(uuid, xid, f"simulated: {describe(xid)}") for xid in sorted(now.xids - before.xids)]
    if now.lost and not before.lost:
        events.append(HealthEvent(uuid, None, "simulated: GPU is lost"))
    return events
