"""`mesos-gpu task list`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from marathon_cli.clients.marathon import Marathon, Pods
from marathon_cli.clients.master_tasks import tasks_of
from marathon_cli.clients.task_names import TaskRef, matching, short_ids
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.screen.names import nearest
from marathon_cli.screen.output import Column, Table
from marathon_cli.show.gpu_lines import group_of
from marathon_cli.show.gpu_view import asked_gpus, held_gpus
from mesos_gpu.errors import InvalidApp, NotFound, Refused
from mesos_gpu.marathon.definitions.app_ids import canonical_id
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects
from mesos_gpu.marathon.why.suspended import is_suspended

_NONE = "no tasks; `mesos-gpu app add FILE` adds an app, `mesos-gpu task list --all` shows tasks that have ended, too"
_COLUMNS = (
    Column("APP", rank=1),
    Column("GPUS", number=True),
    Column("DEVICES"),
    Column("STATE"),
    Column("HOST", rank=2),
    Column("STARTED", rank=3),
    Column("ID", short=short_ids),
)

_PART = Column("GPU MEMORY")


@click.command(name="list")
@click.argument("name", metavar="[APP_OR_TASK]", required=False)
@selector_option
@click.option("--completed", is_flag=True, help="Those that have ended, as long as the master remembers them.")
@click.option("--all", "every", is_flag=True, help="Running and ended ones, of every framework.")
@click.option(
    "--agent-id", metavar="ID", help="Only those on this agent, of every framework; the end of an id will do."
)
@watch_options
@output_options()
@target_options
@pass_console
def list_tasks(
    console: Console, name: str | None, label: str | None, completed: bool, every: bool, agent_id: str | None
) -> None:
    """List the tasks of all apps, of one, or those that are named."""
    if completed and every:
        raise click.UsageError("--completed and --all exclude each other")
    if completed or every or agent_id is not None:
        _list_masters(console, name, label, True if completed else None if every else False, agent_id)
        return
    marathon = console.marathon()

    def look() -> None:
        tasks = _named(marathon, name)
        if label is not None:
            labelled = _labelled(marathon, label)
            tasks = [item for item in tasks if str(item.get("appId")) in labelled]
        gpus = asked_gpus(marathon, tasks)
        tasks = _with_devices(marathon, [{**item, "gpus": gpus.get(str(item.get("appId")))} for item in tasks])
        rows = [_row(item) for item in tasks]
        columns: tuple[Column, ...] = _COLUMNS
        if console.form == "wide" and any("gpuMemory" in item for item in tasks):
            columns = (*_COLUMNS[:3], _PART, *_COLUMNS[3:])
            rows = [[*row[:3], _part(item), *row[3:]] for row, item in zip(rows, tasks, strict=True)]
        table = Table(columns, rows)
        console.show(tasks, table=lambda: table, names=[str(item.get("id")) for item in tasks], none=_NONE)

    console.repeat(look)


def _named(marathon: Marathon, name: str | None) -> list[dict[str, Any]]:
    """Return the tasks of all apps, of one, or those that a name means. Raises NotFound."""
    if name is None:
        return marathon.tasks()
    try:
        return marathon.tasks(canonical_id(name))
    except (NotFound, InvalidApp) as error:
        there = marathon.tasks()
        meant = {one.id for one in matching([TaskRef.of(item) for item in there], name)}
        if not meant:
            known = [str(item.get("id")) for item in there] + marathon.app_ids()
            raise NotFound(f"there is no app or task {name}{nearest(name, known)}") from error
        return [item for item in there if item.get("id") in meant]


def _labelled(marathon: Marathon, label: str) -> set[str]:
    """Return the ids of the apps and pods whose labels a selector means."""
    found = {str(app.get("id")) for app in marathon.apps(label=label)}
    terms = parse_selector(label)
    try:
        specs = [pod.get("spec") or {} for pod in Pods(marathon).statuses()]
    except (NotFound, Refused):  # a Marathon without pods
        specs = []
    return found | {str(spec.get("id")) for spec in specs if selects(terms, spec.get("labels") or {})}


def _list_masters(
    console: Console, name: str | None, label: str | None, completed: bool | None, agent_id: str | None
) -> None:
    mesos = console.mesos()
    terms = parse_selector(label) if label is not None else None

    def look() -> None:
        found = tasks_of(mesos.tasks(), mesos.slaves(), name=name, completed=completed, agent_id=agent_id)
        found = [item for item in found if terms is None or selects(terms, _labels(item))]
        rows = [[*_row(item), item["endedAt"] or "---"] for item in found]
        table = Table(
            (*_COLUMNS[:-1], Column("ENDED", rank=3), _COLUMNS[-1]), [[*row[:6], row[7], row[6]] for row in rows]
        )
        console.show(found, table=lambda: table, names=[str(item.get("id")) for item in found], none=_NONE)

    console.repeat(look)


def _labels(task: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a task as the master lists them."""
    found = task.get("labels") or []
    return {str(item.get("key")): str(item.get("value", "")) for item in found if isinstance(item, dict)}


def _part(item: Mapping[str, Any]) -> str:
    """Return a task's part of each of its cards' memory, and what keeps it to that."""
    parts = item.get("gpuMemory") or []
    return ", ".join(f"{part['memoryMib']} MiB, {part['level']}" for part in parts) or "---"


def _row(item: Mapping[str, Any]) -> list[object]:
    return [
        item.get("appId") or "---",
        item["gpus"],
        ",".join(str(gpu.get("index", gpu.get("uuid"))) for gpu in item["gpuDevices"]) or "---",
        f"{item.get('state')}, suspended" if is_suspended(item) else item.get("state"),
        item.get("host"),
        item.get("startedAt") or item.get("stagedAt") or "---",
        item.get("id"),
    ]


def _with_devices(marathon: Marathon, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add which GPUs each task holds, as its agent tells; agents of Mesos' own do not."""
    # The tasks of a pod, which is not an app, share the GPUs of all its containers.
    wanting = [item for item in tasks if item["gpus"] != 0]
    held = held_gpus(marathon, wanting) if wanting else {}
    found = []
    for item in tasks:
        lines = held.get(group_of(str(item.get("id"))), [])
        mine = [{"index": gpu.index, "uuid": gpu.uuid} for gpu in lines]
        whole = len([gpu for gpu in lines if gpu.memory_level is None])
        found.append({**item, "gpus": whole if item["gpus"] is None else item["gpus"], "gpuDevices": mine})
        parts = [share for gpu in lines for share in gpu.shares if share[0] == item.get("id")]
        if parts:
            found[-1]["gpuMemory"] = [{"memoryMib": mib, "level": level} for _, mib, level in parts]
    return found
