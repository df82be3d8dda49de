"""When something happens: the time that a deciding core is handed with each event."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happens: `mono_s` for clocks that must not jump, `wall_s` (Unix time) for what others read."""

    mono_s: float
    wall_s: float
