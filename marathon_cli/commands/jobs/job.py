"""`mesos-gpu job add, list, show, update, remove`: what runs to its end. Metronome's API."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import click

from marathon_cli.api.jobs import EMBED
from marathon_cli.changes import rules
from marathon_cli.changes.metronome import explained, jobs_of, known, runs_of
from marathon_cli.changes.updating import Order, agreed, read_wish, refuse_new_problems, update_command
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.document import check
from marathon_cli.document.definitions import without
from marathon_cli.screen.durations import between
from marathon_cli.screen.names import named
from marathon_cli.screen.output import Column, Table
from mesos_gpu.errors import Conflict, MesosGpuError, Problem
from mesos_gpu.marathon.definitions.app_schema import JOB
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects

_JOBS = (
    Column("ID"),
    Column("GPUS", number=True),
    Column("STATUS"),
    Column("LAST RUN"),
    Column("COMPLETIONS"),
    Column("DURATION"),
    Column("AGE"),
    Column("NEXT RUN", rank=1),
    Column("SUCCESSES", number=True, rank=3),
    Column("FAILURES", number=True, rank=3),
    Column("DESCRIPTION", rank=4, cut=True),
)
_NONE = "no jobs; `mesos-gpu job add FILE` adds one, `mesos-gpu run -- nvidia-smi` runs a command once"
_SET_BY_SERVER = ("activeRuns", "history", "historySummary", "schedules")
name_argument = click.argument("name", metavar="JOB")


@click.command()
@click.argument("file", required=False)
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@click.option("--dry-run", is_flag=True, help="Check, and create nothing.")
@output_options()
@target_options
@pass_console
@explained
def add(console: Console, file: str | None, no_validate: bool, dry_run: bool) -> None:
    """Add the job that FILE (JSON or YAML) defines, with its schedules."""
    if file is None and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe JSON in: mesos-gpu job add job.json")
    source = check.read_source(file or "-")
    document = check.parse(source)
    if not no_validate:
        check.check_job(source, document)
    if dry_run:
        console.tell(f"Would add {document['id']}", document, names=[str(document["id"])])
        return
    marathon, jobs = console.marathon(), jobs_of(console)
    schedules = document.get("schedules") or []
    plain = {key: value for key, value in document.items() if key != "schedules"}
    with rules.explained(source, document, rules.OFFLINE, marathon.url):
        job = jobs.add(plain)
        try:
            # Metronome takes schedules one by one.
            added = [jobs.add_schedule(str(job["id"]), schedule) for schedule in schedules]
        except MesosGpuError:
            jobs.remove(str(job["id"]), stop_runs=True)  # all of it, or nothing
            raise
    value = {**job, "schedules": added} if added else job
    count = f" with {len(added)} schedule{'s' if len(added) != 1 else ''}" if added else ""
    console.tell(
        f"Added {job['id']}{count}; `mesos-gpu job run {job['id']}` runs it now", value, names=[str(job["id"])]
    )


@click.command(name="list")
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@selector_option
@click.option("--scheduled", is_flag=True, help="Only those that run by a schedule.")
@watch_options
@output_options()
@target_options
@pass_console
@explained
def list_jobs(console: Console, job_ids: tuple[str, ...], label: str | None, scheduled: bool) -> None:
    """List the jobs, what they do now, and when they run next.

    COMPLETIONS, DURATION and AGE are the last run's, as `kubectl get jobs` has them; AGE is how long ago it began.
    """
    jobs = jobs_of(console)
    terms = parse_selector(label or "")

    def look() -> None:
        found = named(
            [job for job in jobs.all(history=True) if selects(terms, job.get("labels") or {})], job_ids, "job"
        )
        found = [job for job in found if job.get("schedules") or not scheduled]
        now = datetime.now(timezone.utc)
        table = Table(_JOBS, [_row(job, now) for job in found])
        shown = [without(job, "history") for job in found]
        console.show(shown, table=lambda: table, names=[str(job.get("id")) for job in found], none=_NONE)

    console.repeat(look)


@click.command()
@name_argument
@output_options(default="json")
@target_options
@pass_console
@explained
def show(console: Console, name: str) -> None:
    """Print everything that is known of JOB."""
    jobs = jobs_of(console)
    found = known(jobs, name)

    def table() -> Table:
        with_runs = jobs.show(name, embed=(*EMBED, "history"))
        return Table(_JOBS, [_row(with_runs, datetime.now(timezone.utc))])

    console.show(found, table=table, names=[name])


@update_command(name_argument, deploys=False)
@explained
def update(console: Console, name: str, order: Order) -> None:
    """Change JOB by KEY=VALUE, by a file, or by both; its schedules stay as they are.

    \b
      mesos-gpu job update train run.gpus=2 run.env.MODE=fast

    What is not named stays; null takes a key away. An active run is not touched.
    """
    wish = read_wish(order, JOB.schema, name)
    marathon, jobs = console.marathon(), jobs_of(console)
    before = without(known(jobs, name), *_SET_BY_SERVER)
    after = without(wish.applied(before), *_SET_BY_SERVER)
    if not order.no_validate:
        refuse_new_problems(_problems, wish.source, before, after)
    if not agreed(console, name, before, after, "from the next run on", order.consent):
        return
    with rules.explained(wish.source, dict(wish.asked), rules.OFFLINE, marathon.url):
        job = jobs.put(name, after)
    console.tell(f"Changed {name}", job, names=[name])


@click.command()
@name_argument
@click.option("--stop-runs", "--stopCurrentJobRuns", "stop_runs", is_flag=True, help="End its runs, too.")
@output_options()
@target_options
@pass_console
@explained
def remove(console: Console, name: str, stop_runs: bool) -> None:
    """Remove JOB; one that runs only with --stop-runs."""
    jobs = jobs_of(console)
    known(jobs, name)
    try:
        jobs.remove(name, stop_runs=stop_runs)
    except Conflict as error:
        # Metronome's other conflict is that jobs depend on this one.
        if stop_runs or "active" not in str(error):
            raise
        raise Conflict(f"{error}\n  --stop-runs ends its runs, too") from None
    console.tell(f"Removed {name}", {"id": name}, names=[name])


def _problems(job: Mapping[str, Any]) -> list[Problem]:
    return [*JOB.unknown_keys(job), *JOB.shape_problems(JOB.clean(job))]


def _row(job: Mapping[str, Any], now: datetime) -> list[object]:
    summary = job.get("historySummary") or {}
    success, failure = str(summary.get("lastSuccessAt") or ""), str(summary.get("lastFailureAt") or "")
    last = "---" if not success and not failure else "success" if success > failure else "failed"
    following = sorted(str(one["nextRunAt"]) for one in job.get("schedules") or [] if one.get("nextRunAt"))
    active = len(job.get("activeRuns") or [])
    run = max(runs_of(job), key=lambda one: str(one.get("createdAt") or ""), default=None)
    ended = None if run is None else run.get("completedAt") or run.get("finishedAt")
    return [
        job.get("id"),
        (job.get("run") or {}).get("gpus", 0),
        f"running ({active})" if active else "scheduled" if job.get("schedules") else "unscheduled",
        last,
        "---" if run is None else f"{int(run['status'] == 'SUCCESS')}/1",
        "---" if run is None else between(run.get("createdAt"), ended or now),
        "---" if run is None else between(run.get("createdAt"), now),
        following[0] if following else "---",
        summary.get("successCount", 0),
        summary.get("failureCount", 0),
        job.get("description") or "---",
    ]
