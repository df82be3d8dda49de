"""`mesos-gpu task`: list, log."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from marathon_cli.changes.rollout import failure_text
from marathon_cli.clients.client import Marathon
from marathon_cli.clients.master_tasks import tasks_of
from marathon_cli.clients.sandbox import Mesos
from marathon_cli.clients.task_names import TaskRef, matching, short_ids
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options, watch_options
from marathon_cli.screen.numbers import Whole
from marathon_cli.screen.output import Column, Table, say
from marathon_cli.show import follow as following
from marathon_cli.show.files import inside
from marathon_cli.show.gpu_lines import group_of
from marathon_cli.show.gpu_view import asked_gpus, held_gpus
from mesos_gpu.errors import Conflict, InvalidApp, NotFound
from mesos_gpu.marathon.definitions.app_ids import canonical_id

_PAUSE_S = 0.5
_COLUMNS = (
    Column("APP", rank=1),
    Column("GPUS", number=True),
    Column("DEVICES"),
    Column("STATE"),
    Column("HOST", rank=2),
    Column("STARTED", rank=3),
    Column("ID", short=short_ids),
)


@click.command(name="list")
@click.argument("app_id", metavar="[APP]", required=False)
@click.option("--completed", is_flag=True, help="Those that have ended, as long as the master remembers them.")
@click.option("--all", "every", is_flag=True, help="Running and ended ones, of every framework.")
@click.option(
    "--agent-id", metavar="ID", help="Only those on this agent, of every framework; the end of an id will do."
)
@watch_options
@output_options()
@target_options
@pass_console
def list_tasks(console: Console, app_id: str | None, completed: bool, every: bool, agent_id: str | None) -> None:
    """List the tasks of all apps, or of APP."""
    if completed and every:
        raise click.UsageError("--completed and --all exclude each other")
    if completed or every or agent_id is not None:
        _list_masters(console, app_id, True if completed else None if every else False, agent_id)
        return
    marathon = console.marathon()
    wanted = None if app_id is None else canonical_id(app_id)

    def look() -> None:
        tasks = marathon.tasks(wanted)
        gpus = asked_gpus(marathon, tasks)
        tasks = _with_devices(marathon, [{**item, "gpus": gpus.get(str(item.get("appId")))} for item in tasks])
        table = Table(_COLUMNS, [_row(item) for item in tasks])
        console.show(tasks, table=lambda: table, names=[str(item.get("id")) for item in tasks])

    console.repeat(look)


def _list_masters(console: Console, name: str | None, completed: bool | None, agent_id: str | None) -> None:
    mesos = console.mesos()

    def look() -> None:
        found = tasks_of(mesos.tasks(), mesos.slaves(), name=name, completed=completed, agent_id=agent_id)
        rows = [[*_row(item), item["endedAt"] or "---"] for item in found]
        table = Table(
            (*_COLUMNS[:-1], Column("ENDED", rank=3), _COLUMNS[-1]), [[*row[:6], row[7], row[6]] for row in rows]
        )
        console.show(found, table=lambda: table, names=[str(item.get("id")) for item in found])

    console.repeat(look)


def _row(item: Mapping[str, Any]) -> list[object]:
    return [
        item.get("appId") or "---",
        item["gpus"],
        ",".join(str(gpu.get("index", gpu.get("uuid"))) for gpu in item["gpuDevices"]) or "---",
        item.get("state"),
        item.get("host"),
        item.get("startedAt") or item.get("stagedAt") or "---",
        item.get("id"),
    ]


def _with_devices(marathon: Marathon, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add which GPUs each task holds, as its agent tells; agents of Mesos' own do not."""
    # The tasks of a pod, which is no app, share the GPUs of all its containers.
    wanting = [item for item in tasks if item["gpus"] != 0]
    held = held_gpus(marathon, wanting) if wanting else {}
    found = []
    for item in tasks:
        mine = [{"index": gpu.index, "uuid": gpu.uuid} for gpu in held.get(group_of(str(item.get("id"))), [])]
        found.append({**item, "gpus": len(mine) if item["gpus"] is None else item["gpus"], "gpuDevices": mine})
    return found


@click.command()
@click.argument("name", metavar="APP_OR_TASK")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Keep following until the task ends; Ctrl-C stops it.")
@click.option("--stderr", "stderr_file", is_flag=True, help="Show stderr, not stdout.")
@click.option("--completed", is_flag=True, help="Also of tasks that have ended.")
@click.option("--lines", "-n", type=Whole(min=0), metavar="N", help="Start N lines before the end.")
@target_options
@pass_console
def log(
    console: Console, name: str, file: str | None, follow: bool, stderr_file: bool, completed: bool, lines: int | None
) -> None:
    """Print what a task writes: the file stdout of its sandbox, or another FILE there.

    For an app, of all its tasks; of the one that failed last when none runs. A task of another framework is named by
    its id, the beginning of one, or a pattern.
    """
    if file is not None and stderr_file:
        raise click.UsageError("give a FILE or --stderr, not both")
    marathon = console.marathon()
    mesos = console.mesos(marathon)
    path = inside(file or ("stderr" if stderr_file else "stdout"))
    while True:
        wanted = _all_tasks(mesos, name) if completed else _tasks(marathon, mesos, name)
        try:
            logs = [following.Log.of(mesos.sandbox(one.id, one.agent_id), path, lines) for one in wanted]
        except NotFound as error:
            failure = wanted[0].failure
            if failure is not None:
                raise NotFound(f"{error}; it ended before it could write anything: {failure}") from None
            if not follow or not wanted[0].known:
                raise
            logs = []  # it is being started
        if logs:
            break
        if not follow:
            raise Conflict(f"{name} has no task yet: it waits for resources, or for the end of a delay")
        time.sleep(_PAUSE_S)
    logs = following.still_there(logs, say)
    if wanted[0].failure is not None:
        say(f"no task of {name} runs; this is the last one that failed: {wanted[0].failure}")
    printer = following.Printer(sys.stdout.buffer, headlines=len(logs) > 1)
    if follow:
        for log in logs if file is not None else ():
            if log.file.size() is None:
                say(f"task {log.sandbox.task_id} has no file {path} yet: waiting for it")
        following.follow(logs, printer, mesos, sleep=time.sleep, say=say)
        return
    missing = following.show(logs, printer)
    if missing and file is not None:
        where = "; `mesos-gpu task ls TASK` lists what there is"
        raise NotFound("\n".join(f"task {log.sandbox.task_id} has no file {path}" for log in missing) + where)
    for log in missing:
        say(f"task {log.sandbox.task_id} has no {path} yet")


class _Wanted(NamedTuple):
    """A task to show: `known` to Marathon or only by its id; `failure` when it is an app's last failed one."""

    id: str
    agent_id: str | None = None
    known: bool = True
    failure: str | None = None


def _tasks(marathon: Marathon, mesos: Mesos, name: str) -> list[_Wanted]:
    """Return the tasks that `name` means; none when its app has had none yet. Raises NotFound."""
    for item in marathon.tasks():
        if item.get("id") == name:
            return [_Wanted(name, item.get("slaveId"))]
    try:
        app = marathon.app(canonical_id(name))
    except (NotFound, InvalidApp):
        if ".instance-" in name:
            # Marathon forgets tasks that have ended; their agent still has the files.
            return [_Wanted(name, known=False)]
        other = _all_tasks(mesos, name, ended=False)
        if other:
            return other
        raise NotFound(_unknown(marathon, name)) from None
    placed = [_Wanted(str(item["id"]), item["slaveId"]) for item in app.get("tasks") or [] if item.get("slaveId")]
    if placed:
        return sorted(placed)
    failure = app.get("lastTaskFailure")
    return [_Wanted(str(failure["taskId"]), failure.get("slaveId"), failure=failure_text(failure))] if failure else []


def _all_tasks(mesos: Mesos, name: str, *, ended: bool = True) -> list[_Wanted]:
    """Return the tasks of any framework that `name` means, with `ended` also those. Raises NotFound, with `ended`."""
    tasks = [TaskRef.of(task) for task in mesos.tasks()]
    found = [_Wanted(one.id, one.agent_id, known=False) for one in matching(tasks, name) if ended or not one.ended]
    if ended and not found:
        raise NotFound(f"the master knows no task {name}, running or ended")
    return found


def _unknown(marathon: Marathon, name: str) -> str:
    ids = [str(item.get("id")) for item in marathon.apps()]
    near = difflib.get_close_matches(f"/{name.strip('/')}", ids, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; `mesos-gpu task list` shows what there is"
    return f"there is no app or task {name}{hint}"
