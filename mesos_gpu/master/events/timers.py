"""What the passing of time brings. Values only."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from mesos_gpu.mesos.ids import FrameworkId


class Timer(Struct, frozen=True):
    """Something is due."""


class Tick(Timer, frozen=True):
    """One allocation interval is over: refusals and offers may have run out."""


class Allocate(Timer, frozen=True):
    """What changed in this turn of the loop is through: offer what is free."""


class FailoverExpired(Timer, frozen=True):
    """A framework's time to come back is over, unless it subscribed since: then its epoch is another."""

    framework_id: FrameworkId
    epoch: int


class CollectRegistry(Timer, frozen=True):
    """`--registry_gc_interval` is over: agents that were away for too long may be forgotten."""


TimerEvent: TypeAlias = Tick | Allocate | FailoverExpired | CollectRegistry
