"""Sizes, amounts, durations and times as users read and write them. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.units import MIB

if TYPE_CHECKING:
    from fractions import Fraction

NONE = "---"
"""What a table shows for a value that is not known."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = {"s": 1, "m": _MINUTE, "h": _HOUR, "d": _DAY, "w": 7 * _DAY}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SIZE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kmgt]?)(?:i?b)?")
_SIZES = {letter: 1024**power for power, letter in enumerate(["", *"kmgt"])}


def amount(value: object, unit: str = "", digits: int = 0) -> str:
    """Return a number with its unit, or `---` for a value that is none."""
    return f"{float(value):.{digits}f}{unit and ' '}{unit}" if isinstance(value, (int, float)) else NONE


def mebibytes(value: object) -> str:
    """Return a number of MiB, or `---`."""
    return amount(value, "MiB")


def size(value: object) -> str:
    """Return a number of bytes in MiB, or `---`."""
    return amount(value / MIB, "MiB", 1) if isinstance(value, (int, float)) else NONE


def read_size(text: str) -> Fraction:
    """Return bytes of a size as Docker writes it: `512m`, `1.5g`, `1gb`, `20GiB`; without a unit, bytes.

    Raises ValueError.
    """
    from fractions import Fraction

    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 512m or 1.5g")
    return Fraction(found[1]) * int(_SIZES[found[2]])


def read_span(text: str) -> float:
    """Return seconds of `45s`, `90m`, `12h`, `7d` or `4w`. Raises ValueError."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 12h or 7d")
    return float(found[1]) * _UNITS[found[2]]


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
    if _SPAN.fullmatch(text):
        return max(0.0, now_s - read_span(text))
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise BadInput(f"{text!r} is no time: 90m, 12h, 7d or 4w ago, or 2026-11-16, or 2026-11-16T07:00") from None


def between(begin: object, end: object) -> str:
    """Return how long it was from one time to another, each a text or a datetime; `---` where one is not known."""
    times = [one if isinstance(one, datetime) else moment(one) for one in (begin, end)]
    return NONE if times[0] is None or times[1] is None else span((times[1] - times[0]).total_seconds())


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
