"""`mesos-gpu plan`: what would happen if files were applied, before it does."""

from __future__ import annotations

import click

from marathon_cli.commands.files.apply import read_files
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import say


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--force", is_flag=True, help="As if a deployment that is in progress were overridden.")
@output_options()
@target_options
@pass_console
def plan(console: Console, files: tuple[str, ...], force: bool) -> int:
    """Say what would happen if FILEs were applied; nothing is done.

    Where each instance would start, which tasks would end and why (replaced, one too many, giving way to others),
    and what would wait and for what. Marathon decides on what there is now as it would decide then; tasks that would
    start are taken to run and to be healthy, and nothing else is taken to begin or end. Files define apps, pods, jobs
    (a run of each) and groups. The exit status is 0 when all would start now, and 5 when something would wait.
    """
    from marathon_cli.api.plan import plan as asked
    from marathon_cli.changes import rules
    from marathon_cli.changes.applying import Applying
    from marathon_cli.show.plan_view import show_plan

    marathon = console.marathon()
    found = read_files(files, recursive=False)
    applying = Applying(marathon, rules.rules_of(marathon.info()), force, dry_run=True)
    for one in found.all:
        applying.check(one.kind, one.source, one.document)
    for line in found.notes:
        say(line)
    documents = [{"kind": one.kind, "document": applying.whole(one.kind, one.document)} for one in found.all]
    return show_plan(console, asked(marathon, documents, force=force))
