"""`mesos-gpu task show, kill`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.clients.task_names import SHORTEST
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.names import nearest
from marathon_cli.screen.output import Table, columns
from marathon_cli.show.gpu_view import asked_gpus
from mesos_gpu.errors import BadInput, NotFound


@click.command()
@click.argument("task_id", metavar="TASK")
@output_options(default="json")
@target_options
@pass_console
def show(console: Console, task_id: str) -> None:
    """Print everything that Marathon knows of TASK: its id, how that begins, or a part of it."""
    marathon = console.marathon()
    found = _find(marathon.tasks(), task_id)
    found = {**found, "gpus": asked_gpus(marathon, [found]).get(str(found.get("appId")), 0)}
    rows = [[key, value] for key, value in found.items() if not isinstance(value, list | dict)]
    console.show(found, table=lambda: Table(columns("WHAT", "IS"), rows), names=[str(found.get("id"))])


@click.command()
@click.argument("task_ids", metavar="TASK...", nargs=-1, required=True)
@click.option("--scale", "and_scale", is_flag=True, help="Lower the instances of their apps by as many.")
@click.option("--wipe", is_flag=True, help="Drop their persistent volumes, too.")
@wait_options(roll_back=False)
@force_option
@output_options()
@target_options
@pass_console
def kill(
    console: Console, task_ids: tuple[str, ...], and_scale: bool, wipe: bool, waiting: Waiting, force: bool
) -> None:
    """End tasks; others take their place unless --scale says otherwise.

    All must be there, or none is ended.
    """
    if and_scale and wipe:
        raise BadInput("--scale and --wipe exclude each other")
    marathon = console.marathon()
    there = marathon.tasks()
    ids = list(dict.fromkeys(str(_find(there, word)["id"]) for word in task_ids))
    if and_scale:
        change = marathon.kill_tasks_and_scale(ids, force=force)
        sentence = f"ends {', '.join(ids)} and lowers the instances of their apps"
        finish(console, marathon, change, (), sentence, waiting, value={"tasks": ids})
        return
    killed = marathon.kill_tasks(ids, wipe=wipe)
    if not killed:
        raise NotFound(f"none of {', '.join(ids)} is there any more")
    console.tell(f"Killed tasks: {', '.join(killed)}", {"tasks": killed}, names=killed)


def _find(tasks: list[dict[str, Any]], word: str) -> Mapping[str, Any]:
    """Return the task that a word means: its id, how that begins, or a part of it. Raises NotFound, BadInput."""
    meant = (
        [task for task in tasks if task.get("id") == word]
        or [task for task in tasks if str(task.get("id")).startswith(word)]
        or [task for task in tasks if len(word) >= SHORTEST and word in str(task.get("id"))]
    )
    ids = [str(task.get("id")) for task in meant]
    if len(meant) > 1:
        raise BadInput(f"{word} means {len(meant)} tasks: {', '.join(ids)}")
    if not meant:
        known = [str(task.get("id")) for task in tasks]
        raise NotFound(f"there is no task {word}{nearest(word, known)}; `mesos-gpu task list` shows those there are")
    return meant[0]
