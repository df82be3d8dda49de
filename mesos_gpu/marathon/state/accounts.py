"""What the books say that tasks have had: what is on the account, and what lives and is not on it yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.model.usage import HOUR_MS, NOTHING, Held, Sum, Who, hour_of, milliseconds, of_interval
from mesos_gpu.marathon.state.state import Books
from mesos_gpu.mesos.resource import milli


class Meter(Struct, frozen=True):
    """A task that holds something: since when that is not counted, and whether it counts as it goes on."""

    task: Task
    held: Held
    runs: bool


def pending(books: Books, instance: Instance, now_ms: int) -> tuple[Held, int, int] | None:
    """Return what an instance has that is not on the account yet, from when, until now; None for nothing."""
    meter = meter_of(books, instance)
    if meter is None or not meter.runs:
        return None
    begin_ms = begin_ms_of(books, meter)
    return (meter.held, begin_ms, now_ms) if now_ms > begin_ms else None


def who(instance: Instance, held: Held) -> Who:
    """Return for whom the sums of an instance are kept: runs of a job are the job's."""
    run = run_of(instance.app_id)
    return Who(instance.app_id if run is None else run[0], str(instance.role), held.user)


def meter_of(books: Books, instance: Instance | None) -> Meter | None:
    """Return what an instance has by its task; None for nothing."""
    if instance is None or instance.task is None or not instance.active:
        return None
    task = instance.task
    held = task.held
    if held is None:  # it was started by a version that did not count
        spec = books.spec_of(instance)
        if spec is None:
            return None
        asked = {name: milli(spec.document.get(name, 0)) for name in ("gpus", "cpus", "mem")}
        held = Held(**asked, user=str(spec.document.get("user") or ""))
    if task.away:
        held = replace(held, gpus=0)
    return Meter(task, held, instance.phase is not Phase.UNREACHABLE)


def begin_ms_of(books: Books, meter: Meter) -> int:
    """Return from when on a task is not on the account yet."""
    own_ms = milliseconds(max(meter.task.staged_at_s, meter.task.counted_s))
    if not meter.runs or books.counted_until_s is None:
        return own_ms
    return max(own_ms, milliseconds(books.counted_until_s))


def split(key: str) -> tuple[int, str]:
    """Return the hour of a sum that is still open, and Who.key."""
    hour, _, owner = key.partition("\t")
    return int(hour), owner


def totals(books: Books, since_ms: int, now_ms: int) -> Mapping[Who, Sum]:
    """Return all sums since a time, what is not on the account yet included; of hours and days that it cuts, all."""
    found: dict[Who, Sum] = {}

    def add(owner: Who, more: Sum) -> None:
        found[owner] = found.get(owner, NOTHING) + more

    for period in books.usage.values():
        if period.begin_ms + period.length_ms > since_ms:
            for key, each in period.sums.items():
                add(Who.of(key), each)
    for key, each in books.usage_open.items():
        hour_ms, owner = split(key)
        if hour_ms + HOUR_MS > since_ms:
            add(Who.of(owner), each)
    for instance in books.instances.values():
        live = pending(books, instance, now_ms)
        if live is not None:
            held, begin_ms, end_ms = live
            begin_ms = max(begin_ms, hour_of(since_ms))
            add(who(instance, held), of_interval(held, begin_ms, max(begin_ms, end_ms)))
    return found
