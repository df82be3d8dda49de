"""`mesos-gpu task list`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.clients.marathon import Marathon, Pods
from marathon_cli.clients.task_names import SHORTEST, TaskRef, matching, short_ids, tasks_of
from marathon_cli.commands.task_exec import container_of, find_task
from marathon_cli.console.console import Console, local_agent, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.screen.arguments import Number, nearest
from marathon_cli.screen.output import Column, Table, columns
from marathon_cli.screen.units import amount, mebibytes, size
from marathon_cli.show.gpus import asked_gpus, group_of, held_gpus
from mesos_gpu.errors import BadInput, InvalidApp, NotFound, Refused
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


@click.command()
@click.option("--details", is_flag=True, help="Show every number that the agent measures.")
@click.option(
    "--interval",
    type=Number(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long CPU use is watched.",
)
@click.argument("task", metavar="TASK")
@output_options()
@target_options
@pass_console
def metrics(console: Console, details: bool, interval: float, task: str) -> None:
    """Show what TASK uses: CPUs, memory, disk, and each of its GPUs.

    GPUs are shown by this project's agents; Mesos' own do not measure them.
    """
    agent, found = find_task(console, task)
    container_id = container_of(found)

    def measure() -> Document:
        answer = agent.ask("GET", "/containers", query={"show_nested": "true"})
        if not answer.ok:
            said = answer.text.strip() or answer.reason
            raise Refused(f"{agent.url} does not tell what tasks use: {said}", status=answer.status_code)
        measured = container(agent.read(answer), container_id)
        if measured is None:
            raise NotFound(f"the agent {agent.url} has no container of task {found.id} (any more)")
        return measured

    before = measure()

    def table() -> Table:
        if details:
            return Table(columns("NAME", "VALUE"), metric_rows(before))
        time.sleep(interval)
        rows = summary(before, measure())
        return Table((Column("RESOURCE"), Column("USED", number=True), Column("OF", number=True)), rows)

    console.show(before, table=table, names=[found.id])


_agent_option = click.option(
    "--agent",
    "url",
    metavar="URL",
    help="The agent to ask; default: that of TASK, as the master names it.",
)


@click.command()
@click.argument("task", metavar="TASK")
@_agent_option
@output_options()
@target_options
@pass_console
def suspend(console: Console, task: str, url: str | None) -> None:
    """Put away what TASK has on its GPUs, and let others have those, until it is resumed.

    Its memory on GPUs is copied to the machine's; it stands still at its next CUDA call, is not ended, and stays
    TASK_RUNNING. It needs NVIDIA's driver 570 or newer, or simulated GPUs. The agent that TASK runs on does it,
    for those on its own machine.
    """
    _do(console, task, url, "suspend", "Suspended {}: its GPUs are free for others; `mesos-gpu task resume` ends that")


@click.command()
@click.argument("task", metavar="TASK")
@_agent_option
@output_options()
@target_options
@pass_console
def resume(console: Console, task: str, url: str | None) -> None:
    """Give a suspended TASK GPUs again, and let it go on where it stood.

    It has as many as before, of the same model, and maybe others. When other tasks have them, it stays suspended.
    """
    _do(console, task, url, "resume", "Resumed {}")


def _do(console: Console, task: str, url: str | None, what: str, sentence: str) -> None:
    from mesos_gpu.doors.common.agent import SUSPENDING_S, Book

    agent, found = find_task(console, task)
    container = container_of(found)
    while "parent" in container:
        container = container["parent"]
    suspended: list[Any]
    if url is not None:
        suspended = Book(local_agent(console, url)).suspending(what, str(container["value"]))
    else:
        answer = agent.ask("POST", f"/gpus/{what}", body={"container_id": container["value"]}, read_s=SUSPENDING_S)
        if not answer.ok:
            said = answer.text.strip() or answer.reason
            if answer.status_code == 404 and not answer.text.strip():
                said = f"the agent {agent.url} is none of this project's: it suspends nothing"
            elif said.startswith("Only this machine"):
                said += f" {found.id} runs on the agent {agent.url}: use this command there."
            raise Refused(said, status=answer.status_code)
        suspended = agent.read(answer)
    console.tell(sentence.format(found.id), {"task": found.id, "suspended": suspended}, names=[found.id])


Document = Mapping[str, Any]


def container(containers: Sequence[Document], container_id: Document) -> Document | None:
    """Return what an agent's /containers says of a container; the root of a nested one if it is not there itself."""
    at: Document | None = container_id
    while at is not None:
        found = next((one for one in containers if same(one, at)), None)
        if found is not None:
            return found
        at = at.get("parent")
    return None


def same(shown: Document, container_id: Document) -> bool:
    """Return whether /containers shows the container of this id."""
    said = (shown.get("status") or {}).get("container_id")
    if said is None:
        return shown.get("container_id") == container_id.get("value") and "parent" not in container_id
    return _name(said) == _name(container_id)


def cpus_used(before: Document, after: Document) -> float | None:
    """Return how many CPUs were used between two measurements; None when that cannot be known."""
    first, last = before.get("statistics") or {}, after.get("statistics") or {}
    try:
        seconds = float(last["timestamp"]) - float(first["timestamp"])
        return max(0.0, _cpu_seconds(last) - _cpu_seconds(first)) / seconds if seconds > 0 else None
    except (LookupError, TypeError, ValueError):
        return None


def summary(before: Document, after: Document) -> list[tuple[str, str, str]]:
    """Return rows of what is used, of how much: CPUs, memory, disk, network, each GPU. `---` is not known."""
    said = after.get("statistics") or {}
    limit = said.get("cpus_limit", said.get("cpus_soft_limit"))
    rows = [
        ("cpus", amount(cpus_used(before, after), digits=2), amount(limit, digits=2)),
        ("mem", size(said.get("mem_rss_bytes", said.get("mem_total_bytes"))), size(said.get("mem_limit_bytes"))),
        ("disk", size(said.get("disk_used_bytes")), size(said.get("disk_limit_bytes"))),
        ("processes", amount(said.get("processes")), "---"),
    ]
    for gpu in after.get("gpus") or ():
        name = f"gpu {gpu.get('index', gpu.get('minor', '?'))}"
        rows += [
            (name, amount(gpu.get("utilization_percent"), "%"), str(gpu.get("name", "---"))),
            (
                f"{name} mem",
                mebibytes(gpu.get("memory_used_mib")),
                mebibytes(gpu.get("memory_total_mib")),
            ),
        ]
    return rows


def metric_rows(measured: Document) -> list[tuple[str, str]]:
    """Return every number that was measured, by name; those of GPUs as gpus.INDEX.NAME."""
    said = measured.get("statistics") or {}
    rows = [(str(name), _plain(value)) for name, value in sorted(said.items()) if not isinstance(value, (dict, list))]
    for gpu in measured.get("gpus") or ():
        index = gpu.get("index", gpu.get("minor", "?"))
        rows += [(f"gpus.{index}.{name}", _plain(value)) for name, value in gpu.items() if name != "index"]
    return rows


def _cpu_seconds(said: Document) -> float:
    return float(said["cpus_user_time_secs"]) + float(said["cpus_system_time_secs"])


def _name(container_id: Document) -> str:
    parent = container_id.get("parent")
    value = str(container_id.get("value"))
    return f"{_name(parent)}.{value}" if parent else value


def _plain(value: object) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
