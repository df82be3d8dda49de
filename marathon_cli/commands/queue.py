"""`mesos-gpu queue`: what waits to be launched, and what the last offers lacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from marathon_cli.changes.rollout import id_of, reasons_of
from marathon_cli.clients.marathon import Jobs, Marathon
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options, watch_options
from marathon_cli.screen.arguments import app_id
from marathon_cli.screen.output import Column, Table
from mesos_gpu.errors import NotFound, Refused
from mesos_gpu.marathon.matching.reasons import Reason

_NONE = "nothing waits to be launched"
_LIST = (
    Column("ID"),
    Column("TO LAUNCH", number=True),
    Column("WAITS FOR"),
    Column("SINCE", rank=1),
    Column("OFFERS", number=True, rank=2),
    Column("UNUSED", number=True, rank=2),
    Column("LAST UNUSED", rank=4),
    Column("LAST USED", rank=4),
    Column("ROLE", rank=3),
)
# Marathon's reasons in its own order, under what an app asks for. Source: OfferMatchReason, NoOfferMatchReason.
REASONS = (
    ("ROLE", Reason.UNFULFILLED_ROLE),
    ("CONSTRAINTS", Reason.UNFULFILLED_CONSTRAINT),
    ("RESERVATION", Reason.NO_CORRESPONDING_RESERVATION),
    ("MAINTENANCE", Reason.AGENT_MAINTENANCE),
    ("CPUS", Reason.INSUFFICIENT_CPUS),
    ("MEM", Reason.INSUFFICIENT_MEMORY),
    ("DISK", Reason.INSUFFICIENT_DISK),
    ("GPUS", Reason.INSUFFICIENT_GPUS),
    ("PORTS", Reason.INSUFFICIENT_PORTS),
    ("SCARCE", Reason.DECLINED_SCARCE_RESOURCES),
)


@click.command(name="list")
@watch_options
@output_options()
@target_options
@pass_console
def list_queue(console: Console) -> None:
    """List what waits to be launched: apps, pods, and runs of jobs."""
    marathon = console.marathon()
    jobs = Jobs(marathon)

    def look() -> None:
        found = sorted([*marathon.queue(), *_runs(jobs)], key=id_of)
        console.show(
            found, table=lambda: Table(_LIST, [_row(item) for item in found]), names=[*map(id_of, found)], none=_NONE
        )

    console.repeat(look)


@click.command()
@click.argument("name", metavar="APP")
@output_options()
@target_options
@pass_console
def summary(console: Console, name: str) -> None:
    """Show how many of the last offers met each requirement of APP, GPUs included."""
    item = _find(console.marathon(), name)
    entries = (item.get("processedOffersSummary") or {}).get("rejectSummaryLastOffers") or []
    counted = {entry.get("reason"): entry for entry in entries}
    spec = item.get("app") or item.get("pod") or {}
    rows = []
    for word, reason in REASONS:
        entry = counted.get(reason) or {}
        processed, declined = int(entry.get("processed") or 0), int(entry.get("declined") or 0)
        met = f"{processed - declined} / {processed}"
        share = f"{100 * (processed - declined) / processed:.2f}%" if processed else "---"
        rows.append([word, _asked(spec, word), met, share])
    columns = (Column("RESOURCE"), Column("REQUESTED"), Column("MATCHED", number=True), Column("SHARE", number=True))
    names = [reason.value for _, reason in REASONS if (counted.get(reason) or {}).get("declined")]
    console.show(item, table=lambda: Table(columns, rows), names=names)


@click.command()
@click.argument("name", metavar="APP")
@output_options()
@target_options
@pass_console
def details(console: Console, name: str) -> None:
    """Show the last offer of each agent that APP could not use, and what it lacked."""
    item = _find(console.marathon(), name, last_offers=True)
    offers = item.get("lastUnusedOffers") or []
    rows = [
        [
            (unused.get("offer") or {}).get("hostname"),
            *("-" if reason in (unused.get("reason") or []) else "ok" for _, reason in REASONS),
            unused.get("timestamp"),
        ]
        for unused in offers
    ]
    columns = (Column("HOSTNAME"), *(Column(word) for word, _ in REASONS), Column("RECEIVED", rank=1))
    names = [str((unused.get("offer") or {}).get("hostname")) for unused in offers]
    console.show(offers, table=lambda: Table(columns, rows), names=names)


@click.command()
@click.argument("name", metavar="APP")
@output_options()
@target_options
@pass_console
def reset(console: Console, name: str) -> None:
    """Launch APP at once, whatever delay its failures have led to."""
    wanted = app_id(name)
    console.marathon().reset_delay(wanted)
    console.tell(f"Delay on [{wanted}] has been reset", {"id": wanted}, names=[wanted])


def _find(marathon: Marathon, name: str, *, last_offers: bool = False) -> Mapping[str, Any]:
    wanted = app_id(name)
    queue = marathon.queue(last_offers=last_offers)
    for item in queue:
        if id_of(item) == wanted:
            return item
    waiting = ", ".join(id_of(item) for item in queue) or "nothing does"
    raise NotFound(f"{wanted} does not wait to be launched; what waits: {waiting}")


def _runs(jobs: Jobs) -> list[dict[str, Any]]:
    """Return the jobs of which runs wait; none from a Marathon that knows no jobs."""
    try:
        waiting = jobs.waiting()
    except (NotFound, Refused):
        return []
    return [{"job": {"id": name}, "count": count} for name, count in waiting.items()]


def _row(item: Mapping[str, Any]) -> list[object]:
    summary = item.get("processedOffersSummary") or {}
    return [
        id_of(item),
        item.get("count"),
        "; ".join(reasons_of(item)) or "an offer",
        item.get("since"),
        summary.get("processedOffersCount", 0),
        summary.get("unusedOffersCount", 0),
        summary.get("lastUnusedOfferAt", "---"),
        summary.get("lastUsedOfferAt", "---"),
        item.get("role", "---"),
    ]


def _asked(spec: Mapping[str, Any], word: str) -> str:
    """Return what an app or a pod asks for of one kind, in words."""
    if word in ("CPUS", "MEM", "DISK", "GPUS"):
        key = word.lower()
        amounts = [(container.get("resources") or {}).get(key) or 0 for container in spec.get("containers") or []]
        return f"{sum(amounts) if amounts else spec.get(key) or 0:g}"
    if word == "ROLE":
        return ", ".join(spec.get("acceptedResourceRoles") or [str(spec.get("role", "*"))])
    if word == "CONSTRAINTS":
        return "; ".join(" ".join(map(str, one)) for one in _constraints(spec)) or "---"
    if word == "PORTS":
        return (
            str(len(spec.get("portDefinitions") or (spec.get("container") or {}).get("portMappings") or [])) + " ports"
        )
    return "---"


def _constraints(spec: Mapping[str, Any]) -> Sequence[Sequence[object]]:
    placement = (spec.get("scheduling") or {}).get("placement") or {}
    of_pod = [
        [one.get("fieldName"), one.get("operator"), one.get("value", "")] for one in placement.get("constraints") or []
    ]
    return spec.get("constraints") or of_pod
