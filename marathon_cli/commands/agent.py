"""`mesos-gpu agent list, describe, drain, deactivate, reactivate, decommission`: the agents of the cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.changes.changes import Waiting, wait_options
from marathon_cli.clients.mesos import Cluster, Mesos, owners
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.screen.arguments import Whole
from marathon_cli.screen.output import Column, Table, columns, printable, say, table_lines, terminal_width
from marathon_cli.screen.units import mebibytes, span
from mesos_gpu.errors import BadInput, NotFound, TimeIsUp
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects
from mesos_gpu.mesos.clients.agents import SCALARS, Agent, find_agent, names, read_agent
from mesos_gpu.mesos.units import MIB

if TYPE_CHECKING:
    from marathon_cli.show.gpus import GpuLine


@click.command()
@click.argument("name", metavar="AGENT")
@output_options()
@target_options
@pass_console
def describe(console: Console, name: str) -> None:
    """Show all about one agent: its GPUs, what is taken, and by which tasks.

    AGENT is a hostname, hostname:port, an id, or the end of one, such as S3. The view is that of `kubectl describe
    node`: capacity is the machine's, allocatable what the agent offers, allocated what tasks have of it.
    """
    marathon = console.marathon()
    cluster = Cluster(marathon.mesos())
    click.get_current_context().call_on_close(cluster.close)
    agents = cluster.agents()
    agent = find_agent(agents, name)
    called = names(agents)[agent.id]
    tasks = cluster.tasks([agent])[agent.id]
    apps = owners(marathon.tasks())
    shown = cluster.gpus([agent])[agent.id]
    from marathon_cli.show.gpus import gpu_lines, untold

    gpus = gpu_lines(agent, called, shown, tasks, apps)
    machine = cluster.machine(agent)
    for reason in cluster.silent.values():
        say(f"agent {called} does not tell of its tasks and GPUs: {reason}")
    if gpus and shown is None and not cluster.silent:
        say(untold([called]))
    described = description(agent, called, gpus, tasks, machine, apps, now_s=time.time())
    if console.form in ("table", "wide"):
        narrow = console.form == "table" and sys.stdout.isatty()
        for line in lines_of(described, width=terminal_width() if narrow else None):
            click.echo(line)
    else:
        console.show(described, table=lambda: Table(()), names=[agent.id])


_UNITS = {"cpus": "", "gpus": "", "mem": " MiB", "disk": " MiB"}
_WITHDRAWN = ("draining", "unhealthy")
_LABEL = 14


def description(
    agent: Agent,
    called: str,
    gpus: Sequence[GpuLine],
    tasks: Sequence[Mapping[str, Any]],
    machine: Mapping[str, float],
    apps: Mapping[str, str],
    *,
    now_s: float,
) -> dict[str, Any]:
    """Return all about an agent.

    `capacity` is what the machine has (its GPUs, unhealthy ones included; what an agent does not tell of it is what it
    offers), `allocatable` what the agent offers, `allocated` what tasks and executors have of that. `tasks` are those
    of its /state, `machine` its /metrics/snapshot. Amounts of mem and disk are MiB, shares parts of the allocatable.
    """
    allocatable = {name: agent.amount("total", name) for name in SCALARS}
    allocated = {name: agent.amount("used", name) for name in SCALARS}
    capacity = dict(allocatable)
    if "system/cpus_total" in machine:
        capacity["cpus"] = machine["system/cpus_total"]
    if "system/mem_total_bytes" in machine:
        capacity["mem"] = float(machine["system/mem_total_bytes"] // MIB)
    if any(line.uuid for line in gpus):
        capacity["gpus"] = float(len(gpus))
    from marathon_cli.show.gpus import group_of

    held: dict[str, list[GpuLine]] = {}
    for line in gpus:
        if line.task is not None:
            held.setdefault(group_of(line.task), []).append(line)
    return {
        "name": called,
        "id": agent.id,
        "hostname": agent.hostname,
        "address": agent.address,
        "state": agent.state,
        "version": agent.version,
        "registered_s_ago": None if agent.registered_s is None else max(0, int(now_s - agent.registered_s)),
        "region": agent.region,
        "zone": agent.zone,
        "attributes": dict(agent.attributes),
        "capacity": capacity,
        "allocatable": allocatable,
        "allocated": allocated,
        "offered": {name: agent.amount("offered", name) for name in SCALARS},
        "free": {name: agent.amount("free", name) for name in SCALARS},
        "reserved": {
            role: {name: amounts[name] for name in SCALARS if amounts.get(name)}
            for role, amounts in agent.total.items()
            if role != "*" and any(amounts.get(name) for name in SCALARS)
        },
        "ports": agent.ports,
        "gpus": [line.document() for line in gpus],
        "tasks": [_task(task, held.get(group_of(str(task.get("id"))), []), apps, allocatable) for task in tasks],
        "warnings": _warnings(agent, gpus),
    }


def _task(
    task: Mapping[str, Any], held: Sequence[GpuLine], apps: Mapping[str, str], allocatable: Mapping[str, float]
) -> dict[str, Any]:
    from marathon_cli.show.gpus import indices

    amounts = {name: float((task.get("resources") or {}).get(name) or 0) for name in SCALARS}
    return {
        "id": task.get("id"),
        "app": apps.get(str(task.get("id"))),
        "framework": task.get("framework_name") or None,
        "state": task.get("state", "TASK_STAGING"),
        "resources": amounts,
        "share": {name: round(amounts[name] / total, 4) for name, total in allocatable.items() if total},
        "gpu_devices": [
            {"index": line.index, "uuid": line.uuid} for line in held if line.uuid or line.index is not None
        ],
        "devices": indices(held),
    }


def _warnings(agent: Agent, gpus: Sequence[GpuLine]) -> list[str]:
    found = []
    if not agent.active:
        found.append("the master has lost its connection to this agent")
    elif agent.state != "active":
        found.append(f"it gets no new tasks: it is {agent.state}")
    for line in gpus:
        if line.condition in _WITHDRAWN:
            found.append(f"GPU {line.index} is {line.condition}: {line.reason or 'no reason is given'}")
    free = {name: agent.amount("free", name) for name in SCALARS}
    total_gpus, free_gpus = agent.amount("total", "gpus"), free["gpus"]
    if total_gpus and free_gpus:
        short = [name for name in ("cpus", "mem") if not free[name]]
        if short:
            found.append(f"{free_gpus:g} free GPUs cannot be used: no {' and no '.join(short)} is left")
    return found


def lines_of(described: Mapping[str, Any], *, width: int | None) -> list[str]:
    """Return the description for people, for a terminal of `width` characters (None: none)."""
    seconds = described["registered_s_ago"]
    where = " / ".join(str(part) for part in (described["region"], described["zone"]) if part)
    facts = {
        "Name": described["name"],
        "Id": described["id"],
        "Address": described["address"],
        "State": described["state"],
        "Version": described["version"],
        "Registered": "" if seconds is None else f"{span(seconds)} ago",
        "Region / zone": where,
    }
    lines = [f"{label + ':':<{_LABEL}} {printable(value)}".rstrip() for label, value in facts.items() if value]
    attributes = [f"{name}={printable(value)}" for name, value in sorted(described["attributes"].items())]
    for index, text in enumerate(attributes or ["none"]):
        lines.append(f"{'Attributes:' if index == 0 else '':<{_LABEL}} {text}")
    for index, text in enumerate(described["warnings"]):
        lines.append(f"{'Warnings:' if index == 0 else '':<{_LABEL}} {printable(text)}")
    lines += ["", *table_lines(_resources(described), width=width)]
    if described["reserved"]:
        lines += ["", "Reserved"]
        for role, amounts in sorted(described["reserved"].items()):
            lines.append(f"  {printable(role)}: {', '.join(f'{name} {amount:g}' for name, amount in amounts.items())}")
    if described["gpus"]:
        lines += ["", *table_lines(_gpus(described), width=width)]
    if described["tasks"]:
        return [*lines, "", *table_lines(_tasks(described), width=width)]
    return [*lines, "", "No task runs here."]


def _resources(described: Mapping[str, Any]) -> Table:
    kinds = ("capacity", "allocatable", "allocated", "offered", "free")
    rows = []
    for name in SCALARS:
        total = described["allocatable"][name]
        cells: list[object] = [name]
        for kind in kinds:
            amount = described[kind][name]
            part = f" ({amount / total:.0%})" if kind == "allocated" and total else ""
            cells.append(f"{amount:g}{_UNITS[name]}{part}" if amount < 10000 else f"{amount:.0f}{_UNITS[name]}{part}")
        rows.append(cells)
    headers = ("RESOURCE", *(kind.upper() for kind in kinds))
    table = columns(*headers, numbers=headers[1:])
    return Table([table[0], table[1]._replace(rank=1), *table[2:4], table[4]._replace(rank=2), table[5]], rows)


def _gpus(described: Mapping[str, Any]) -> Table:
    rows = [
        [
            gpu.get("index", "---"),
            gpu.get("model", "---"),
            mebibytes(gpu.get("memory_mib")),
            gpu["condition"],
            gpu.get("app") or gpu.get("task") or "---",
        ]
        for gpu in described["gpus"]
    ]
    table = columns("GPU", "MODEL", "MEMORY", "HEALTH", "HOLDER", numbers=("GPU", "MEMORY"))
    model, memory, health, holder = table[1:]
    narrow = (model._replace(cut=True), memory._replace(rank=1), health, holder._replace(cut=True))
    return Table([table[0], *narrow], rows)


def _tasks(described: Mapping[str, Any]) -> Table:
    rows = []
    for task in described["tasks"]:
        amounts, share = task["resources"], task["share"]
        rows.append(
            [
                task["app"] or task["framework"] or "---",
                f"{amounts['gpus']:g}{_percent(share, 'gpus')}",
                task["devices"] or "---",
                f"{amounts['cpus']:g}{_percent(share, 'cpus')}",
                f"{amounts['mem']:g} MiB{_percent(share, 'mem')}",
                str(task["state"]).removeprefix("TASK_").lower(),
                task["id"],
            ]
        )
    headers = ("APP", "GPUS", "DEVICES", "CPUS", "MEM", "STATE", "TASK")
    table = columns(*headers, numbers=("GPUS", "CPUS", "MEM"))
    ranks = (0, 0, 0, 1, 2, 4, 3)
    return Table([column._replace(rank=rank) for column, rank in zip(table, ranks, strict=True)], rows)


def _percent(share: Mapping[str, float], name: str) -> str:
    return f" ({share[name]:.0%})" if share.get(name) else ""


_NONE = "no agents; `mesos-gpu up` starts a box with some, `mesos-gpu flags agent` prints the flags of one elsewhere"
_COLUMNS = (
    Column("AGENT"),
    Column("STATE"),
    Column("GPUS FREE", number=True),
    Column("CPUS FREE", number=True),
    Column("MEM FREE", number=True, rank=1),
    Column("ADDRESS", rank=3),
    Column("ID", rank=2),
    Column("ATTRIBUTES", rank=4, cut=True),
)
name_argument = click.argument("name", metavar="AGENT")


@click.command(name="list")
@click.argument("agent_names", metavar="[AGENT]...", nargs=-1)
@selector_option
@watch_options
@output_options()
@target_options
@pass_console
def list_agents(console: Console, agent_names: tuple[str, ...], label: str | None) -> None:
    """List the agents, how each is, and what it has free.

    --label is about their attributes.
    """
    mesos = console.mesos()
    terms = parse_selector(label or "")

    def look() -> None:
        documents = mesos.slaves()
        agents = sorted(map(read_agent, documents), key=lambda agent: (agent.hostname, agent.address))
        called = names(agents)
        if agent_names:
            wanted = [find_agent(agents, name).id for name in agent_names]
            agents = [agent for agent in agents if agent.id in wanted]
        agents = [agent for agent in agents if selects(terms, {k: str(v) for k, v in agent.attributes.items()})]
        documents = [document for document in documents if document.get("id") in {agent.id for agent in agents}]
        rows = [_row(agent, called[agent.id]) for agent in agents]
        console.show(documents, table=lambda: Table(_COLUMNS, rows), names=[agent.id for agent in agents], none=_NONE)

    console.repeat(look)


@click.command()
@name_argument
@click.option(
    "--max-grace-period",
    "grace_s",
    type=Whole(min=0),
    metavar="SECONDS",
    help="End tasks within this time, also those that ask for a longer one.",
)
@click.option(
    "--mark-gone", "--decommission", "mark_gone", is_flag=True, help="Once it is empty, never let it come back."
)
@wait_options(roll_back=False)
@output_options()
@target_options
@pass_console
def drain(console: Console, name: str, grace_s: int | None, mark_gone: bool, waiting: Waiting) -> None:
    """Take AGENT out of use: no more offers of it, and its tasks end, to be started elsewhere.

    AGENT is a hostname, hostname:port, an id, or the end of one, such as S3.
    """
    mesos = console.mesos()
    agent = _find(mesos, name)
    begin_to_drain(mesos, agent, grace_s, mark_gone=mark_gone)
    console.tell(
        f"Draining {agent.hostname} ({agent.id})", {"id": agent.id, "hostname": agent.hostname}, names=[agent.id]
    )
    console.goes_on = f"{agent.hostname} continues draining; `mesos-gpu agent list` shows when it is done"
    if waiting.wanted:
        wait_until_drained(mesos, agent, waiting.timeout_s)


@click.command()
@name_argument
@output_options()
@target_options
@pass_console
def deactivate(console: Console, name: str) -> None:
    """Make no more offers of AGENT; what runs there continues."""
    mesos = console.mesos()
    agent = _find(mesos, name)
    mesos.operate({"type": "DEACTIVATE_AGENT", "deactivate_agent": {"agent_id": {"value": agent.id}}})
    sentence = f"Deactivated {agent.hostname} ({agent.id}); `mesos-gpu agent reactivate {agent.id}` takes it back"
    console.tell(sentence, {"id": agent.id, "hostname": agent.hostname}, names=[agent.id])


@click.command()
@name_argument
@output_options()
@target_options
@pass_console
def reactivate(console: Console, name: str) -> None:
    """Make offers of AGENT again, after `deactivate` or a `drain` that is done."""
    mesos = console.mesos()
    agent = _find(mesos, name)
    mesos.operate({"type": "REACTIVATE_AGENT", "reactivate_agent": {"agent_id": {"value": agent.id}}})
    sentence = f"Reactivated {agent.hostname} ({agent.id})"
    console.tell(sentence, {"id": agent.id, "hostname": agent.hostname}, names=[agent.id])


@click.command()
@name_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@output_options()
@target_options
@pass_console
def decommission(console: Console, name: str, yes: bool) -> None:
    """End all tasks of AGENT and never let it come back.

    Its tasks are told to be gone at once, whether the machine answers or not. `drain --mark-gone` ends them first.
    """
    mesos = console.mesos()
    agent = _find(mesos, name)
    what = f"{agent.hostname} ({agent.id})"
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise BadInput(f"this would mark {what} as gone, forever; --yes confirms that")
        click.confirm(f"Mark {what} as gone, forever?", abort=True, err=True)
    mesos.operate({"type": "MARK_AGENT_GONE", "mark_agent_gone": {"agent_id": {"value": agent.id}}})
    console.tell(f"Marked {what} as gone", {"id": agent.id, "hostname": agent.hostname}, names=[agent.id])


def _find(mesos: Mesos, name: str) -> Agent:
    return find_agent([read_agent(document) for document in mesos.slaves()], name)


def _row(agent: Agent, called: str) -> list[object]:
    def free(name: str) -> str:
        # What is offered to a framework at this moment is not in use. A GPU that is ill may be, and counts for none.
        total = agent.amount("total", name)
        return f"{max(0.0, round(total - agent.amount('used', name), 3)):g}/{total:g}"

    attributes = ", ".join(f"{key}={value}" for key, value in sorted(agent.attributes.items()))
    return [called, agent.state, free("gpus"), free("cpus"), free("mem"), agent.address, agent.id, attributes]


PAUSE_S = 1.0


def begin_to_drain(mesos: Mesos, agent: Agent, grace_s: int | None, *, mark_gone: bool = False) -> None:
    """Have the master drain an agent; tasks end within `grace_s` where that is given. Raises Refused, Unavailable."""
    call: dict[str, object] = {"agent_id": {"value": agent.id}, "mark_gone": mark_gone}
    if grace_s is not None:
        call["max_grace_period"] = {"seconds": grace_s}
    mesos.operate({"type": "DRAIN_AGENT", "drain_agent": call})


def wait_until_drained(mesos: Mesos, agent: Agent, timeout_s: float, called: str = "") -> None:
    """Return when an agent is drained, or gone where that was asked for. Raises TimeIsUp.

    `called`: its name, where that is not its host's.
    """
    begun, said, name = time.monotonic(), "", called or agent.hostname
    while True:
        try:
            now = find_agent([read_agent(document) for document in mesos.slaves()], agent.id)
        except NotFound:
            say(f"{name} is gone")
            return
        if now.state == "drained":
            say(f"{name} is drained")
            return
        cpus, gpus = now.amount("used", "cpus"), now.amount("used", "gpus")
        text = f"{name} is {now.state}: tasks still have {cpus:g} CPUs and {gpus:g} GPUs of it"
        if text != said:
            say(text)
            said = text
        if timeout_s and time.monotonic() - begun >= timeout_s:
            raise TimeIsUp(f"{name} is not drained after {timeout_s:g} s; draining continues")
        time.sleep(PAUSE_S)
