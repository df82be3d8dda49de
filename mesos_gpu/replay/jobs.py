"""Jobs of a history: read from rows of CSV or from Philly's own log, and drawn from those when more are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.errors import BadInput
from mesos_gpu.placement.demand import WHOLE, Demand

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "arrival": ("arrival_s", "creation_time", "submitted_time", "submit_time"),
    "end": ("end_s", "deletion_time", "end_time"),
    "start": ("start_s", "scheduled_time", "start_time"),
    "duration": ("duration_s", "duration"),
    "gpus": ("gpus", "num_gpu", "num_gpus", "gpu_num"),
    "nodes": ("nodes", "num_nodes", "node_num"),
    "priority": ("priority",),
    "cpus_milli": ("cpu_milli",),
    "cpus": ("cpus", "num_cpus"),
    "mem": ("mem_mib", "memory_mib"),
    "share": ("gpu_milli",),
    "models": ("gpu_model", "gpu_spec"),
}
"""Names by which columns are known: our own first, then those of openb's pod lists and of tables made of Philly's."""
CPUS_EACH, MEM_EACH = 4000, 16384
"""What a job takes for each GPU where the history does not say: thousandths of a CPU, MiB."""
_DATE = "%Y-%m-%d %H:%M:%S"
_T = TypeVar("_T")
_PRIORITIES = (-100, 100)


class Job(Struct, frozen=True):
    """One job of a history. Times are seconds; `arrival_s` counts from the first one's.

    `demand` is that of one member; it runs on `nodes` machines at once, or not at all.
    """

    name: str
    arrival_s: float
    duration_s: float
    demand: Demand
    nodes: int = 1
    priority: int = 0

    @property
    def gpus(self) -> int:
        """Return the GPUs of all its members."""
        return self.demand.gpus * self.nodes


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
    moved = [replace(job, arrival_s=job.arrival_s - first_s) for job in jobs]
    return sorted(moved, key=lambda job: job.arrival_s), parts


def _job(row: Mapping[str, str], line: int) -> tuple[Job, bool]:
    arrival_s = _needed(row, "arrival")
    duration_s = _given(row, "duration")
    if duration_s is None:
        began_s = _given(row, "start")
        duration_s = _needed(row, "end") - (arrival_s if began_s is None else began_s)
    if duration_s < 0:
        raise ValueError(f"it ends {-duration_s:g} s before it starts")
    asked, nodes = int(_needed(row, "gpus")), int(_given(row, "nodes") or 1)
    if nodes < 1 or asked % nodes:
        raise ValueError(f"{asked} GPUs on {nodes} machines: they must be so many on each")
    gpus, share = asked // nodes, _given(row, "share")
    milli, cpus, mem = _given(row, "cpus_milli"), _given(row, "cpus"), _given(row, "mem")
    if milli is None:
        milli = CPUS_EACH * max(gpus, 1) if cpus is None else cpus * 1000
    models = frozenset((_text(row, "models") or "").split("|")) - {""}
    demand = Demand(
        int(milli),
        int(MEM_EACH * max(gpus, 1) if mem is None else mem),
        gpus,
        models=models if gpus else frozenset(),
    )
    priority = int(_given(row, "priority") or 0)
    if not _PRIORITIES[0] <= priority <= _PRIORITIES[1]:
        raise ValueError(f"priority {priority}: it is {_PRIORITIES[0]} to {_PRIORITIES[1]}")
    name = row.get("name") or str(line)
    part = gpus == 1 and share is not None and 0 < share < WHOLE
    return Job(name, arrival_s, duration_s, demand, nodes, priority), part


def _text(row: Mapping[str, str], column: str) -> str | None:
    return next((row[name] for name in COLUMNS[column] if row.get(name)), None)


def _given(row: Mapping[str, str], column: str) -> float | None:
    text = _text(row, column)
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        if column in ("arrival", "start", "end"):
            return _date_s(text)
        raise


def _date_s(text: str) -> float:
    return datetime.strptime(text.split("+")[0].strip(), _DATE).replace(tzinfo=timezone.utc).timestamp()


def _needed(row: Mapping[str, str], column: str) -> float:
    number = _given(row, column)
    if number is None:
        raise ValueError(f"nothing under {' or '.join(COLUMNS[column])}; the columns are {', '.join(row)}")
    return number


def philly_rows(log: object) -> list[dict[str, str]]:
    """Return the rows of Philly's `cluster_job_log` (github.com/msr-fiddle/philly-traces), which is JSON.

    A job arrives at its `submitted_time`, takes from its first attempt's start to its last one's end, and is on as many
    machines as in its first attempt, with as many GPUs on each as on the one that had most. Those that never ran are
    left out. Raises BadInput.
    """
    if not isinstance(log, list):
        raise BadInput("JSON is read in the form of Philly's cluster_job_log: a list of jobs with `attempts`")
    rows = []
    for place, job in enumerate(log):
        try:
            row = _philly_row(job)
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"job {place + 1} is not in the form of Philly's cluster_job_log: {error!r}") from None
        rows += [] if row is None else [row]
    return rows


def _philly_row(job: Mapping[str, Any]) -> dict[str, str] | None:
    attempts = [a for a in job["attempts"] if a.get("start_time") not in (None, "None")]
    ended = [a for a in attempts if a.get("end_time") not in (None, "None")]
    machines = attempts[0]["detail"] if attempts else []
    if not ended or not machines:
        return None
    each = max(len(machine["gpus"]) for machine in machines)
    return {
        "name": str(job["jobid"]),
        "submitted_time": str(job["submitted_time"]),
        "start_time": str(attempts[0]["start_time"]),
        "end_time": str(ended[-1]["end_time"]),
        "gpus": str(each * len(machines)),
        "nodes": str(len(machines)),
    }


class Chance(Protocol):
    """What is drawn from: random.Random is one."""

    def choice(self, seq: Sequence[_T], /) -> _T:
        """Return one of these."""

    def expovariate(self, lambd: float, /) -> float:
        """Return a time until something happens that happens so often in a second."""


def drawn(jobs: Sequence[Job], count: int, gpus: int, load: float, chance: Chance) -> list[Job]:
    """Return so many jobs of the sizes, durations and so on of a history, arriving by chance (a Poisson process).

    In the long run they ask for `load` times all GPUs that there are (`gpus`). The same chance gives the same jobs.
    """
    work_gpu_s = sum(job.gpus * job.duration_s for job in jobs) / len(jobs)
    gap_s = work_gpu_s / (load * gpus) if gpus else 0.0
    at_s, found = 0.0, list[Job]()
    for number in range(count):
        job = chance.choice(jobs)
        found.append(replace(job, name=str(number), arrival_s=at_s))
        at_s += chance.expovariate(1 / gap_s) if gap_s else 1.0
    return found
