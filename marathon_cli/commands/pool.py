"""`mesos-gpu pool list, create, resize, delete`: the box's agents in groups, as `gcloud container node-pools`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from marathon_cli.commands.agent import begin_to_drain, wait_until_drained
from marathon_cli.console.connections import Connections
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import debug_option, output_options, work_dir_option
from marathon_cli.screen.arguments import Number, Whole
from marathon_cli.screen.output import Column, Table, say, table_lines, terminal_width
from marathon_cli.screen.units import NONE, mebibytes
from mesos_gpu.errors import BadInput, Conflict, NotFound
from mesos_gpu.mesos.clients.agents import Agent, read_agent
from mesos_gpu.mesos.tasks import is_terminal

Command = TypeVar("Command", bound=Callable[..., Any])
Pool = Mapping[str, Any]

_LIST = (
    Column("POOL"),
    Column("AGENTS", number=True),
    Column("GPUS EACH", number=True),
    Column("MODEL", cut=True),
    Column("MEMORY", number=True, rank=2),
    Column("DRIVER", rank=3),
    Column("CONSTRAINT", rank=1),
)
_MOVING = (Column("TASK", cut=True), Column("AGENT"), Column("GPUS", number=True), Column("CPUS", number=True, rank=1))
_DEFAULT = "default"
TIMEOUT_S = 300.0
name_argument = click.argument("name", metavar="POOL")


def _draining_options(command: Command) -> Command:
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
        click.option(
            "--max-grace-period",
            "grace_s",
            type=Whole(min=0),
            metavar="SECONDS",
            help="End tasks within this time, also those that ask for a longer one.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=Number(min=0),
            default=TIMEOUT_S,
            show_default=True,
            metavar="SECONDS",
            help="How long to wait until tasks have ended; 0: forever.",
        ),
    ):
        command = option(command)
    return command


def _box_options(command: Command) -> Command:
    return output_options()(debug_option(work_dir_option(command)))


@click.command(name="list")
@_box_options
@pass_console
def list_pools(console: Console) -> None:
    """List the pools of the box.

    CONSTRAINT is what an app's `constraints` say to run on agents of that pool alone; those of the pool `default` have
    no such attribute.
    """
    _show(console, _ask(console, {"ask": "pools"}))


@click.command()
@name_argument
@click.option(
    "--agents", "--num-nodes", type=Whole(min=0), default=1, show_default=True, metavar="N", help="How many agents."
)
@click.option("--gpus", type=Whole(min=0), default=4, show_default=True, metavar="N", help="GPUs of each agent.")
@click.option("--model", metavar="MODEL", help="What simulated GPUs are called, such as Tesla-T4.")
@click.option("--memory", metavar="SIZE", help="Memory of each simulated GPU, such as 15109MiB.")
@click.option("--driver", "--driver-version", metavar="VERSION", help="The driver's version that simulated GPUs show.")
@_box_options
@pass_console
def create(console: Console, /, name: str, **given: Any) -> None:
    """Add a pool of identical agents to the running box.

    They can be used when this returns, and come back at the next `mesos-gpu up`.
    """
    said = {"name": name, **{key: value for key, value in given.items() if value is not None}}
    if odd := [key for key, value in said.items() if "," in str(value)]:
        raise BadInput(f"{odd[0]}: {said[odd[0]]!r} has a comma in it")
    console.goes_on = "the box continues starting them; `mesos-gpu pool list` shows what there is"
    text = ",".join(f"{key}={value}" for key, value in said.items())
    pools = _ask(console, {"ask": "create", "pool": text})
    _tell(console, f"Created pool {name}: {_words(_find(pools, name))}", pools, name)


@click.command()
@name_argument
@click.argument("agents", type=Whole(min=0), metavar="AGENTS")
@click.option(
    "--drain", is_flag=True, help="Take away agents that have tasks, too: these end, to be started elsewhere."
)
@_draining_options
@_box_options
@pass_console
def resize(
    console: Console, name: str, agents: int, drain: bool, timeout_s: float, grace_s: int | None, yes: bool
) -> None:
    """Set the number of agents of a pool.

    Fewer: those go that have no tasks. Where too many have some this is refused, and says which tasks would move;
    with --drain they are moved.
    """
    pool = _find(_ask(console, {"ask": "pools"}), name)
    more = agents - len(pool["agents"])
    if more > 0:
        console.goes_on = "the box continues starting them; `mesos-gpu pool list` shows what there is"
        pools = _ask(console, {"ask": "grow", "name": name, "agents": more})
    elif more < 0:
        cluster = _Cluster.of(console)
        going = cluster.going(pool, -more)
        tasks = cluster.tasks_on(going)
        if tasks and not drain:
            _say_what_moves(tasks)
            raise Conflict(f"pool {name}: agents that would go have {_count(tasks)}; --drain moves them")
        _consent(tasks, f"This takes {_count(going, 'agent')} out of pool {name}.", yes)
        cluster.drain(console, going, grace_s, timeout_s)
        pools = _ask(console, {"ask": "remove", "agents": [one["number"] for one in going]})
    else:
        pools = _ask(console, {"ask": "pools"})
    _tell(console, f"Pool {name} has {_words(_find(pools, name))}", pools, name)


@click.command()
@name_argument
@_draining_options
@_box_options
@pass_console
def delete(console: Console, name: str, timeout_s: float, grace_s: int | None, yes: bool) -> None:
    """Drain the agents of a pool, and take them out of the box.

    Says which tasks will move, and asks. What these agents kept, sandboxes and images, is removed with them.
    """
    pools = _ask(console, {"ask": "pools"})
    pool = _find(pools, name)
    if not any(one["agents"] for one in pools if one["name"] != name):
        raise BadInput(f"pool {name} has the last agents of the box; `mesos-gpu down` ends the box")
    cluster = _Cluster.of(console)
    _consent(cluster.tasks_on(pool["agents"]), f"This deletes pool {name}, {_words(pool)}.", yes)
    cluster.drain(console, pool["agents"], grace_s, timeout_s)
    _tell(console, f"Deleted pool {name}", _ask(console, {"ask": "delete", "name": name}), name)


@dataclass(frozen=True)
class _Cluster:
    """The master's view of the box's agents, which it knows by their address."""

    mesos: Any

    @classmethod
    def of(cls, console: Console) -> _Cluster:
        """Return that of this machine's box, whatever other server is set: its agents are what is about to go."""
        mesos = Connections({}, None, console.box_dir()).mesos()
        click.get_current_context().call_on_close(mesos.close)
        return cls(mesos)

    def agents(self) -> dict[str, Agent]:
        """Return the agents that the master has, by address."""
        return {agent.address: agent for agent in map(read_agent, self.mesos.slaves())}

    def tasks_on(self, agents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the tasks that run on these agents, with the agent's name in the box."""
        known = self.agents()
        names = {known[at].id: one["name"] for one in agents if (at := _address(one)) in known}
        return [
            {**task, "agent": names[task["slave_id"]]}
            for task in self.mesos.tasks()
            if task.get("slave_id") in names and not is_terminal(str(task.get("state")))
        ]

    def going(self, pool: Pool, count: int) -> list[Mapping[str, Any]]:
        """Return which agents of a pool go: those with the fewest tasks, of these the newest."""
        busy = Counter(task["agent"] for task in self.tasks_on(pool["agents"]))
        order = sorted(pool["agents"], key=lambda one: (busy[one["name"]], -one["number"]))
        return order[:count]

    def drain(
        self, console: Console, agents: Sequence[Mapping[str, Any]], grace_s: int | None, timeout_s: float
    ) -> None:
        """Drain agents and wait until they have no tasks. One that the master does not have has none to end."""
        known = self.agents()
        draining = [(known[at], str(one["name"])) for one in agents if (at := _address(one)) in known]
        console.goes_on = (
            "the agents continue draining; the same command continues from there, and "
            "`mesos-gpu agent reactivate` takes an agent back into use"
        )
        for agent, _ in draining:
            if agent.state in ("active", "deactivated"):
                begin_to_drain(self.mesos, agent, grace_s)
        for agent, called in draining:
            wait_until_drained(self.mesos, agent, timeout_s, called)
        console.goes_on = "the box continues ending them; `mesos-gpu pool list` shows what there is"


def _ask(console: Console, request: Mapping[str, Any]) -> list[Pool]:
    from mesos_gpu import local

    pools = local.ask(console.box_dir().expanduser().absolute(), request)["pools"]
    return list(pools)


def _find(pools: Sequence[Pool], name: str) -> Pool:
    found = next((pool for pool in pools if pool["name"] == name), None)
    if found is None:
        there = ", ".join(str(pool["name"]) for pool in pools) or "none"
        raise NotFound(f"there is no pool {name!r} in the box; there are: {there}")
    return found


def _consent(tasks: Sequence[Mapping[str, Any]], sentence: str, yes: bool) -> None:
    """Say what moves, and ask. Raises BadInput where nobody can answer and tasks would move."""
    if tasks:
        _say_what_moves(tasks)
    say(sentence)
    if yes:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        click.confirm("Go on?", default=False, abort=True, err=True)
    elif tasks:
        raise BadInput(f"{_count(tasks)} would move; --yes confirms that")


def _say_what_moves(tasks: Sequence[Mapping[str, Any]]) -> None:
    say(f"{_count(tasks)} will end there; what starts them (Marathon, jobs) starts them again where there is room:")
    rows = [[task.get("id"), task["agent"], _amount(task, "gpus"), _amount(task, "cpus")] for task in tasks]
    for line in table_lines(Table(_MOVING, rows), width=terminal_width() if sys.stderr.isatty() else None):
        say(f"  {line}")


def _show(console: Console, pools: list[Pool]) -> None:
    rows = [
        [
            *(pool["name"], len(pool["agents"]), pool["gpus"], pool["model"] or NONE),
            mebibytes(pool["memoryMib"]),
            *(pool["driver"] or NONE, NONE if pool["name"] == _DEFAULT else f"pool:IS:{pool['name']}"),
        ]
        for pool in pools
    ]
    console.show(pools, table=lambda: Table(_LIST, rows), names=[str(pool["name"]) for pool in pools])


def _tell(console: Console, sentence: str, pools: list[Pool], name: str) -> None:
    console.goes_on = ""
    console.tell(sentence, pools, names=[name])


def _words(pool: Pool) -> str:
    each = pool["gpus"]
    model = f" {pool['model']}" if pool["model"] else ""
    return f"{_count(pool['agents'], 'agent')} with {each or 'no'}{model} GPU{'' if each == 1 else 's'} each"


def _count(things: Sequence[object], noun: str = "task") -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _amount(task: Mapping[str, Any], name: str) -> str:
    return f"{float((task.get('resources') or {}).get(name) or 0):g}"


def _address(agent: Mapping[str, Any]) -> str:
    return str(agent["url"]).rpartition("/")[2]
