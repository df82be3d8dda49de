"""Time as Marathon writes it: ISO-8601, UTC, milliseconds, `Z`. Such texts sort as the times do."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

_FORMAT = "%Y-%m-%dT%H:%M:%S.%f%z"


# The times of tasks are shown with every answer that has them in it: writing them was a third of /v2/tasks.
@lru_cache(maxsize=16384)
def timestamp(seconds: float) -> str:
    """Return seconds since the epoch as Marathon's text."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(text: str) -> float:
    """Return seconds since the epoch of Marathon's text. Raises ValueError."""
    return datetime.strptime(text.replace("Z", "+0000"), _FORMAT).timestamp()


def later_than(previous: str | None, now_s: float) -> str:
    """Return the text for now, or for one millisecond after `previous` when the clock is not past it.

    Versions name things, so two changes within a millisecond must not share one.
    """
    now = timestamp(now_s)
    return now if previous is None or now > previous else timestamp(seconds_of(previous) + 0.001)
