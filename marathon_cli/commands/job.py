"""`mesos-gpu job`: what runs to its end, when asked or by a schedule. Metronome's API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

import click

from marathon_cli.changes.changes import Waiting, wait_options
from marathon_cli.clients.marathon import EMBED, ENDED, Document, Jobs, Marathon, runs_of
from marathon_cli.commands.kind import (
    Command,
    Kind,
    Row,
    list_command,
    read_definition,
    remove_command,
    show_command,
    update_command,
)
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.document.definitions import without
from marathon_cli.screen.arguments import hints, nearest
from marathon_cli.screen.output import Column, Table, say
from marathon_cli.screen.units import between
from mesos_gpu.errors import BadInput, Conflict, NotFound, Problem, Refused, TimeIsUp
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects

if TYPE_CHECKING:
    from marathon_cli.clients.event_stream import EventStream
    from mesos_gpu.marathon.definitions.app_settings import AppRules

PAUSE_S = 0.5
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


@contextmanager
def _explained() -> Iterator[None]:
    """Report that a server has no jobs if it is a Marathon without Metronome's API."""
    try:
        yield
    except (NotFound, Refused) as error:
        if "/v1/jobs" in str(error) or "URI not found" in str(error):
            advice = (
                "jobs are Metronome's: name one with --marathon-url (this project's Marathon answers for them, too)"
            )
            raise NotFound(f"this server knows no jobs ({error}); {advice}") from None
        raise


class JobKind(Kind):
    """Jobs."""

    name = "job"
    api = Jobs
    columns = (
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
    none = "no jobs; `mesos-gpu job add FILE` adds one, `mesos-gpu run -- nvidia-smi` runs a command once"
    help: ClassVar = {
        "list": """List the jobs, what they do now, and when they run next.

        COMPLETIONS, DURATION and AGE are the last run's, as `kubectl get jobs` has them; AGE is how long ago it began.
        """,
        "show": "Print everything that is known of JOB.",
        "update": """Change JOB by KEY=VALUE, by a file, or by both; its schedules stay as they are.

        \b
          mesos-gpu job update train run.gpus=2 run.env.MODE=fast

        What is not named stays; null takes a key away. An active run is not touched.
        """,
        "remove": "Remove JOB; one that runs only with --stop-runs.",
    }
    table_only = ("history",)
    server_keys = ("activeRuns", "history", "historySummary", "schedules")
    deploys = False
    is_target = False

    def explained(self) -> AbstractContextManager[None]:
        return _explained()

    def documents(
        self, marathon: Marathon, label: str | None, *, scheduled: bool = False, **filters: Any
    ) -> list[Document]:
        terms = parse_selector(label or "")
        found = [job for job in Jobs(marathon).all(history=True) if selects(terms, job.get("labels") or {})]
        return [job for job in found if job.get("schedules") or not scheduled]

    def rows(self, marathon: Marathon, documents: Sequence[Document]) -> list[Row]:
        now = datetime.now(timezone.utc)
        return [_row(job, now) for job in documents]

    def details(self, marathon: Marathon, document: Document) -> Table:
        with_runs = Jobs(marathon).show(str(document.get("id")), embed=(*EMBED, "history"))
        return Table(self.columns, self.rows(marathon, [with_runs]))

    def schema(self) -> Mapping[str, Any]:
        from mesos_gpu.marathon.definitions.app_schema import JOB as DEFINITION

        return DEFINITION.schema

    def rules(self, marathon: Marathon) -> AppRules:
        from marathon_cli.changes.rules import OFFLINE

        return OFFLINE

    def problems(self, document: Any, rules: AppRules) -> list[Problem]:
        from mesos_gpu.marathon.why.problems import job_problems

        return job_problems(document)

    def with_defaults(self, document: Document, rules: AppRules) -> Document:
        from mesos_gpu.marathon.definitions.app_schema import JOB as DEFINITION

        return DEFINITION.with_defaults(DEFINITION.clean(document))

    def remove_option(self, command: Command) -> Command:
        spellings = ("--stop-runs", "--stopCurrentJobRuns")
        return click.option(*spellings, "force", is_flag=True, help="End its runs, too.")(command)

    def requested(self, document: Document) -> Document:
        return self.editable(document)

    def consequence(self, before: Document, after: Document) -> str:
        return "from the next run on"

    def refused(self, error: Conflict, *, force: bool) -> Conflict:
        # Metronome's other conflict is that jobs depend on this one.
        return error if force or "active" not in str(error) else Conflict(f"{error}\n  --stop-runs ends its runs, too")


JOB = JobKind()
_SCHEDULED = click.option("--scheduled", is_flag=True, help="Only those that run by a schedule.")
list_jobs, show, update, remove = (
    list_command(JOB, _SCHEDULED),
    show_command(JOB),
    update_command(JOB),
    remove_command(JOB),
)
name_argument = JOB.argument


@click.command()
@click.argument("file", required=False)
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@click.option("--dry-run", is_flag=True, help="Check, and create nothing.")
@output_options()
@target_options
@pass_console
@_explained()
def add(console: Console, file: str | None, no_validate: bool, dry_run: bool) -> None:
    """Add the job that FILE (JSON or YAML) defines, with its schedules."""
    from marathon_cli.changes import rules

    source, document = read_definition(JOB, file)
    if not no_validate:
        JOB.check(source, document, rules.OFFLINE)
    if dry_run:
        console.tell(f"Would add {document['id']}", document, names=[str(document["id"])])
        return
    marathon = console.marathon()
    with rules.explained(source, document, rules.OFFLINE, marathon.url):
        job = Jobs(marathon).add(document).document
    schedules = len(job.get("schedules") or [])
    count = f" with {schedules} schedule{'s' if schedules != 1 else ''}" if schedules else ""
    sentence = f"Added {job['id']}{count}; `mesos-gpu job run {job['id']}` runs it now"
    console.tell(sentence, job, names=[str(job["id"])])


@click.command()
@name_argument
@wait_options(roll_back=False)
@output_options()
@target_options
@pass_console
@_explained()
def run(console: Console, name: str, waiting: Waiting) -> int:
    """Run JOB now.

    With --wait the exit status is 1 when the run fails.
    """
    jobs = jobs_of(console)
    known(jobs, name)
    ours: set[str] = set()
    with ExitStack() as hearing:
        news = None
        if waiting.wanted:
            from marathon_cli.clients.event_stream import EventStream

            news = EventStream(jobs.server, lambda event: str(event.get("appId")).rpartition("/")[2] in ours)
            hearing.callback(news.close)
        started = jobs.run(name)
        run_id = str(started.get("id"))
        ours.add(run_id)
        console.tell(f"Started run {run_id} of {name}", started, names=[run_id])
        console.goes_on = f"the run {run_id} continues; `mesos-gpu job kill {name} {run_id}` ends it"
        return 0 if news is None or _wait(jobs, name, run_id, waiting.timeout_s, news) else 1


@click.command()
@name_argument
@output_options()
@target_options
@pass_console
@_explained()
def history(console: Console, name: str) -> None:
    """List the runs of JOB: active ones, then those that have ended, the latest first."""
    jobs = jobs_of(console)
    known(jobs, name)
    found = jobs.show(name, embed=("history", "activeRuns"))
    runs = runs_of(found)
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
    console.show(
        runs,
        table=lambda: Table(_RUNS, rows),
        names=[str(one.get("id")) for one in runs],
        none=f"no runs; `mesos-gpu job run {name}` runs it now",
    )


@click.command()
@name_argument
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--all", "all_runs", is_flag=True, help="End all its runs.")
@output_options()
@target_options
@pass_console
@_explained()
def kill(console: Console, name: str, run_ids: tuple[str, ...], all_runs: bool) -> None:
    """End runs of JOB."""
    jobs = jobs_of(console)
    active = [str(one.get("id")) for one in known(jobs, name).get("activeRuns") or []]
    wanted = active if all_runs or (not run_ids and len(active) == 1) else list(run_ids)
    if not wanted:
        listed = f"name one of {', '.join(active)}, or --all" if active else "none is running"
        raise (BadInput if active else Conflict)(f"which run of {name}? {listed}")
    for run_id in wanted:
        jobs.stop(name, run_id)
    console.tell(f"Killed runs: {', '.join(wanted)}", {"runs": wanted}, names=wanted)


def _wait(jobs: Jobs, name: str, run_id: str, timeout_s: float, news: EventStream) -> bool:
    """Wait until a run has ended; return whether it succeeded. Raises TimeIsUp."""
    begun, said = time.monotonic(), ""
    while True:
        found = next(
            (one for one in runs_of(jobs.show(name, embed=("history", "activeRuns"))) if one.get("id") == run_id), None
        )
        status = str(found["status"]) if found is not None else "gone"
        if status != said:
            say(f"{name} {run_id}: {status.lower()}")
            said = status
        if found is None:
            raise Conflict(f"the run {run_id} of {name} was stopped, or its job removed")
        if status in ENDED:
            return status == "SUCCESS"
        if timeout_s and time.monotonic() - begun >= timeout_s:
            raise TimeIsUp(f"{name} {run_id} has not ended after {timeout_s:g} s; it continues")
        news.pause(PAUSE_S)


@click.command(name="list")
@name_argument
@output_options()
@target_options
@pass_console
@_explained()
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
@_explained()
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
@_explained()
def update_schedule(console: Console, name: str, schedule_id: str, properties: tuple[str, ...]) -> None:
    """Change a schedule of JOB, as in cron='0 4 * * *' or enabled=false."""
    jobs = jobs_of(console)
    known(jobs, name)
    found = _known_schedule(jobs, name, schedule_id)
    from marathon_cli.document.properties import parse_properties, with_properties

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
@_explained()
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
    from marathon_cli.document import check

    source = check.read_source(str(file))
    document = check.parse(source)
    if not isinstance(document, dict) or "cron" not in document:
        raise BadInput(f"{source.name}: a schedule is an object with `id` and `cron`")
    return document


def known(jobs: Jobs, name: str) -> Document:
    """Return a job. Raises NotFound with the nearest name."""
    with hints(name, jobs.ids):
        return jobs.show(name)


def jobs_of(console: Console) -> Jobs:
    """Return the jobs of the server that is meant."""
    return Jobs(console.marathon())


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
