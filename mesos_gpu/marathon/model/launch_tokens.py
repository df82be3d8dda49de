"""How many tasks may be started before the cluster has shown that it copes.

Each start takes a token, each task that comes to run gives it back, and after each interval all are there again.
The flags are --launch_tokens and --launch_token_refresh_interval.
Source: Marathon core/flow/impl/OfferMatcherLaunchTokensActor.scala, core/flow/LaunchTokenConfig.scala.
"""

from __future__ import annotations

from msgspec import Struct


class LaunchTokens(Struct, frozen=True):
    """The tokens that are left, and when all are there again. `refresh_s` 0: nothing was started yet."""

    left: int = 0
    refresh_s: float = 0.0

    def at(self, now_s: float, *, most: int, interval_s: float) -> LaunchTokens:
        """Return the tokens at a time: all of them when an interval has passed."""
        return self if now_s < self.refresh_s else LaunchTokens(most, now_s + interval_s)

    def taken(self, count: int) -> LaunchTokens:
        """Return what is left after so many starts."""
        return LaunchTokens(max(0, self.left - count), self.refresh_s)

    def returned(self, *, most: int) -> LaunchTokens:
        """Return what is left after a task came to run."""
        return LaunchTokens(min(most, self.left + 1), self.refresh_s)
