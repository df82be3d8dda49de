"""`mesos-gpu agent describe`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from marathon_cli.clients.mesos import Cluster, owners
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Table, columns, printable, say, table_lines, terminal_width
from marathon_cli.screen.units import mebibytes, span
from marathon_cli.show.gpus import GpuLine, gpu_lines, group_of, indices, untold
from mesos_gpu.mesos.clients.agents import SCALARS, Agent, find_agent, names
from mesos_gpu.mesos.units import MIB


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
