"""What the passing of time brings. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mesos_gpu.mesos.ids import FrameworkId


class Timer:
    """Something is due."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tick(Timer):
    """One allocation interval is over: refusals and offers may have run out."""


@dataclass(frozen=True, slots=True)
class Allocate(Timer):
    """What changed in this turn of the loop is through: offer what is free."""


@dataclass(frozen=True, slots=True)
class FailoverExpired(Timer):
    """A framework's time to come back is over, unless it subscribed since: then its epoch is another."""

    framework_id: FrameworkId
    epoch: int


@dataclass(frozen=True, slots=True)
class CollectRegistry(Timer):
    """`--registry_gc_interval` is over: agents that were away for too long may be forgotten."""


TimerEvent: TypeAlias = Tick | Allocate | FailoverExpired | CollectRegistry
