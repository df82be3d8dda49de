"""Where an agent's time and chance come from."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from msgspec import Struct

from mesos_gpu.mesos.moment import Moment


class Clock(Struct, frozen=True):
    """Monotonic seconds, Unix time, and a number from 0 to 1."""

    mono: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    dice: Callable[[], float] = random.random

    def now(self) -> Moment:
        """Return the present moment."""
        return Moment(self.mono(), self.wall())
