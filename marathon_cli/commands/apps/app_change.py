"""`mesos-gpu app start, stop, scale, restart, kill, remove`: one call each."""

from __future__ import annotations

import click

from marathon_cli.api.apps import Apps
from marathon_cli.changes.change_target import ChangeTarget
from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.names import app_id, hints
from marathon_cli.screen.numbers import Whole
from mesos_gpu.errors import BadInput, Conflict

name_argument = click.argument("name", metavar="APP")


@click.command()
@name_argument
@click.argument("instances", type=Whole(min=1), default=1)
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def start(console: Console, name: str, instances: int, waiting: Waiting, force: bool) -> None:
    """Start APP, which has no instances, with INSTANCES of them."""
    _scale(console, name, instances, waiting, force=force, only_from_zero=True)


@click.command()
@name_argument
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def stop(console: Console, name: str, waiting: Waiting, force: bool) -> None:
    """Stop APP: no instances, and all its tasks end."""
    _scale(console, name, 0, waiting, force=force)


@click.command()
@name_argument
@click.argument("instances", type=Whole(min=0))
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def scale(console: Console, name: str, instances: int, waiting: Waiting, force: bool) -> None:
    """Run INSTANCES copies of APP."""
    _scale(console, name, instances, waiting, force=force)


def _scale(
    console: Console, name: str, instances: int, waiting: Waiting, *, force: bool, only_from_zero: bool = False
) -> None:
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        now = int(marathon.app(wanted).get("instances") or 0)
    if only_from_zero and now > 0:
        advice = f"`mesos-gpu app scale {wanted} {instances}` changes that"
        raise Conflict(f"{wanted} is started: it has {now} instances; {advice}")
    if now == instances and not force:
        raise Conflict(f"{wanted} has {now} instances already" if instances else f"{wanted} is stopped already")
    change = Apps(marathon).put(wanted, {"instances": instances}, force=force)
    value = {"id": wanted, "instances": instances}
    sentence = f"{wanted} goes from {now} to {instances} instances"
    finish(console, marathon, change, [ChangeTarget("app", wanted)], sentence, waiting, value=value)


@click.command()
@name_argument
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def restart(console: Console, name: str, waiting: Waiting, force: bool) -> None:
    """Replace all tasks of APP, as its upgradeStrategy says."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        if not marathon.app(wanted).get("instances"):
            raise Conflict(f"{wanted} is stopped; `mesos-gpu app start {wanted}` starts it")
    change = Apps(marathon).restart(wanted, force=force)
    finish(
        console, marathon, change, [ChangeTarget("app", wanted)], f"restarts {wanted}", waiting, value={"id": wanted}
    )


@click.command()
@name_argument
@click.option("--host", metavar="HOST", help="Only the tasks on this agent.")
@click.option(
    "--scale", "and_scale", is_flag=True, help="Lower the instances by as many, so that none is started again."
)
@click.option("--wipe", is_flag=True, help="Drop their persistent volumes, too.")
@force_option
@output_options()
@target_options
@pass_console
def kill(console: Console, name: str, host: str | None, and_scale: bool, wipe: bool, force: bool) -> None:
    """End the tasks of APP; others take their place."""
    if and_scale and wipe:
        raise BadInput("--scale and --wipe exclude each other")
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        there = [task for task in marathon.tasks(wanted) if host is None or task.get("host") == host]
    where = f" on {host}" if host else ""
    if not there:
        raise Conflict(f"{wanted} has no tasks{where}; nothing was ended")
    if and_scale:
        change = Apps(marathon).kill_and_scale(wanted, host=host, force=force)
        sentence = f"ends {len(there)} tasks of {wanted}{where} and lowers its instances by as many"
        finish(console, marathon, change, [ChangeTarget("app", wanted)], sentence, value={"id": wanted})
        return
    killed = Apps(marathon).kill(wanted, host=host, wipe=wipe)
    console.tell(f"Killed tasks: {', '.join(killed)}", {"tasks": killed}, names=killed)


@click.command()
@name_argument
@wait_options(roll_back=False)
@click.option(
    "--force/--no-force",
    default=True,
    show_default=True,
    help="Also while a deployment locks the app, as Marathon does.",
)
@output_options()
@target_options
@pass_console
def remove(console: Console, name: str, waiting: Waiting, force: bool) -> None:
    """Remove APP and end its tasks."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        change = Apps(marathon).remove(wanted, force=force)
    targets = [ChangeTarget("app", wanted, gone=True)]
    finish(console, marathon, change, targets, f"removes {wanted}", waiting, value={"id": wanted})
