"""A history of jobs, lived through under a policy on some machines, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from mesos_gpu.errors import BadInput
from mesos_gpu.placement.demand import WHOLE, Machine
from mesos_gpu.replay.cluster import ReplayedCluster, Running
from mesos_gpu.replay.jobs import CPUS_EACH, MEM_EACH, Job

POINTS = 400
"""So many points tell a course, or how waiting times are spread."""


_PATIENCE_S = 600.0
"""So long something that waits may still start when nothing runs, as offers that were refused come again."""


class Figures(Struct, frozen=True):
    """What came of a history under a policy. Times are seconds."""

    policy: str
    jobs: int
    ended: int
    gpus_used: float
    """The part of all GPU time from the first arrival to the last end that jobs held."""
    most_used: float
    """The largest part of all GPUs that was held at a time."""
    fragments: float
    """The mean part of all GPUs that was free while something waited for GPUs."""
    waited_s: float
    waited_p50_s: float
    waited_p99_s: float
    completed_s: float
    """From arrival to end, on average."""
    makespan_s: float
    course: tuple[tuple[float, int, int], ...] = ()
    """Now and then: the time, GPUs that were held, jobs that waited."""
    waits_s: tuple[float, ...] = ()
    """How long jobs waited, in order: so many of them, evenly chosen, as POINTS."""


def read_machines(rows: Iterable[Mapping[str, str]]) -> dict[str, Machine]:
    """Return the machines of a table in the form of openb's: sn, cpu_milli, memory_mib, gpu, model. Raises BadInput."""
    machines = {}
    for line, row in enumerate(rows, 2):
        try:
            cards = (WHOLE,) * int(row["gpu"])
            machines[row["sn"]] = Machine(int(row["cpu_milli"]), int(row["memory_mib"]), cards, row.get("model") or "")
        except KeyError as error:
            raise BadInput(f"line {line}: no column {error}; the columns are {', '.join(row)}") from None
        except ValueError as error:
            raise BadInput(f"line {line}: {error}") from None
    return machines


def alike(text: str) -> dict[str, Machine]:
    """Return machines that are all alike, of `16x8`, `16x8:96:512000` (CPUs and MiB) or `16x8:96:512000:A100`.

    Raises BadInput.
    """
    try:
        numbers, *rest = text.split(":")
        count, gpus = (int(part) for part in numbers.split("x"))
        cpus = float(rest[0]) if rest else CPUS_EACH * gpus / 1000
        mem = int(rest[1]) if len(rest) > 1 else MEM_EACH * gpus
    except ValueError:
        raise BadInput(
            f"{text!r}: machines are written 16x8 (16 with 8 GPUs each), 16x8:96:512000 (with 96 CPUs and 512000 MiB) "
            "or 16x8:96:512000:A100"
        ) from None
    model = rest[2] if len(rest) > 2 else ""
    return {f"{text}-{number}": Machine(int(cpus * 1000), mem, (WHOLE,) * gpus, model) for number in range(count)}


def live_through(
    machines: Mapping[str, Machine], jobs: Sequence[Job], policy: str, *, all_offers: bool = False
) -> Figures:
    """Have the cores of master and Marathon live through a history, and return what came of it.

    With `all_offers` every machine is offered for every job, as a master does; that takes as much longer. So it is
    while a job with several machines or a priority waits: their order is decided over all offers.
    """
    by_name = {str(number): job for number, job in enumerate(jobs)}
    lived = _Lived(by_name, sum(len(machine.cards) for machine in machines.values()))
    cluster = ReplayedCluster(machines, policy, lived.ran, lived.begins, all_offers=all_offers)

    def go_on(at_s: float) -> None:
        lived.goes_on(cluster.now_s, at_s, cluster.waiting)
        cluster.until(at_s)

    for name, job in by_name.items():
        while (next_s := cluster.next_s()) is not None and next_s <= job.arrival_s:
            go_on(next_s)
        go_on(job.arrival_s)
        cluster.start(name, job.demand, job.duration_s, nodes=job.nodes, priority=job.priority)
        lived.last_s = cluster.now_s
    while (next_s := cluster.next_s()) is not None:
        if not cluster.running and (not cluster.waiting or next_s > lived.last_s + _PATIENCE_S):
            break
        go_on(next_s)
    return lived.figures(policy)


class _Lived:
    """What is written down while a history is lived through. `gpus`: all that there are."""

    def __init__(self, jobs: Mapping[str, Job], gpus: int) -> None:
        self._jobs, self._gpus = jobs, gpus
        self._waited: dict[str, float] = {}
        self._completed: dict[str, float] = {}
        self._held = self._most = 0
        self._held_gpu_s = self._idle_gpu_s = self._waiting_s = self._now_s = 0.0
        self._course = _Course()
        self.last_s = 0.0
        """When something last came, began or ended."""

    def begins(self, run_id: str) -> None:
        self.last_s = self._now_s
        self._held += self._jobs[run_id].demand.gpus
        self._most = max(self._most, self._held)

    def ran(self, running: Running, now_s: float) -> None:
        job = self._jobs[running.run_id]
        self.last_s = now_s
        self._held -= job.demand.gpus
        self._waited[running.run_id] = running.since_s - job.arrival_s
        self._completed[running.run_id] = now_s - job.arrival_s
        self._held_gpu_s += job.demand.gpus * (now_s - running.since_s)

    def goes_on(self, now_s: float, at_s: float, waiting: int) -> None:
        """Take note of how it is from now until then."""
        self._now_s = at_s
        self._course.add(now_s, self._held, waiting)
        if waiting:
            self._idle_gpu_s += (self._gpus - self._held) * (at_s - now_s)
            self._waiting_s += at_s - now_s

    def figures(self, policy: str) -> Figures:
        waits, gpus = sorted(self._waited.values()), self._gpus
        return Figures(
            policy=policy,
            jobs=len(self._jobs),
            ended=len(self._completed),
            gpus_used=self._held_gpu_s / (gpus * self.last_s) if gpus and self.last_s else 0.0,
            most_used=self._most / gpus if gpus else 0.0,
            fragments=self._idle_gpu_s / (gpus * self._waiting_s) if gpus and self._waiting_s else 0.0,
            waited_s=fmean(waits) if waits else 0.0,
            waited_p50_s=_part_of(waits, 50),
            waited_p99_s=_part_of(waits, 99),
            completed_s=fmean(self._completed.values()) if self._completed else 0.0,
            makespan_s=self.last_s,
            course=tuple(self._course.points),
            waits_s=_evenly(waits),
        )


def _part_of(waits: Sequence[float], percent: int) -> float:
    return waits[len(waits) * percent // 100] if waits else 0.0


def _evenly(waits: Sequence[float]) -> tuple[float, ...]:
    return tuple(waits[at * len(waits) // POINTS] for at in range(POINTS)) if len(waits) > POINTS else tuple(waits)


class _Course:
    """Points of a course; of two, one is dropped whenever there are too many."""

    def __init__(self) -> None:
        self.points: list[tuple[float, int, int]] = []
        self._each_s = 0.0

    def add(self, at_s: float, held: int, waiting: int) -> None:
        if self.points and at_s - self.points[-1][0] < self._each_s:
            return
        self.points.append((at_s, held, waiting))
        if len(self.points) == 2 * POINTS:
            self.points = self.points[::2]
            self._each_s = at_s / POINTS
