"""Python's collector in a program with much to remember: it looks at what is new, not at all there is again and again.

Nearly all that a master knows is freed by counts of references; the collector is for what refers to itself. Its oldest
generation is looked at whole each time, half a second for 5 000 agents, and all else waits meanwhile. So what has
outlived such a look is not looked at again, but when the process has doubled since that was last done: then all
is looked at once more.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path

GROWTH = 2.0
SLACK_BYTES = 32 * 2**20
"""Growth that is no reason to look at everything: what a start takes, and what a small program comes to."""
YOUNG = 5_000
"""Objects made, beyond those freed, until the youngest generation is looked at; Python's 700 is for small programs."""
_OLDEST = 2


def resident_bytes() -> int:
    """Return how much memory of this process is in use."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Collector:
    """Has the collector leave alone what has outlived it, until the process has grown."""

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        """`resident` returns the bytes in use."""
        self._resident = resident
        self._full_bytes = resident()
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """Do so from now on, in this process."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG, *self._thresholds[1:])
        gc.callbacks.append(self)

    def end(self) -> None:
        """Leave it to Python again; what is left alone by now stays so."""
        gc.callbacks.remove(self)
        gc.set_threshold(*self._thresholds)

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Hear of a collection, from Python: a whole one has just ended, or it is no matter."""
        if phase != "stop" or info["generation"] != _OLDEST:
            return
        now_bytes = self._resident()
        if now_bytes > GROWTH * self._full_bytes + SLACK_BYTES:
            self._full_bytes = now_bytes
            gc.unfreeze()  # the next one looks at everything
        else:
            gc.freeze()
