"""`mesos-gpu job`: what runs to its end, when asked or by a schedule. Metronome's API."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from marathon_cli.changes import Waiting, update_options, wait_options
from marathon_cli.console import Console, output_options, pass_console, target_options
from marathon_cli.names import nearest
from marathon_cli.output import Column, Table, say
from marathon_cli.updating import agreed, document_options, read_wish, refuse_new_problems
from marathon_cli.watch import watch_options
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError, NotFound, Problem, Refused, TimeIsUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from marathon_cli.api.jobs import Jobs

_Command = TypeVar("_Command", bound="Callable[..., Any]")

PAUSE_S = 0.5
_JOBS = (
    Column("ID"),
    Column("GPUS", number=True),
    Column("STATUS"),
    Column("LAST RUN"),
    Column("NEXT RUN", rank=1),
    Column("SUCCESSES", number=True, rank=2),
    Column("FAILURES", number=True, rank=2),
    Column("DESCRIPTION", rank=3, cut=True),
)
_RUNS = (Column("RUN"), Column("STATUS"), Column("STARTED", rank=1), Column("ENDED", rank=1), Column("TASKS", rank=2))
_SCHEDULES = (
    Column("ID"),
    Column("CRON"),
    Column("TIMEZONE"),
    Column("ENABLED"),
    Column("NEXT RUN"),
    Column("CONCURRENCY", rank=1),
    Column("DEADLINE S", number=True, rank=1),
)
_SET_BY_SERVER = ("activeRuns", "history", "historySummary", "schedules")
_OVER = {"SUCCESS", "FAILED"}
name_argument = click.argument("name", metavar="JOB")


def _explained(command: _Command) -> _Command:
    """Say what is meant when a server knows nothing of jobs: a Marathon alone does not; Metronome does."""

    @wraps(command)
    def inner(*args: Any, **settings: Any) -> Any:
        try:
            return command(*args, **settings)
        except (NotFound, Refused) as error:
            if "/v1/jobs" in str(error) or "URI not found" in str(error):
                advice = (
                    "jobs are Metronome's: name one with --marathon-url (this project's Marathon answers for them, too)"
                )
                raise NotFound(f"this server knows no jobs ({error}); {advice}") from None
            raise

    return inner  # type: ignore[return-value]


def _jobs(console: Console) -> Jobs:
    from marathon_cli.api.jobs import Jobs

    return Jobs(console.marathon())


@click.command()
@click.argument("file", required=False)
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@click.option("--dry-run", is_flag=True, help="Check, and create nothing.")
@output_options()
@target_options
@pass_console
@_explained
def add(console: Console, file: str | None, no_validate: bool, dry_run: bool) -> None:
    """Add the job that FILE (JSON or YAML) defines, with its schedules."""
    from marathon_cli import check, rules

    if file is None and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe JSON in: mesos-gpu job add job.json")
    source = check.read_source(file or "-")
    document = check.parse(source)
    if not no_validate:
        check.check_job(source, document)
    if dry_run:
        console.tell(f"Would add {document['id']}", document, names=[str(document["id"])])
        return
    marathon, jobs = console.marathon(), _jobs(console)
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
    count = f" with {len(added)} schedules" if added else ""
    console.tell(
        f"Added {job['id']}{count}; `mesos-gpu job run {job['id']}` runs it now", value, names=[str(job["id"])]
    )


@click.command(name="list")
@watch_options
@output_options()
@target_options
@pass_console
@_explained
def list_jobs(console: Console) -> None:
    """List the jobs, what they do now, and when they run next."""
    jobs = _jobs(console)

    def look() -> None:
        found = jobs.all()
        names = [str(job.get("id")) for job in found]
        console.show(found, table=lambda: Table(_JOBS, [_row(job) for job in found]), names=names)

    console.repeat(look)


@click.command()
@name_argument
@output_options(default="json")
@target_options
@pass_console
@_explained
def show(console: Console, name: str) -> None:
    """Print everything that is known of JOB."""
    jobs = _jobs(console)
    found = _known(jobs, name)
    console.show(found, table=lambda: Table(_JOBS, [_row(found)]), names=[name])


@click.command()
@name_argument
@document_options
@update_options
@output_options()
@target_options
@pass_console
@_explained
def update(
    console: Console,
    name: str,
    properties: tuple[str, ...],
    file: str | None,
    replace: bool,
    no_validate: bool,
    dry_run: bool,
    diff: bool,
    yes: bool,
) -> None:
    """Change JOB by KEY=VALUE, by a file, or by both; its schedules stay as they are.

    \b
      mesos-gpu job update train run.gpus=2 run.env.MODE=fast

    What is not named stays; null takes a key away. A run that goes on is not touched.
    """
    from marathon_cli import rules
    from marathon_cli.definitions import without
    from mesos_gpu.marathon.app_schema import JOB

    wish = read_wish(file, properties, JOB.schema, name, replace=replace)
    marathon, jobs = console.marathon(), _jobs(console)
    before = without(_known(jobs, name), *_SET_BY_SERVER)
    after = without(wish.applied(before), *_SET_BY_SERVER)
    if not no_validate:
        refuse_new_problems(_problems, wish.source, before, after)
    if not agreed(console, name, before, after, "from the next run on", dry_run=dry_run, diff=diff, yes=yes):
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
@_explained
def remove(console: Console, name: str, stop_runs: bool) -> None:
    """Remove JOB; one that runs only with --stop-runs."""
    jobs = _jobs(console)
    _known(jobs, name)
    try:
        jobs.remove(name, stop_runs=stop_runs)
    except Conflict as error:
        raise Conflict(f"{error}\n  --stop-runs ends its runs, too") from None
    console.tell(f"Removed {name}", {"id": name}, names=[name])


@click.command()
@name_argument
@wait_options(roll_back=False)
@output_options()
@target_options
@pass_console
@_explained
def run(console: Console, name: str, waiting: Waiting) -> int:
    """Run JOB now.

    With --wait the exit status is 1 when the run fails.
    """
    jobs = _jobs(console)
    _known(jobs, name)
    started = jobs.run(name)
    run_id = str(started.get("id"))
    console.tell(f"Started run {run_id} of {name}", started, names=[run_id])
    console.goes_on = f"the run {run_id} goes on; `mesos-gpu job kill {name} {run_id}` ends it"
    if not waiting.wanted:
        return 0
    return 0 if _wait(jobs, name, run_id, waiting.timeout_s) else 1


@click.command()
@name_argument
@output_options()
@target_options
@pass_console
@_explained
def history(console: Console, name: str) -> None:
    """List the runs of JOB: those that go on, then those that have ended, the latest first."""
    jobs = _jobs(console)
    _known(jobs, name)
    found = jobs.show(name, embed=("history", "activeRuns"))
    runs = _runs(found)
    rows = [
        [
            one.get("id"),
            one["status"],
            one.get("createdAt", "---"),
            one.get("completedAt") or one.get("finishedAt") or "---",
            len(one.get("tasks") or []),
        ]
        for one in runs
    ]
    console.show(runs, table=lambda: Table(_RUNS, rows), names=[str(one.get("id")) for one in runs])


@click.command()
@name_argument
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--all", "all_runs", is_flag=True, help="End all its runs.")
@output_options()
@target_options
@pass_console
@_explained
def kill(console: Console, name: str, run_ids: tuple[str, ...], all_runs: bool) -> None:
    """End runs of JOB."""
    jobs = _jobs(console)
    active = [str(one.get("id")) for one in _known(jobs, name).get("activeRuns") or []]
    wanted = active if all_runs or (not run_ids and len(active) == 1) else list(run_ids)
    if not wanted:
        listed = f"name one of {', '.join(active)}, or --all" if active else "none goes on"
        raise (BadInput if active else Conflict)(f"which run of {name}? {listed}")
    for run_id in wanted:
        jobs.stop(name, run_id)
    console.tell(f"Killed runs: {', '.join(wanted)}", {"runs": wanted}, names=wanted)


@click.command(name="list")
@name_argument
@output_options()
@target_options
@pass_console
@_explained
def list_schedules(console: Console, name: str) -> None:
    """List the schedules of JOB."""
    jobs = _jobs(console)
    _known(jobs, name)
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
    console.show(found, table=lambda: Table(_SCHEDULES, rows), names=[str(one.get("id")) for one in found])


@click.command(name="add")
@name_argument
@click.argument("file", required=False)
@click.option("--cron", metavar="CRON", help="When, as in '0 3 * * *'; in place of a file.")
@click.option("--id", "schedule_id", default="default", show_default=True, metavar="ID", help="With --cron: its name.")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="With --cron: as in Europe/Berlin.")
@output_options()
@target_options
@pass_console
@_explained
def add_schedule(
    console: Console, name: str, file: str | None, cron: str | None, schedule_id: str, timezone: str
) -> None:
    """Give JOB a schedule: that of FILE (JSON or YAML), or one of --cron."""
    jobs = _jobs(console)
    document = _schedule(name, file, cron, schedule_id, timezone)
    _known(jobs, name)
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
@_explained
def update_schedule(console: Console, name: str, schedule_id: str, properties: tuple[str, ...]) -> None:
    """Change a schedule of JOB, as in cron='0 4 * * *' or enabled=false."""
    from marathon_cli.definitions import without
    from marathon_cli.properties import parse_properties, with_properties

    jobs = _jobs(console)
    _known(jobs, name)
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
@_explained
def remove_schedule(console: Console, name: str, schedule_id: str) -> None:
    """Take a schedule from JOB."""
    jobs = _jobs(console)
    _known(jobs, name)
    _known_schedule(jobs, name, schedule_id)
    jobs.remove_schedule(name, schedule_id)
    console.tell(f"Removed schedule {schedule_id} of {name}", {"id": schedule_id}, names=[schedule_id])


def _known(jobs: Jobs, name: str) -> dict[str, Any]:
    """Return a job. Raises NotFound with the nearest name."""
    try:
        return jobs.show(name)
    except NotFound as error:
        if "URI not found" in str(error):
            raise
        try:
            hint = nearest(name, (str(job.get("id")) for job in jobs.all()))
        except MesosGpuError:
            hint = ""
        raise NotFound(f"{error}{hint}") from None


def _known_schedule(jobs: Jobs, name: str, schedule_id: str) -> dict[str, Any]:
    found = jobs.schedules(name)
    for one in found:
        if one.get("id") == schedule_id:
            return one
    known = [str(one.get("id")) for one in found]
    listed = f"there are: {', '.join(known)}" if known else "it has none"
    raise NotFound(f"{name} has no schedule {schedule_id}{nearest(schedule_id, known)}; {listed}")


def _schedule(name: str, file: str | None, cron: str | None, schedule_id: str, timezone: str) -> dict[str, Any]:
    from marathon_cli import check

    if (file is None) == (cron is None):
        raise click.UsageError("give either a FILE or --cron")
    if cron is not None:
        return {"id": schedule_id, "cron": cron, "timezone": timezone}
    source = check.read_source(str(file))
    document = check.parse(source)
    if not isinstance(document, dict) or "cron" not in document:
        raise BadInput(f"{source.name}: a schedule is an object with `id` and `cron`")
    return document


def _problems(job: Mapping[str, Any]) -> list[Problem]:
    from mesos_gpu.marathon.app_schema import JOB

    return [*JOB.unknown_keys(job), *JOB.shape_problems(JOB.clean(job))]


def _runs(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a job with how each is: going on, then ended, the latest first."""
    history = job.get("history") or {}
    ended = [{**one, "status": "SUCCESS"} for one in history.get("successfulFinishedRuns") or []]
    ended += [{**one, "status": "FAILED"} for one in history.get("failedFinishedRuns") or []]
    ended.sort(key=lambda one: str(one.get("finishedAt")), reverse=True)
    active = [{"status": "ACTIVE", **one} for one in job.get("activeRuns") or []]
    return active + ended


def _wait(jobs: Jobs, name: str, run_id: str, timeout_s: float) -> bool:
    """Wait until a run has ended; return whether it succeeded. Raises TimeIsUp."""
    begun, said = time.monotonic(), ""
    while True:
        found = next(
            (one for one in _runs(jobs.show(name, embed=("history", "activeRuns"))) if one.get("id") == run_id), None
        )
        status = str(found["status"]) if found is not None else "gone"
        if status != said:
            say(f"{name} {run_id}: {status.lower()}")
            said = status
        if found is None:
            raise Conflict(f"the run {run_id} of {name} was stopped, or its job removed")
        if status in _OVER:
            return status == "SUCCESS"
        if timeout_s and time.monotonic() - begun >= timeout_s:
            raise TimeIsUp(f"{name} {run_id} has not ended after {timeout_s:g} s; it goes on")
        time.sleep(PAUSE_S)


def _row(job: Mapping[str, Any]) -> list[object]:
    summary = job.get("historySummary") or {}
    success, failure = str(summary.get("lastSuccessAt") or ""), str(summary.get("lastFailureAt") or "")
    last = "---" if not success and not failure else "success" if success > failure else "failed"
    following = sorted(str(one["nextRunAt"]) for one in job.get("schedules") or [] if one.get("nextRunAt"))
    active = len(job.get("activeRuns") or [])
    return [
        job.get("id"),
        (job.get("run") or {}).get("gpus", 0),
        f"running ({active})" if active else "scheduled" if job.get("schedules") else "unscheduled",
        last,
        following[0] if following else "---",
        summary.get("successCount", 0),
        summary.get("failureCount", 0),
        job.get("description") or "---",
    ]
