"""`mesos-gpu deployment`: what is under way, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from marathon_cli.changes.changes import Waiting, finish, wait_options
from marathon_cli.changes.rollout import targets_of
from marathon_cli.changes.wait import wait_for
from marathon_cli.clients.marathon import Change, Marathon
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options, watch_options
from marathon_cli.screen.arguments import Number, app_id, nearest
from marathon_cli.screen.output import Column, Table
from mesos_gpu.errors import BadInput, NotFound

_NONE = "no deployments: nothing is being changed"
_COLUMNS = (
    Column("ID"),
    Column("APPS"),
    Column("ACTION", rank=1),
    Column("PROGRESS", number=True),
    Column("SINCE", rank=2),
)


@click.command(name="list")
@click.argument("name", metavar="[APP]", required=False)
@watch_options
@output_options()
@target_options
@pass_console
def list_deployments(console: Console, name: str | None) -> None:
    """List the deployments under way, of all apps or of APP."""
    marathon = console.marathon()
    wanted = None if name is None else app_id(name)

    def look() -> None:
        found = [item for item in marathon.deployments() if wanted is None or wanted in _affected(item)]
        names = [str(item.get("id")) for item in found]
        console.show(found, table=lambda: Table(_COLUMNS, [_row(item) for item in found]), names=names, none=_NONE)

    console.repeat(look)


@click.command()
@click.argument("deployment_id", metavar="[DEPLOYMENT]", required=False)
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(min=0),
    default=0.0,
    metavar="SECONDS",
    help="How long to watch; default: forever.",
)
@target_options
@pass_console
def watch(console: Console, deployment_id: str | None, timeout_s: float) -> None:
    """Show how a deployment goes, until it is done.

    The id may be left out when there is only one. The exit status is 1 when it was stopped, replaced or rolled back, 4
    when --timeout is over.
    """
    marathon = console.marathon()
    found = _find(marathon, deployment_id)
    change = Change(str(found.get("id")), found.get("version"))
    console.goes_on = f"the deployment {change.deployment_id} continues"
    wait_for(marathon, change, targets_of(found), timeout_s)


@click.command()
@click.argument("deployment_id", metavar="DEPLOYMENT")
@wait_options(roll_back=False)
@output_options()
@target_options
@pass_console
def rollback(console: Console, deployment_id: str, waiting: Waiting) -> None:
    """Stop a deployment and restore its apps as they were before it."""
    marathon = console.marathon()
    found = _find(marathon, deployment_id)
    change = marathon.roll_back(str(found["id"]))
    finish(console, marathon, change, (), f"rolls back {found['id']}", waiting)


@click.command()
@click.argument("deployment_id", metavar="DEPLOYMENT")
@output_options()
@target_options
@pass_console
def stop(console: Console, deployment_id: str) -> None:
    """Stop a deployment and leave everything as it is now."""
    marathon = console.marathon()
    found = _find(marathon, deployment_id)
    marathon.stop_deployment(str(found["id"]))
    affected = ", ".join(_affected(found))
    console.tell(f"Stopped {found['id']}; {affected} stay as they are now", {"id": found["id"]}, names=[found["id"]])


def _find(marathon: Marathon, word: str | None) -> Mapping[str, Any]:
    """Return the deployment that a word means: its id, or how that begins. Raises NotFound, BadInput."""
    there = marathon.deployments()
    ids = [str(item.get("id")) for item in there]
    if word is None:
        if len(there) != 1:
            listed = f"{len(there)} are under way: {', '.join(ids)}" if there else "none is under way"
            raise (BadInput if there else NotFound)(f"which deployment? {listed}")
        return there[0]
    meant = [item for item in there if item.get("id") == word] or [
        item for item in there if str(item.get("id")).startswith(word)
    ]
    if len(meant) > 1:
        raise BadInput(f"{word} means {len(meant)} deployments: {', '.join(str(item.get('id')) for item in meant)}")
    if not meant:
        listed = f"under way: {', '.join(ids)}" if ids else "none is under way"
        raise NotFound(f"there is no deployment {word}{nearest(word, ids)}; {listed}. One that is done is forgotten")
    return meant[0]


def _affected(item: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in [*(item.get("affectedApps") or []), *(item.get("affectedPods") or [])]]


def _row(item: Mapping[str, Any]) -> list[object]:
    actions = sorted({str(action.get("action")) for action in item.get("currentActions") or []})
    # As `dcos`: steps that are done, of all.
    progress = f"{max(0, int(item.get('currentStep') or 0) - 1)}/{item.get('totalSteps', 0)}"
    return [item.get("id"), ", ".join(_affected(item)), ", ".join(actions) or "---", progress, item.get("version")]
