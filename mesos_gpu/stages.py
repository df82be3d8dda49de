"""The stages of a launch, or of a box's start, and when each was done: where the milliseconds of a start go.

Of launches: off, a mark costs a look at a variable. On (`mesos-gpu-agent --trace_launches`), the log has one line for
each container that has ended: milliseconds since its task came from the master, and of those the last stage took.
"""

from __future__ import annotations

import logging
import time
from contextvars import ContextVar

log = logging.getLogger(__name__)


class Stages:
    """When the stages of one start were done, in seconds of CLOCK_MONOTONIC, which is one for a whole machine."""

    def __init__(self, name: str, began_s: float) -> None:
        self.name, self.began_s = name, began_s
        self.marks: list[tuple[str, float]] = []

    def mark(self, stage: str) -> None:
        """A stage is done now."""
        self.marks.append((stage, time.monotonic()))

    def line(self) -> str:
        """Return all of them in words: `STAGE at (took)`, in milliseconds."""
        last, words = self.began_s, []
        for stage, at_s in self.marks:
            words.append(f"{stage} {(at_s - self.began_s) * 1e3:.2f} (+{(at_s - last) * 1e3:.2f})")
            last = at_s
        return f"{self.name} at {self.began_s:.6f} s, in ms: {', '.join(words)}"


class _Switch:
    on = False


_arrived: ContextVar[float | None] = ContextVar("arrived", default=None)
_current: ContextVar[Stages | None] = ContextVar("stages", default=None)


def trace() -> None:
    """Trace launches of this process from now on."""
    _Switch.on = True


def arrived() -> None:
    """What is launched next in this context was asked for now."""
    if _Switch.on:
        _arrived.set(time.monotonic())


def begin(name: str) -> None:
    """Marks in this context, and in tasks that it begins, are those of the container `name` from now on."""
    if _Switch.on:
        now_s = time.monotonic()
        stages = Stages(f"launch of {name}", _arrived.get() or now_s)
        stages.marks.append(("checkpointed", now_s))
        _current.set(stages)


def mark(stage: str) -> None:
    """A stage of this context's launch is done."""
    stages = _current.get()
    if stages is not None:
        stages.mark(stage)


def end() -> None:
    """Write the line of this context's launch."""
    stages = _current.get()
    if stages is not None:
        _current.set(None)
        log.info("%s", stages.line())
