"""A history of jobs, lived through under a policy on some machines, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from mesos_gpu.errors import BadInput
from mesos_gpu.placement.demand import WHOLE, Machine
from mesos_gpu.replay.cluster import ReplayedCluster, Running
from mesos_gpu.replay.jobs import CPUS_EACH, MEM_EACH, Job

POINTS = 400
"""So many points tell a course, or how waiting times are spread."""


_PATIENCE_S = 600.0
"""So long something that waits may still start when nothing runs, as offers that were refused come again."""


@dataclass(frozen=True, slots=True)
class Figures:
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
    where jobs have several machines or priorities: the order of what waits is decided over all offers.
    """
    all_offers = all_offers or any(job.nodes > 1 or job.priority for job in jobs)
    by_name = {str(number): job for number, job in enumerate(jobs)}
    total = sum(len(machine.cards) for machine in machines.values())
    waited: dict[str, float] = {}
    completed: dict[str, float] = {}
    held_gpu_s = last_s = 0.0
    held = 0

    def begins(run_id: str) -> None:
        nonlocal held, last_s
        last_s = cluster.now_s
        held += by_name[run_id].demand.gpus

    def ran(running: Running, now_s: float) -> None:
        nonlocal held_gpu_s, held, last_s
        last_s = now_s
        job = by_name[running.run_id]
        held -= job.demand.gpus
        waited[running.run_id] = running.since_s - job.arrival_s
        completed[running.run_id] = now_s - job.arrival_s
        held_gpu_s += job.demand.gpus * (now_s - running.since_s)

    cluster = ReplayedCluster(machines, policy, ran, begins, all_offers=all_offers)
    most, course = 0.0, _Course()
    idle_s = waiting_s = 0.0

    def go_on(at_s: float) -> None:
        nonlocal most, idle_s, waiting_s
        most = max(most, held)
        course.add(cluster.now_s, held, cluster.waiting)
        if cluster.waiting:
            idle_s += (total - held) * (at_s - cluster.now_s)
            waiting_s += at_s - cluster.now_s
        cluster.until(at_s)

    for name, job in by_name.items():
        while (next_s := cluster.next_s()) is not None and next_s <= job.arrival_s:
            go_on(next_s)
        go_on(job.arrival_s)
        cluster.start(name, job.demand, job.duration_s, nodes=job.nodes, priority=job.priority)
        last_s = cluster.now_s
    while (next_s := cluster.next_s()) is not None and (
        cluster.running or (cluster.waiting and next_s <= last_s + _PATIENCE_S)
    ):
        go_on(next_s)
    makespan_s = last_s
    waits = sorted(waited.values())
    return Figures(
        policy=policy,
        jobs=len(jobs),
        ended=len(completed),
        gpus_used=held_gpu_s / (total * makespan_s) if total and makespan_s else 0.0,
        most_used=most / total if total else 0.0,
        fragments=idle_s / (total * waiting_s) if total and waiting_s else 0.0,
        waited_s=fmean(waits) if waits else 0.0,
        waited_p50_s=waits[len(waits) // 2] if waits else 0.0,
        waited_p99_s=waits[len(waits) * 99 // 100] if waits else 0.0,
        completed_s=fmean(completed.values()) if completed else 0.0,
        makespan_s=makespan_s,
        course=tuple(course.points),
        waits_s=tuple(waits[at * len(waits) // POINTS] for at in range(POINTS))
        if len(waits) > POINTS
        else tuple(waits),
    )


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
