"""A history of jobs, read from rows of CSV, lived through under a policy, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from mesos_gpu.errors import BadInput
from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.replay.cluster import ReplayedCluster, Running

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "arrival": ("arrival_s", "creation_time", "submitted_time", "submit_time"),
    "end": ("end_s", "deletion_time"),
    "start": ("start_s", "scheduled_time"),
    "duration": ("duration_s", "duration"),
    "gpus": ("gpus", "num_gpu", "num_gpus", "gpu_num"),
    "cpus_milli": ("cpu_milli",),
    "cpus": ("cpus", "num_cpus"),
    "mem": ("mem_mib", "memory_mib"),
    "share": ("gpu_milli",),
    "models": ("gpu_model", "gpu_spec"),
}
"""Names by which columns are known: our own first, then those of openb's pod lists and of tables made of Philly's."""
_CPUS_EACH, _MEM_EACH = 4000, 16384
"""What a job takes for each GPU where the history does not say."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a history. Times are seconds; `arrival_s` counts from the first one's."""

    name: str
    arrival_s: float
    duration_s: float
    demand: Demand


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


def read_jobs(rows: Iterable[Mapping[str, str]]) -> tuple[list[Job], int]:
    """Return the jobs of a history, in the order of arrival, and how many asked for a part of a GPU.

    Those take a whole one, as offers are of whole ones. Raises BadInput, which names the line.
    """
    jobs: list[Job] = []
    parts = 0
    for line, row in enumerate(rows, 2):
        try:
            job, part = _job(row, line)
        except ValueError as error:
            raise BadInput(f"line {line}: {error}") from None
        parts += part
        jobs.append(job)
    if not jobs:
        raise BadInput("there is no job in it; each line after the first is one, the first names the columns")
    first_s = min(job.arrival_s for job in jobs)
    moved = [Job(job.name, job.arrival_s - first_s, job.duration_s, job.demand) for job in jobs]
    return sorted(moved, key=lambda job: job.arrival_s), parts


def _job(row: Mapping[str, str], line: int) -> tuple[Job, bool]:
    arrival_s = _needed(row, "arrival")
    duration_s = _given(row, "duration")
    if duration_s is None:
        began_s = _given(row, "start")
        duration_s = _needed(row, "end") - (arrival_s if began_s is None else began_s)
    if duration_s < 0:
        raise ValueError(f"it ends {-duration_s:g} s before it starts")
    gpus = int(_needed(row, "gpus"))
    share = _given(row, "share")
    milli, cpus, mem = _given(row, "cpus_milli"), _given(row, "cpus"), _given(row, "mem")
    if milli is None:
        milli = _CPUS_EACH * max(gpus, 1) if cpus is None else cpus * 1000
    models = frozenset((_text(row, "models") or "").split("|")) - {""}
    demand = Demand(
        int(milli),
        int(_MEM_EACH * max(gpus, 1) if mem is None else mem),
        gpus,
        models=models if gpus else frozenset(),
    )
    name = row.get("name") or str(line)
    return Job(name, arrival_s, duration_s, demand), gpus == 1 and share is not None and 0 < share < WHOLE


def _text(row: Mapping[str, str], column: str) -> str | None:
    return next((row[name] for name in COLUMNS[column] if row.get(name)), None)


def _given(row: Mapping[str, str], column: str) -> float | None:
    text = _text(row, column)
    return None if text is None else float(text)


def _needed(row: Mapping[str, str], column: str) -> float:
    number = _given(row, column)
    if number is None:
        raise ValueError(f"nothing under {' or '.join(COLUMNS[column])}; the columns are {', '.join(row)}")
    return number


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
        cpus = float(rest[0]) if rest else _CPUS_EACH * gpus / 1000
        mem = int(rest[1]) if len(rest) > 1 else _MEM_EACH * gpus
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

    With `all_offers` every machine is offered for every job, as a master does; that takes as much longer.
    """
    by_name = {str(number): job for number, job in enumerate(jobs)}
    total = sum(len(machine.cards) for machine in machines.values())
    waited: dict[str, float] = {}
    completed: dict[str, float] = {}
    held_gpu_s = 0.0
    held = 0

    def begins(run_id: str) -> None:
        nonlocal held
        held += by_name[run_id].demand.gpus

    def ran(running: Running, now_s: float) -> None:
        nonlocal held_gpu_s, held
        job = by_name[running.run_id]
        held -= job.demand.gpus
        waited[running.run_id] = running.since_s - job.arrival_s
        completed[running.run_id] = now_s - job.arrival_s
        held_gpu_s += job.demand.gpus * (now_s - running.since_s)

    cluster = ReplayedCluster(machines, policy, ran, begins, all_offers=all_offers)
    most = 0.0
    idle_s = waiting_s = 0.0

    def go_on(at_s: float) -> None:
        nonlocal most, idle_s, waiting_s
        most = max(most, held)
        if cluster.waiting:
            idle_s += (total - held) * (at_s - cluster.now_s)
            waiting_s += at_s - cluster.now_s
        cluster.until(at_s)

    for name, job in by_name.items():
        while (next_s := cluster.next_s()) is not None and next_s <= job.arrival_s:
            go_on(next_s)
        go_on(job.arrival_s)
        cluster.start(name, job.demand, job.duration_s)
    while cluster.running and (next_s := cluster.next_s()) is not None:
        go_on(next_s)
    makespan_s = cluster.now_s
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
    )
