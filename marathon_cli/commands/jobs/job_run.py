"""`mesos-gpu job run, history, kill`: the runs of a job."""

from __future__ import annotations

import time
from contextlib import ExitStack

import click

from marathon_cli.api.jobs import Jobs
from marathon_cli.changes.changes import Waiting, wait_options
from marathon_cli.changes.metronome import ENDED, explained, jobs_of, known, runs_of
from marathon_cli.clients.news import News
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Column, Table, say
from mesos_gpu.errors import BadInput, Conflict, TimeIsUp

PAUSE_S = 0.5
_RUNS = (Column("RUN"), Column("STATUS"), Column("STARTED", rank=1), Column("ENDED", rank=1), Column("TASKS", rank=2))
name_argument = click.argument("name", metavar="JOB")


@click.command()
@name_argument
@wait_options(roll_back=False)
@output_options()
@target_options
@pass_console
@explained
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
            news = News(jobs.server, lambda event: str(event.get("appId")).rpartition("/")[2] in ours)
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
@explained
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
@explained
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


def _wait(jobs: Jobs, name: str, run_id: str, timeout_s: float, news: News) -> bool:
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
