"""`mesos-gpu service list, shutdown`: the frameworks that run tasks, Marathons among them, as the master knows them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options, watch_options
from marathon_cli.screen.arguments import nearest
from marathon_cli.screen.output import Column, Table
from mesos_gpu.errors import BadInput, NotFound

_NONE = "no services: no framework is registered with the master"
_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("TASKS", number=True),
    Column("GPUS", number=True),
    Column("CPUS", number=True, rank=2),
    Column("MEM", number=True, rank=2),
    Column("DISK", number=True, rank=4),
    Column("ROLES", rank=3, cut=True),
    Column("HOST", rank=3),
    Column("ID", rank=1),
)


@click.command(name="list")
@click.option("--inactive", is_flag=True, help="Also those that are away, and may come back.")
@click.option("--completed", is_flag=True, help="Also those that are gone.")
@watch_options
@output_options()
@target_options
@pass_console
def list_services(console: Console, inactive: bool, completed: bool) -> None:
    """List the frameworks that are registered with the master, and what their tasks have."""
    mesos = console.mesos()

    def look() -> None:
        found = mesos.ask_master("/frameworks", missing={})
        shown = [one for one in _all(found, "frameworks") if inactive or one.get("active")]
        if completed:
            shown += _all(found, "completed_frameworks")
        rows = [_row(one) for one in shown]
        console.show(
            shown, table=lambda: Table(_COLUMNS, rows), names=[str(one.get("id")) for one in shown], none=_NONE
        )

    console.repeat(look)


@click.command()
@click.argument("name", metavar="SERVICE")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@output_options()
@target_options
@pass_console
def shutdown(console: Console, name: str, yes: bool) -> None:
    """End all tasks of SERVICE and forget it: the framework can never come back under its id.

    SERVICE is a name, an id, or the end of one.
    """
    mesos = console.mesos()
    found = _find(_all(mesos.ask_master("/frameworks", missing={}), "frameworks"), name)
    tasks = len(found.get("tasks") or [])
    what = f"{found.get('name')} ({found.get('id')}) with {tasks} task{'' if tasks == 1 else 's'}"
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise BadInput(f"this would shut down {what}; --yes confirms that")
        click.confirm(f"Shut down {what}?", abort=True, err=True)
    mesos.operate({"type": "TEARDOWN", "teardown": {"framework_id": {"value": str(found.get("id"))}}})
    console.tell(f"Shut down {what}", {"id": found.get("id"), "name": found.get("name")}, names=[str(found.get("id"))])


def _all(found: Any, key: str) -> list[dict[str, Any]]:
    listed = found.get(key) if isinstance(found, dict) else None
    some = [one for one in listed or [] if isinstance(one, dict)]
    return sorted(some, key=lambda one: (str(one.get("name")), str(one.get("id"))))


def _find(frameworks: Sequence[Mapping[str, Any]], word: str) -> Mapping[str, Any]:
    """Return the framework that a word means. Raises NotFound, BadInput."""
    meant = (
        [one for one in frameworks if one.get("id") == word]
        or [one for one in frameworks if one.get("name") == word]
        or [one for one in frameworks if str(one.get("id")).endswith(word)]
    )
    if len(meant) > 1:
        raise BadInput(f"{word} means {len(meant)} services: {', '.join(str(one.get('id')) for one in meant)}")
    if not meant:
        names = sorted({str(one.get("name")) for one in frameworks})
        there = f"; there are: {', '.join(names)}" if names else "; there is none"
        raise NotFound(f"there is no service {word}{nearest(word, names)}{there}")
    return meant[0]


def _row(one: Mapping[str, Any]) -> list[object]:
    if one.get("unregistered_time"):
        state = "completed"
    else:
        state = "active" if one.get("active") else ("inactive" if one.get("connected") else "disconnected")
    used = one.get("used_resources") or {}
    amounts = [f"{float(used.get(name) or 0):g}" for name in ("gpus", "cpus", "mem", "disk")]
    roles = one.get("roles") or ([one["role"]] if one.get("role") else [])
    return [
        *(one.get("name"), state, len(one.get("tasks") or []), *amounts),
        *(", ".join(map(str, roles)) or "---", one.get("hostname") or "---", one.get("id")),
    ]
