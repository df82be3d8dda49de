"""`mesos-gpu job schedule`: when a job runs by itself."""

from __future__ import annotations

from typing import Any

import click

from marathon_cli.api.jobs import Jobs
from marathon_cli.changes.metronome import explained, jobs_of, known
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.document import check
from marathon_cli.document.definitions import without
from marathon_cli.document.properties import parse_properties, with_properties
from marathon_cli.screen.names import nearest
from marathon_cli.screen.output import Column, Table
from mesos_gpu.errors import BadInput, NotFound

_SCHEDULES = (
    Column("ID"),
    Column("CRON"),
    Column("TIMEZONE"),
    Column("ENABLED"),
    Column("NEXT RUN"),
    Column("CONCURRENCY", rank=1),
    Column("DEADLINE S", number=True, rank=1),
)
name_argument = click.argument("name", metavar="JOB")


@click.command(name="list")
@name_argument
@output_options()
@target_options
@pass_console
@explained
def list_schedules(console: Console, name: str) -> None:
    """List the schedules of JOB."""
    jobs = jobs_of(console)
    known(jobs, name)
    found = jobs.schedules(name)
    rows = [
        [
            one.get("id"),
            one.get("cron"),
            one.get("timezone", "UTC"),
            str(one.get("enabled", True)).lower(),
            one.get("nextRunAt", "---"),
            one.get("concurrencyPolicy", "ALLOW"),
            one.get("startingDeadlineSeconds", "---"),
        ]
        for one in found
    ]
    console.show(
        found,
        table=lambda: Table(_SCHEDULES, rows),
        names=[str(one.get("id")) for one in found],
        none=f"no schedules; `mesos-gpu job schedule add {name} --cron '0 3 * * *'` adds one",
    )


@click.command(name="add")
@name_argument
@click.argument("file", required=False)
@click.option("--cron", metavar="CRON", help="When it runs, such as '0 3 * * *'; in place of a file.")
@click.option(
    "--id",
    "schedule_id",
    default="default",
    show_default=True,
    metavar="ID",
    help="With --cron: the name of the schedule.",
)
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="With --cron: its time zone, such as Europe/Berlin.",
)
@output_options()
@target_options
@pass_console
@explained
def add_schedule(
    console: Console, name: str, file: str | None, cron: str | None, schedule_id: str, timezone: str
) -> None:
    """Add a schedule to JOB: that of FILE (JSON or YAML), or one of --cron."""
    jobs = jobs_of(console)
    document = _schedule(name, file, cron, schedule_id, timezone)
    known(jobs, name)
    added = jobs.add_schedule(name, document)
    when = f"; it runs next at {added['nextRunAt']}" if added.get("nextRunAt") else ""
    console.tell(f"Added schedule {added.get('id')} of {name}{when}", added, names=[str(added.get("id"))])


@click.command(name="update")
@name_argument
@click.argument("schedule_id", metavar="SCHEDULE")
@click.argument("properties", metavar="KEY=VALUE...", nargs=-1, required=True)
@output_options()
@target_options
@pass_console
@explained
def update_schedule(console: Console, name: str, schedule_id: str, properties: tuple[str, ...]) -> None:
    """Change a schedule of JOB, as in cron='0 4 * * *' or enabled=false."""
    jobs = jobs_of(console)
    known(jobs, name)
    found = _known_schedule(jobs, name, schedule_id)
    # cron=* is text, whatever it looks like.
    given = parse_properties(properties, {"properties": {"cron": {"type": "string"}, "timezone": {"type": "string"}}})
    changed = jobs.put_schedule(name, schedule_id, with_properties(without(found, "nextRunAt"), given))
    console.tell(f"Changed schedule {schedule_id} of {name}", changed, names=[schedule_id])


@click.command(name="remove")
@name_argument
@click.argument("schedule_id", metavar="SCHEDULE")
@output_options()
@target_options
@pass_console
@explained
def remove_schedule(console: Console, name: str, schedule_id: str) -> None:
    """Remove a schedule of JOB."""
    jobs = jobs_of(console)
    known(jobs, name)
    _known_schedule(jobs, name, schedule_id)
    jobs.remove_schedule(name, schedule_id)
    console.tell(f"Removed schedule {schedule_id} of {name}", {"id": schedule_id}, names=[schedule_id])


def _known_schedule(jobs: Jobs, name: str, schedule_id: str) -> dict[str, Any]:
    found = jobs.schedules(name)
    for one in found:
        if one.get("id") == schedule_id:
            return one
    known = [str(one.get("id")) for one in found]
    listed = f"there are: {', '.join(known)}" if known else "it has none"
    raise NotFound(f"{name} has no schedule {schedule_id}{nearest(schedule_id, known)}; {listed}")


def _schedule(name: str, file: str | None, cron: str | None, schedule_id: str, timezone: str) -> dict[str, Any]:
    if (file is None) == (cron is None):
        raise click.UsageError("give either a FILE or --cron")
    if cron is not None:
        return {"id": schedule_id, "cron": cron, "timezone": timezone}
    source = check.read_source(str(file))
    document = check.parse(source)
    if not isinstance(document, dict) or "cron" not in document:
        raise BadInput(f"{source.name}: a schedule is an object with `id` and `cron`")
    return document
