"""Waiting for what another process writes: nobody tells of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.patience import TIMES

PATIENCE_S = 60.0 * TIMES


def until(holds: Callable[[], bool]) -> None:
    """Return when something holds; fail when it does not for a minute."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)
