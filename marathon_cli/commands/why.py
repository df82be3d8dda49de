"""`mesos-gpu why`: why an app does not run, agent by agent, and what would make it run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from marathon_cli.clients.marathon import Jobs, Marathon
from marathon_cli.clients.mesos import Mesos, RemoteFile
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import (
    Column,
    Table,
    display_width,
    printable,
    say,
    say_paragraph,
    table_lines,
    terminal,
    wrapped,
)
from mesos_gpu.errors import MesosGpuError, NotFound, Refused
from mesos_gpu.marathon.definitions.app_ids import canonical_id

if TYPE_CHECKING:
    from mesos_gpu.marathon.why.answer import Answer
    from mesos_gpu.marathon.why.verdict import Verdict


_COLUMNS = (Column("AGENT"), Column("NOW"), Column("EVER"), Column("WHAT IT LACKS"))
_MOST = 20
_LEAST = 30
"""Characters that what is lacked wants beside the agent; where it has not got them, it stands below."""


@click.command()
@click.argument("app_id", metavar="APP")
@output_options()
@target_options
@pass_console
def why(console: Console, app_id: str) -> None:
    """Explain why APP is not running, and what would make it run.

    Tasks that fail one after the other, and images that cannot be had, are named first, with the end of what the last
    task wrote. The smallest change that would start one more instance is named: of the app, its role's quota, of what
    else runs, or of the machines. Each agent is held against what one instance asks for: what it lacks now, and what it
    can never have. APP may be a pod or a job. The exit status is 0 whatever the answer is; programs read `state` with
    -o json: running, starting, stopped, delayed, blocked, waiting or impossible.
    """
    marathon = console.marathon()
    found = _found(marathon, app_id)
    failure = found.failure
    wrote = None if failure is None else last_words(console.mesos(marathon), failure.task_id, failure.agent_id)
    if console.form not in ("table", "wide"):
        document = found.document()
        if wrote is not None:
            document["failure"] |= {"file": wrote[0], "lines": list(wrote[1])}
        console.show(document, table=lambda: Table(()), names=[found.state])
        return
    say_paragraph(found.headline)
    if wrote is not None:
        click.echo(f"\nThe end of what that task wrote to {wrote[0]}:")
        for line in wrote[1]:
            click.echo(f"    {printable(line)}")
    shown = found.verdicts if console.form == "wide" else found.verdicts[:_MOST]
    if shown and failure is None and found.state not in ("running", "stopped"):
        click.echo()
        _agents(found, len(shown))
    if found.change is not None:
        click.echo("\nThe smallest change that would start it:")
        for step in found.change.steps:
            say_paragraph(step.text, first="  * ")
        if found.change.agent:
            say_paragraph(f"Then it starts on {found.change.where}.", first="  ")
    if found.remedies:
        click.echo("\nWhat would help:")
        for remedy in found.remedies:
            say_paragraph(remedy, first="  * ")


def _found(marathon: Marathon, name: str) -> Answer:
    from marathon_cli.show.why_facts import inquire, inquire_job
    from mesos_gpu.marathon.why.answer import answer

    try:
        return answer(inquire(marathon, canonical_id(name), say))
    except NotFound:
        try:
            job = Jobs(marathon).show(name.strip("/").replace("/", "."))
        except (NotFound, Refused):
            job = None
        if job is None:
            raise
    from mesos_gpu.marathon.why.of_jobs import without_wait

    situation = inquire_job(marathon, job, say)
    return without_wait(job) if situation is None else answer(situation)


def _agents(found: Answer, count: int) -> None:
    narrow = terminal()
    names = max(len("AGENT"), *(display_width(verdict.agent) for verdict in found.verdicts[:count]))
    room = None if narrow is None else narrow - names - len("  NOW  EVER  ")
    told = [(verdict, _lacks(found, verdict)) for verdict in found.verdicts[:count]]
    lines = [[line for text in lacks for line in wrapped(text, room and max(1, room), "  ")] for _, lacks in told]
    if room is not None and (room < _LEAST or any(display_width(line) > room for each in lines for line in each)):
        for verdict, lacks in told:
            say_paragraph(f"{verdict.agent}: {'now' if verdict.now else 'not now' if verdict.ever else 'never'}")
            for text in lacks:
                say_paragraph(text, first="  ")
    else:
        rows = []
        for (verdict, _), each in zip(told, lines, strict=True):
            yes_no = ["yes" if verdict.now else "no", "yes" if verdict.ever else "no"]
            rows += [[verdict.agent, *yes_no, each[0]], *(["", "", "", line] for line in each[1:])]
        for line in table_lines(Table(_COLUMNS, rows), width=narrow):
            click.echo(line)
    if count < len(found.verdicts):
        click.echo(f"... and {len(found.verdicts) - count} agents more: -o wide")


def _lacks(found: Answer, verdict: Verdict) -> list[str]:
    """Return what is to be said of an agent. Beside what it can never have, what it lacks at the moment is no news."""
    from mesos_gpu.marathon.why.answer import REASONS

    lacks = [lack.text for lack in verdict.lacks if lack.for_ever or verdict.ever]
    said = found.said.get(verdict.agent_id, ())
    return lacks or [f"nothing; Marathon: {REASONS.get(reason, reason)}" for reason in said] or ["nothing"]


LINES = 5
_LONGEST = 64 * 1024


def last_words(mesos: Mesos, task_id: str, agent_id: str) -> tuple[str, Sequence[str]] | None:
    """Return the file, stderr or stdout, and its last lines; None where nothing was written or nobody tells."""
    try:
        sandbox = mesos.sandbox(task_id, agent_id or None)
        for name in ("stderr", "stdout"):
            file = RemoteFile(sandbox.agent, f"{sandbox.directory}/{name}")
            if not file.size():
                continue
            file.skip_to_last(LINES)
            data = b""
            while len(data) < _LONGEST and (more := file.next()):
                data += more
            lines = [line.rstrip() for line in data.decode(errors="replace").splitlines()]
            if any(lines):
                return name, lines[-LINES:]
    except MesosGpuError:
        pass  # the agent is away, or has removed the files: the failure itself is told anyway
    return None
