"""How long something took, or how long ago it was, in as few characters as kubectl's tables use."""

from __future__ import annotations

from datetime import datetime, timezone

from mesos_gpu.errors import BadInput

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = {"s": 1, "m": _MINUTE, "h": _HOUR, "d": _DAY, "w": 7 * _DAY}


def span(seconds: float) -> str:
    """Return a time as `45s`, `3m20s`, `47m`, `5h12m`, `30h`, `3d4h` or `12d`; of the past never less than 0s.

    Source: HumanDuration in k8s.io/apimachinery, pkg/util/duration/duration.go.
    """
    whole = max(0, int(seconds))
    minutes, hours, days = whole // _MINUTE, whole // _HOUR, whole // _DAY
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % _MINUTE, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _two(days, "d", hours % 24, "h") if days < 8 else f"{days}d"


def moment(text: object) -> datetime | None:
    """Return the time that Marathon (`...Z`) or Metronome (`...+0000`) wrote; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00").replace("+0000", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def ago(text: str, now_s: float) -> float:
    """Return the time that `7d` (s, m, h, d, w ago) or `2026-11-16T07:00` (local, if it has no zone) is.

    Raises BadInput.
    """
    if text[:-1].isdecimal() and text[-1:] in _UNITS:
        return max(0.0, now_s - int(text[:-1]) * _UNITS[text[-1]])
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise BadInput(f"{text!r} is no time: 90m, 12h, 7d or 4w ago, or 2026-11-16, or 2026-11-16T07:00") from None


def between(begin: object, end: object) -> str:
    """Return how long it was from one time to another, each a text or a datetime; `---` where one is not known."""
    times = [one if isinstance(one, datetime) else moment(one) for one in (begin, end)]
    return "---" if times[0] is None or times[1] is None else span((times[1] - times[0]).total_seconds())


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
