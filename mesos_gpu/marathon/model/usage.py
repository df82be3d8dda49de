"""What tasks had, and what they used of it: sums by hour, app, role and user. Values and arithmetic, exact.

Times are milliseconds since the epoch and amounts thousandths, both whole, so that sums never drift: an hour of a GPU
is 3 600 000 000. Words that people see are Slurm's where it has them (sacct, seff, sreport).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOURS_KEPT = 8 * 24
"""So many hours are kept one by one, so that a week can be asked for; older ones are kept by day (UTC),"""
DAYS_KEPT = 92
"""and so many days of them."""
NAMES_KEPT = 1000
"""So many sums an hour or a day has; of more, those with least are put together under OTHERS, by role and user."""
OTHERS = "(others)"


class Held(Struct, frozen=True):
    """What one task has, in thousandths: `mem` of MiB, `gpu_mem` of GiB of GPUs that it shares."""

    gpus: int = 0
    cpus: int = 0
    mem: int = 0
    gpu_mem: int = 0
    user: str = ""
    """Whom it runs as."""


class Who(Struct, frozen=True, order=True):
    """For whom sums are kept."""

    app: str
    role: str
    user: str

    @property
    def key(self) -> str:
        """Return a text for it; ids, roles and users have no blanks in them, but one that has stays one."""
        return "\t".join((self.app, self.role, self.user))

    @classmethod
    def of(cls, key: str) -> Who:
        """Return what `key` made a text of."""
        app, role, user = key.split("\t")
        return cls(app, role, user)


class Sum(Struct, frozen=True):
    """One sum. `..._ms`: thousandths times milliseconds; of `wall_ms` milliseconds of tasks.

    What is measured of GPUs, CPUs and memory is measured from time to time, and each has the time beside it that the
    measurements stand for (`measured_...`): so a use is a part of that, and not of what nobody has looked at.
    """

    tasks: int = 0
    """Tasks that ended in it."""
    wall_ms: int = 0
    gpu_ms: int = 0
    cpu_ms: int = 0
    mem_ms: int = 0
    gpu_mem_ms: int = 0
    measured_gpu_ms: int = 0
    busy_gpu_ms: int = 0
    idle_gpu_ms: int = 0
    """Of what was measured: GPUs that did nothing at all."""
    measured_cpu_ms: int = 0
    used_cpu_ms: int = 0
    most_mem: int = 0
    """The most memory that one task had in use, in thousandths of MiB, and"""
    mem: int = 0
    """what the one that asked for most had asked for."""
    most_gpu_mem: int = 0
    """The most memory of GPUs that one task had in use, in thousandths of MiB."""

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            **{
                name: max(getattr(self, name), getattr(other, name))
                if name in _MOST
                else getattr(self, name) + getattr(other, name)
                for name in _NAMES
            }
        )


_NAMES = Sum.__struct_fields__
_MOST = frozenset({"most_mem", "mem", "most_gpu_mem"})
NOTHING = Sum()


class Period(Struct, frozen=True):
    """The sums of a time that is over: an hour, or a day."""

    begin_ms: int
    length_ms: int
    sums: Mapping[str, Sum] = field(default_factory=dict)
    """By Who.key."""

    @property
    def key(self) -> str:
        """Return its name: hours and days of one begin differ."""
        return f"{self.begin_ms}+{self.length_ms}"

    def with_more(self, sums: Iterable[tuple[str, Sum]]) -> Period:
        """Return it with more; there are never more than NAMES_KEPT sums beside those of OTHERS."""
        found = dict(self.sums)
        for key, more in sums:
            found[key] = found.get(key, NOTHING) + more
        return Period(self.begin_ms, self.length_ms, bounded(found))


class Reading(Struct, frozen=True):
    """What was measured of a task over `period_ms`, until now."""

    period_ms: int
    cpu_ms: int | None = None
    """Time of processors that it used, in thousandths; None when the agent does not tell."""
    mem: int | None = None
    """Memory in use, in thousandths of MiB."""
    gpus: int = 0
    """How many of its GPUs told how busy they are,"""
    busy_percent: int = 0
    """the sum of that, and"""
    idle_gpus: int = 0
    """how many of them did nothing."""
    gpu_mem: int | None = None
    """Memory in use of all of its GPUs, in thousandths of MiB."""


class RunTimes(Struct, frozen=True):
    """How long the last one-off runs of one kind took, in seconds, and when the latest of them ended."""

    times_s: tuple[float, ...]
    latest_s: float = 0.0


def milliseconds(seconds: float) -> int:
    """Return a time in whole milliseconds."""
    return round(seconds * 1000)


def of_interval(held: Held, begin_ms: int, end_ms: int) -> Sum:
    """Return the sum of having something for a time; below nothing for a time that runs backwards: it is taken away."""
    lasted = end_ms - begin_ms
    return Sum(
        wall_ms=lasted,
        gpu_ms=held.gpus * lasted,
        cpu_ms=held.cpus * lasted,
        mem_ms=held.mem * lasted,
        gpu_mem_ms=held.gpu_mem * lasted,
        mem=held.mem,
    )


def by_hour(begin_ms: int, end_ms: int) -> Iterator[tuple[int, int, int]]:
    """Yield the hours that a time touches: the begin of the hour, and what of it the time is; backwards as well."""
    if end_ms < begin_ms:
        for hour_ms, first, last in by_hour(end_ms, begin_ms):
            yield hour_ms, last, first
        return
    at = begin_ms
    while at < end_ms:
        hour_ms = hour_of(at)
        until = min(end_ms, hour_ms + HOUR_MS)
        yield hour_ms, at, until
        at = until


def hour_of(at_ms: int) -> int:
    """Return the begin of the hour in which a time is."""
    return at_ms - at_ms % HOUR_MS


def of_reading(held: Held, reading: Reading) -> Sum:
    """Return the sum of what was measured."""
    period = reading.period_ms
    return Sum(
        measured_gpu_ms=reading.gpus * 1000 * period,
        busy_gpu_ms=reading.busy_percent * 10 * period,
        idle_gpu_ms=reading.idle_gpus * 1000 * period,
        measured_cpu_ms=0 if reading.cpu_ms is None else held.cpus * period,
        used_cpu_ms=reading.cpu_ms or 0,
        most_mem=reading.mem or 0,
        mem=held.mem,
        most_gpu_mem=reading.gpu_mem or 0,
    )


def bounded(sums: Mapping[str, Sum], most: int = NAMES_KEPT) -> Mapping[str, Sum]:
    """Return the sums, those beyond `most` together under OTHERS, by role and user; nothing is lost of the total."""
    mine = [key for key in sums if Who.of(key).app != OTHERS]
    if len(mine) <= most:
        return sums
    mine.sort(key=lambda key: (-sums[key].gpu_ms, -sums[key].cpu_ms, key))
    found = {key: each for key, each in sums.items() if key in set(mine[:most]) or Who.of(key).app == OTHERS}
    for key in mine[most:]:
        who = Who.of(key)
        other = Who(OTHERS, who.role, who.user).key
        found[other] = found.get(other, NOTHING) + sums[key]
    return found
