"""Times by a cron expression of five fields, in a time zone. The only module that imports croniter.

What counts is what a clock in the time zone shows. A time that a day skips (in spring) is taken at the moment of the
skip. Of a time that comes twice (in autumn) the first is taken; both are where the expression names no hours, so that
something that runs every ten minutes continues doing so.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo  # it takes memory, as croniter does, and few Marathons have schedules

FIELDS = 5
LONGEST = 1000
"""Characters: more than all minutes, hours, days and months one by one. What is read takes a second for 40 000."""
_CHANGE_S = 4 * 3600
"""Clocks change by less than this."""


def cron_problem(expression: str) -> str | None:
    """Return what is wrong with a cron expression, None when it is good."""
    if len(expression) > LONGEST:
        return f"a schedule has at most {LONGEST} characters, but here are {len(expression)}"
    from croniter.croniter import CroniterError, croniter

    fields = expression.split()
    if len(fields) != FIELDS:
        names = "minute, hour, day of month, month, day of week"
        return f"a schedule has five fields ({names}), but here are {len(fields)}"
    try:
        croniter(expression)
    except (CroniterError, ValueError, KeyError) as error:
        return f"{expression!r} is not a schedule: {error}"
    return None


def zone_problem(name: str) -> str | None:
    """Return what is wrong with the name of a time zone, None when there is one of that name."""
    try:
        _zone(name)
    except (KeyError, ValueError, OSError):
        return f"there is no time zone {name!r}"
    return None


def next_time(expression: str, zone: str, after_s: float) -> float | None:
    """Return the next time of a good expression after `after_s`, in seconds since the epoch; None when there is none.

    There is none within years of an expression like `0 0 30 2 *`.
    """
    from croniter.croniter import CroniterBadDateError, croniter

    tz = _zone(zone)
    every_hour = expression.split()[1].startswith("*")
    # Times on the wall, without a zone: croniter has no clock changes to deal with, they are dealt with here.
    wall = _wall(after_s, tz)
    near_a_change = _offset(after_s - _CHANGE_S, tz) != _offset(after_s + _CHANGE_S, tz)
    walk = croniter(expression, wall - near_a_change * timedelta(seconds=_CHANGE_S), max_years_between_matches=8)
    best: float | None = None
    while True:
        try:
            found: datetime = walk.get_next(datetime)
        except CroniterBadDateError:
            return best
        times = [at_s for at_s in _on_the_clock(found, tz, both=every_hour) if at_s > after_s]
        if best is not None and _on_the_clock(found, tz, both=False)[0] >= best:
            return best
        best = min([*times, *([best] if best is not None else [])], default=None)


def _on_the_clock(wall: datetime, zone: ZoneInfo, *, both: bool) -> list[float]:
    """Return when a clock of the zone shows `wall`; for a skipped time, the moment of the skip."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if second > first:
        return [first, second] if both else [first]
    if second < first:  # there is no such time: `second` is before the skip, and `first` behind it
        return [_skip(second, first, zone)]
    return [first]


def _skip(before_s: float, behind_s: float, zone: ZoneInfo) -> float:
    """Return the moment between these two at which the clocks of a zone change."""
    offset, low, high = _offset(before_s, zone), before_s, behind_s
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (middle, high) if _offset(middle, zone) == offset else (low, middle)
    return float(round(high))


def _wall(at_s: float, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at_s, timezone.utc).astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(at_s: float, zone: ZoneInfo) -> timedelta | None:
    return datetime.fromtimestamp(at_s, timezone.utc).astimezone(zone).utcoffset()


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
