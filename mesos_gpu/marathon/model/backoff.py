"""How long an app that keeps ending waits before its next start.

Source: Marathon core/launchqueue/impl/RateLimiter.scala.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec


class Backoff(Struct, frozen=True):
    """The delay of one configuration of an app; instances of another configuration do not wait for it."""

    config_version: str
    delay_s: float
    reference_s: float
    """The delay counts from here: the last end, or the last sign of life of an instance."""
    max_delay_s: float

    @property
    def until_s(self) -> float:
        """Return when the next instance may start."""
        return self.reference_s + self.delay_s

    def forgotten(self, now_s: float) -> bool:
        """Return whether the app has lived so long without failing that its past no longer counts."""
        return now_s > self.reference_s + self.max_delay_s

    def advanced(self, now_s: float) -> Backoff:
        """Return the same delay, counted from a sign of life at `now_s`."""
        return replace(self, reference_s=now_s)


def after_failure(known: Backoff | None, spec: RunSpec, now_s: float) -> Backoff:
    """Return the backoff after one more end of a task: the first delay, or the last one times the factor."""
    longest = float(spec.document["maxLaunchDelaySeconds"])
    if known is None or known.config_version != spec.config_version or known.forgotten(now_s):
        delay = float(spec.document["backoffSeconds"])
    else:
        delay = known.delay_s * float(spec.document["backoffFactor"])
    return Backoff(spec.config_version, min(longest, delay), now_s, longest)


def ready_at(known: Backoff | None, spec: RunSpec) -> float:
    """Return when instances of `spec` may start; 0 when at once."""
    return known.until_s if known is not None and known.config_version == spec.config_version else 0.0
