"""When the stages of a one-off run were done, for whoever asks where its milliseconds go. Pure.

`MESOS_GPU_TRACE_FROM=$(date +%s.%N) mesos-gpu run -- true` says them on stderr at the end, in milliseconds since that
time: what Python and the parsing of words take is in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

VARIABLE = "MESOS_GPU_TRACE_FROM"
HEADLINE = "stages, in ms: "
Mark = tuple[str, float]


class Trace:
    """The marks of one run; without a time to count from, none are kept. A clock of the day comes in."""

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self.marks: list[Mark] = []
        try:
            self._from_s: float | None = float(environ[VARIABLE])
        except (KeyError, ValueError):
            self._from_s = None

    def mark(self, stage: str) -> None:
        """A stage is done; the first time counts."""
        if self._from_s is not None and all(stage != known for known, _ in self.marks):
            self.marks.append((stage, 1000 * (self._clock() - self._from_s)))

    def line(self) -> str | None:
        """Return all of them in words, None when nobody asked."""
        if self._from_s is None:
            return None
        return HEADLINE + ", ".join(f"{stage} {at_ms:.1f}" for stage, at_ms in self.marks)


def read(text: str) -> Sequence[Mark]:
    """Return the marks of such a line among others; nothing where there is none."""
    for line in text.splitlines():
        if line.startswith(HEADLINE):
            parts = [part.rpartition(" ") for part in line.removeprefix(HEADLINE).split(", ")]
            return [(stage, float(at_ms)) for stage, _, at_ms in parts]
    return []
