"""Units that Mesos counts in, and how it writes durations and sizes. Its scalars `mem` and `disk` are mebibytes."""

from __future__ import annotations

import re

MIB = 1 << 20
"""A mebibyte, in bytes."""
_UNITS_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "secs": 1.0,
    "mins": 60.0,
    "hrs": 3600.0,
    "days": 86400.0,
    "weeks": 604800.0,
}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ns|us|ms|secs|mins|hrs|days|weeks)$")
_BYTES = re.compile(r"^(\d+)(B|KB|MB|GB|TB)$")
_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def parse_duration(text: str) -> float:
    """Return seconds of a Mesos duration such as `15secs` or `1.5mins`. Raises ValueError."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a duration; write a number and one of {', '.join(_UNITS_S)}, as in 15secs")
    return float(match[1]) * _UNITS_S[match[2]]


def format_duration(seconds: float) -> str:
    """Return a duration as Mesos prints it: the largest unit that leaves a whole number, `15secs`, `1mins`."""
    nanoseconds = round(seconds * 1e9)
    for unit, size in reversed(_UNITS_S.items()):
        step = round(size * 1e9)
        if nanoseconds and nanoseconds % step == 0:
            return f"{nanoseconds // step}{unit}"
    return "0ns"


def parse_bytes(text: str) -> int:
    """Return bytes of a Mesos size such as `32MB` (powers of 1024). Raises ValueError."""
    match = _BYTES.match(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a size; write a number and one of {', '.join(_SIZES)}, as in 32MB")
    return int(match[1]) * _SIZES[match[2]]
