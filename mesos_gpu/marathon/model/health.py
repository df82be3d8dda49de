"""What is known about the health of a task: results of its checks, and what follows from them.

Marathon runs HTTP, HTTPS and TCP checks itself (prober.py); COMMAND and MESOS_* are run by the executor, whose verdict
comes with task statuses.

Source: Marathon core/health/Health.scala, core/health/impl/HealthCheckActor.scala.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

Results = Mapping[int, "Health"]
"""By the place of the check in the app's `healthChecks`."""


class Health(Struct, frozen=True):
    """The results of one check of one task. Times are seconds since the epoch."""

    first_success_s: float | None = None
    last_success_s: float | None = None
    last_failure_s: float | None = None
    last_failure_cause: str | None = None
    consecutive_failures: int = 0
    status_uuid: str | None = None
    """The status that told the last result, where it came with one: agents send it again until it is acknowledged."""

    @property
    def alive(self) -> bool:
        """Return whether the last result was good."""
        return self.last_success_s is not None and self.consecutive_failures == 0

    def after_success(self, now_s: float) -> Health:
        """Return this and a success."""
        return replace(
            self,
            first_success_s=now_s if self.first_success_s is None else self.first_success_s,
            last_success_s=now_s,
            consecutive_failures=0,
        )

    def after_failure(self, now_s: float, cause: str) -> Health:
        """Return this and a failure."""
        return replace(
            self,
            last_failure_s=now_s,
            last_failure_cause=cause,
            consecutive_failures=self.consecutive_failures + 1,
        )


def is_mesos_level(check: Mapping[str, Any]) -> bool:
    """Return whether the executor runs this check, and not Marathon."""
    protocol = str(check["protocol"])
    return protocol == "COMMAND" or protocol.startswith("MESOS_")


def mesos_level(checks: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the place of the one check that is sent to Mesos: the first of those it runs. None without any."""
    return next((index for index, check in enumerate(checks) if is_mesos_level(check)), None)


def ignores_failure(check: Mapping[str, Any], known: Health, started_s: float | None, now_s: float) -> bool:
    """Return whether a failure does not count: the task is not running, or has never been well and is within grace."""
    if started_s is None:
        return True
    return known.first_success_s is None and now_s < started_s + float(check["gracePeriodSeconds"])


def must_end(check: Mapping[str, Any], before: Health, after: Health) -> bool:
    """Return whether a failure is the one that ends the task.

    Checks of Marathon's own look at the streak before this failure: a task goes at failure maxConsecutiveFailures
    + 1, and 0 means never. Mesos-level ones look at the streak with it, so 0 ends a task at its first failure.
    """
    limit = int(check["maxConsecutiveFailures"])
    if is_mesos_level(check):
        return after.consecutive_failures >= limit
    return 0 < limit <= before.consecutive_failures


def verdict(results: Results | None) -> bool | None:
    """Return whether a task is healthy: every result is good. None while there is no result."""
    return all(health.alive for health in results.values()) if results else None
