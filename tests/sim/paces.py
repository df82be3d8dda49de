"""How dense a history is: events by the minute, by the hour, or in bursts with quiet hours between them.

What a service does after an hour (backs off, gives up a framework, an agent or an executor, forgets) is not seen in
half an hour of many events; what two events do that come together is not seen where they are rare.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from random import Random

LONGEST_JOB_S = 1200.0
"""A run of a job ends so soon that it has done so before the judgement."""
LONGEST_PAUSE_S = 900
"""What is to run then has not to wait for longer for its next start."""


AWAY_S = 30.0


@dataclass(frozen=True)
class Pace:
    """`often`: how many histories have it. `hours`: how many there are for each hour of a dense history.

    `rarer`: how many times as long pauses are, but in bursts, where they are the same. `burst_s`, `quiet_s`: how long
    bursts last, and what is between them, in the mean. `longest`: how many times as long something may last. `cron` and
    `every_s`: when jobs with a schedule begin.
    """

    name: str
    often: float
    hours: float = 1.0
    rarer: float = 1.0
    burst_s: float = 0.0
    quiet_s: float = math.inf
    longest: float = 1.0
    checks: float = 1.0
    """How many times as long is between two health checks."""
    cron: str = "*/3 * * * *"
    every_s: float = 180.0
    failover_s: float = 604_800.0
    """How long a framework may be away."""
    away_s: float = AWAY_S
    """How long at most a framework goes away by itself."""
    backoff: tuple[float, int] = (1.15, 30)
    """By what factor an app is started later after each failure, and after so many seconds at most."""

    @property
    def dense(self) -> bool:
        """Tell whether it is as histories were before there were others."""
        return self.hours == 1.0


_LONG = {
    "checks": 4.0,
    "cron": "*/10 * * * *",
    "every_s": 600.0,
    "failover_s": 5400.0,
    "away_s": 7200.0,
    "backoff": (2.0, 3600),
}
PACES = {
    pace.name: pace
    for pace in (
        Pace("dense", 0.5),
        Pace("calm", 0.25, hours=24.0, rarer=40.0, longest=12.0, **_LONG),  # type: ignore[arg-type]
        Pace("slow", 0.25, hours=16.0, rarer=60.0, burst_s=420.0, quiet_s=5400.0, longest=24.0, **_LONG),  # type: ignore[arg-type]
    )
}


def pace_of(seed: int) -> Pace:
    """Return the pace of a seed."""
    paces = list(PACES.values())
    return Random(f"pace of {seed}").choices(paces, [pace.often for pace in paces])[0]


class Pacing:
    """What a pace makes of the pauses and spans of one history. In a dense one all are what they are."""

    def __init__(self, pace: Pace, seed: int) -> None:
        self.pace, self.until_s = pace, math.inf
        """The pace; and when faults end."""
        self._chance = Random(f"spans of {seed}")
        self._bursts = Random(f"bursts of {seed}")
        self._spells: list[tuple[float, float]] = []
        """When each spell ends, and how many times as long pauses are in it, as far as anybody has asked."""

    def pause(self, now_s: float, seconds: float) -> float:
        """Return how long a pause is that begins now, and is of so many seconds in a dense history."""
        if self.pace.dense:
            return seconds
        at_s, left_s = now_s, seconds
        for number in itertools.count():
            ends_s, rarer = self._spell(number)
            if ends_s <= at_s:
                continue
            if at_s + left_s * rarer <= ends_s:
                break
            left_s -= (ends_s - at_s) / rarer
            at_s = ends_s
        return at_s + left_s * rarer - now_s

    def _spell(self, number: int) -> tuple[float, float]:
        while len(self._spells) <= number:
            begins_s = self._spells[-1][0] if self._spells else 0.0
            in_burst = len(self._spells) % 2 == 1
            mean_s = self.pace.burst_s if in_burst else self.pace.quiet_s
            lasts_s = math.inf if mean_s == math.inf else self._bursts.expovariate(1 / mean_s)
            self._spells.append((begins_s + lasts_s, 1.0 if in_burst else self.pace.rarer))
        return self._spells[number]

    def lasts(self, now_s: float, seconds: float) -> float:
        """Return how long a fault lasts that is of so many seconds in a dense history; no longer than faults do."""
        if self.pace.dense or self._chance.random() < 0.5:
            return seconds
        return min(self.life(seconds), max(seconds, self.until_s - now_s))

    def away_s(self, now_s: float) -> float:
        """Return how long at most a framework goes away by itself; it is there when faults end."""
        return min(self.pace.away_s, max(AWAY_S, self.until_s - now_s))

    def life(self, seconds: float) -> float:
        """Return how long something lives that lives for so many seconds in a dense history."""
        if self.pace.dense:
            return seconds
        return float(seconds * math.exp(self._chance.uniform(0.0, math.log(self.pace.longest))))

    def backoff(self, *, lasting: bool) -> tuple[float, int]:
        """Return by what factor and to how many seconds pauses grow; those of what is to last are over by the end."""
        factor, most_s = self.pace.backoff
        return factor, min(most_s, LONGEST_PAUSE_S) if lasting else most_s

    def job(self, seconds: float) -> float:
        """Return the same for a run of a job."""
        return min(self.life(seconds), max(seconds, LONGEST_JOB_S))
