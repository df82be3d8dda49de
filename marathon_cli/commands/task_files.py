"""`mesos-gpu task ls` and `download`: the files of a task's sandbox."""

from __future__ import annotations

import time
from pathlib import Path

import click

from marathon_cli.clients.mesos import Sandbox
from marathon_cli.clients.task_names import TaskRef, one
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Column, Table, printable, say
from marathon_cli.show import logs
from mesos_gpu.errors import NotFound

_LONG = (
    Column("MODE"),
    Column("LINKS", number=True, rank=2),
    Column("UID", rank=1),
    Column("GID", rank=1),
    Column("SIZE", number=True),
    Column("DATE"),
    Column("NAME"),
)


@click.command()
@click.option("--long", "-l", is_flag=True, help="Show modes, owners, sizes and times.")
@click.argument("task", metavar="TASK")
@click.argument("path", metavar="[PATH]", required=False, default="")
@output_options()
@target_options
@pass_console
def ls(console: Console, long: bool, task: str, path: str) -> None:
    """List the files of TASK's sandbox, or of a folder in it.

    A task that has ended has them, too, until its agent removes them.
    """
    entries = logs.browse(find_sandbox(console, task), logs.inside(path))

    if not long and console.form == "table":
        for one in entries:
            click.echo(printable(f"{one.name}/" if one.is_folder else one.name))
        return

    def table() -> Table:
        rows = [[one.mode, one.links, one.owner, one.group, one.size, _date(one.mtime), one.name] for one in entries]
        return Table(_LONG, rows)

    console.show(logs.as_json(entries), table=table, names=[one.path for one in entries])


@click.command()
@click.option(
    "--target-dir",
    "-d",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="FOLDER",
    help="Where to write it; default: this folder.",
)
@click.option("--force", "-f", is_flag=True, help="Replace files that are there.")
@click.argument("task", metavar="TASK")
@click.argument("paths", metavar="[PATH_OR_PATTERN]...", nargs=-1)
@output_options()
@target_options
@pass_console
def download(console: Console, target_dir: Path, force: bool, task: str, paths: tuple[str, ...]) -> None:
    """Copy files and folders out of TASK's sandbox, all of it without a PATH.

    A pattern (* ? [ ]) is matched with whole paths; quote it. Nothing that is there is replaced without --force, and a
    copy that breaks off leaves no half file.
    """
    sandbox = find_sandbox(console, task)
    entries = logs.chosen(sandbox, paths)
    logs.check_target(target_dir, entries, replace=force)
    done: list[str] = []
    size = 0
    for entry in entries:
        if entry.is_folder:
            (target_dir / entry.path).mkdir(parents=True, exist_ok=True)
        elif entry.is_file:
            size += logs.download(sandbox, entry, target_dir)
            done.append(str(target_dir / entry.path))
        else:
            say(f"left out {entry.path}: it is neither a file nor a folder ({entry.mode})")
    noun = "file" if len(done) == 1 else "files"
    console.tell(f"Copied {len(done)} {noun}, {size} bytes, to {target_dir}", done, names=done)


def find_sandbox(console: Console, name: str) -> Sandbox:
    """Return the sandbox of the one task that `name` means, running or ended. Raises NotFound, BadInput."""
    mesos = console.mesos()
    try:
        found = one([TaskRef.of(task) for task in mesos.tasks()], name, ended=True)
    except NotFound:
        if ".instance-" not in name:
            raise
        # A master forgets tasks that have ended before their agent removes the files.
        return mesos.sandbox(name)
    if found.ended and found.id != name:
        say(f"no task of {name} runs; this is the last one: {found.id}")
    return mesos.sandbox(found.id, found.agent_id)


def _date(mtime: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(mtime))
