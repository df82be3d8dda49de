"""`mesos-gpu agent list, drain, deactivate, reactivate, decommission`: the machines, by the master's own calls."""

from __future__ import annotations

import sys
import time

import click

from marathon_cli.changes.changes import Waiting, wait_options
from marathon_cli.clients.mesos import Mesos
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.screen.arguments import Whole
from marathon_cli.screen.output import Column, Table, say
from mesos_gpu.errors import BadInput, NotFound, TimeIsUp
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects
from mesos_gpu.mesos.clients.agents import Agent, find_agent, names, read_agent

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
