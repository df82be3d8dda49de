"""`mesos-gpu share`: list, set. Cards that several tasks share: who has which part, and changes while they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from marathon_cli.clients.mesos import Cluster
from marathon_cli.console.console import Console, local_agent, pass_console
from marathon_cli.console.options import debug_option, output_options, target_options, watch_options, work_dir_option
from marathon_cli.screen.arguments import Whole
from marathon_cli.screen.output import Column, Table, say
from marathon_cli.screen.units import NONE, mebibytes
from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.marathon.model.task_ids import app_of
from mesos_gpu.mesos.clients.agents import names
from mesos_gpu.mesos.shares.gpu_shares import CARDS_ATTRIBUTE

POLICIES = ("fair", "preemptive", "weighted", "fixed", "weak", "native")
"""By number."""


@dataclass(frozen=True, slots=True)
class ShareLine:
    """One part of a card, or a card of which nobody has a part: then all that is of a part is None."""

    agent: str
    card: int
    uuid: str
    policy: str
    max_inst: int
    free_weight: int
    prio_ratio: int
    memory_mib: int
    level: str
    container: str | None = None
    task: str | None = None
    app: str | None = None
    weight: int | None = None
    high_priority: bool | None = None
    part_mib: int | None = None
    used_mib: int | None = None
    given: float | None = None
    """Which part of the card it is to have now, 0 to 1."""
    used_s: float | None = None
    frozen_s: float | None = None

    @property
    def holder(self) -> str:
        """Return who has it, in a word."""
        return self.app or self.task or self.container or "---"

    def document(self) -> dict[str, Any]:
        """Return it for programs; what is not known is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def share_lines(agent: str, cards: Sequence[Mapping[str, Any]]) -> list[ShareLine]:
    """Return what an agent's /gpu_shares has, by card."""
    lines = []
    for card in sorted(cards, key=lambda card: int(card["index"])):
        number = int(card["policy"])
        blank: dict[str, Any] = {
            "agent": agent,
            "card": int(card["index"]),
            "uuid": str(card["uuid"]),
            "policy": POLICIES[number] if 0 <= number < len(POLICIES) else str(number),
            "max_inst": int(card["max_inst"]),
            "free_weight": int(card["free_weight"]),
            "prio_ratio": int(card["prio_ratio"]),
            "memory_mib": int(card["memory_mib"]),
            "level": str(card.get("memory_level", "advisory")),
        }
        for one in card["containers"]:
            task = str(one["task_id"]) if one.get("task_id") else None
            lines.append(
                ShareLine(
                    **{**blank, "level": str(one.get("memory_level", blank["level"]))},
                    container=str(one["container_id"]),
                    task=task,
                    app=None if task is None else app_of(task),
                    weight=int(one["weight"]),
                    high_priority=bool(one["high_priority"]),
                    part_mib=int(one["memory_mib"]),
                    used_mib=one.get("memory_used_mib"),
                    given=one.get("part"),
                    used_s=one.get("used_s"),
                    frozen_s=one.get("frozen_s"),
                )
            )
        if not card["containers"]:
            lines.append(ShareLine(**blank))
    return lines


def policy_number(word: str) -> int:
    """Return the number of a policy, given by name or number. Raises BadInput."""
    if word.isdecimal() and int(word) < len(POLICIES):
        return int(word)
    if word.lower() in POLICIES:
        return POLICIES.index(word.lower())
    names = ", ".join(f"{number} {name}" for number, name in enumerate(POLICIES))
    raise BadInput(f"'{word}' is not a policy: {names}")


def _begins(line: ShareLine, word: str) -> bool:
    """Return whether an id begins so; a number is a card's, and no beginning."""
    names = (line.container, line.task)
    return not word.isdecimal() and any(name is not None and name.startswith(word) for name in names)


def target_of(lines: Sequence[ShareLine], word: str) -> tuple[int | None, str | None]:
    """Return the card, or the container, that a word means: a card's index or UUID, or a container, task or app.

    The beginning of a container's or task's id will do. Raises NotFound, BadInput when it means several.
    """
    cards = {line.card for line in lines if word in (str(line.card), line.uuid)}
    if cards:
        return cards.pop(), None
    exact = [line for line in lines if word in (line.container, line.task, line.app, f"/{word}")]
    exact = exact or [line for line in lines if line.app == f"/{word}"]
    found = exact or [line for line in lines if _begins(line, word)]
    containers = sorted({str(line.container) for line in found})
    if len(containers) == 1:
        return None, containers[0]
    if containers:
        raise BadInput(f"'{word}' means {len(containers)} containers: {', '.join(containers)}; name one of them")
    here = ", ".join(sorted({str(line.card) for line in lines})) or "none"
    holders = ", ".join(sorted({line.holder for line in lines if line.container})) or "none"
    raise NotFound(f"no shared card and no task with a part of one is called '{word}'; cards: {here}; tasks: {holders}")


_COLUMNS = (
    Column("AGENT"),
    Column("GPU", number=True),
    Column("POLICY", rank=2),
    Column("SLICES", number=True, rank=3),
    Column("FREE", number=True, rank=3),
    Column("HOLDER", cut=True),
    Column("WEIGHT", number=True),
    Column("PRIO", rank=4),
    Column("MEMORY", number=True),
    Column("USED", number=True, rank=1),
    Column("LEVEL"),
    Column("SHARE", number=True, rank=1),
    Column("CONTAINER", rank=5),
)
_EMPTY = "no agent shares GPUs: its --shared_gpus names those that tasks share"


@click.command(name="list")
@watch_options
@output_options()
@target_options
@pass_console
def list_shares(console: Console) -> None:
    """List the GPUs that tasks share: who has which part, and what keeps it to that.

    FREE are slices of compute that are nobody's, SHARE is the part of the card's time that a task is to have now: all
    of it while nobody waits.
    """
    marathon = console.marathon()
    cluster = Cluster(marathon.mesos())
    click.get_current_context().call_on_close(cluster.close)

    def look() -> None:
        cluster.silent.clear()
        agents = cluster.agents()
        called = names(agents)
        shown = cluster.shares([agent for agent in agents if CARDS_ATTRIBUTE in agent.attributes])
        for agent_id, reason in cluster.silent.items():
            say(f"agent {called[agent_id]} does not tell of its shares: {reason}")
        lines = [line for agent_id, cards in shown.items() for line in share_lines(called[agent_id], cards or [])]
        _show(console, lines)

    console.repeat(look)


@click.command(name="set")
@click.argument("target", metavar="GPU_OR_TASK")
@click.option("--policy", metavar="POLICY", help=f"How tasks take turns on the GPU: {', '.join(POLICIES)}, or 0 to 5.")
@click.option("--max-inst", type=Whole(min=1), metavar="N", help="Into how many slices the GPU is divided, 1 to 25.")
@click.option(
    "--prio-ratio", type=Whole(min=1), metavar="PERCENT", help="What tasks of high priority may take, 20 to 99."
)
@click.option("--weight", type=Whole(min=1), metavar="N", help="How many slices of compute the task has.")
@click.option("--high-priority/--no-high-priority", default=None, help="Whether the task is served before others.")
@click.option(
    "--agent", "url", metavar="URL", help="The agent of this machine; default: the box's, else http://127.0.0.1:5051."
)
@output_options()
@work_dir_option
@debug_option
@pass_console
def set_share(
    console: Console,
    target: str,
    policy: str | None,
    max_inst: int | None,
    prio_ratio: int | None,
    weight: int | None,
    high_priority: bool | None,
    url: str | None,
) -> None:
    """Change how a GPU of this machine is shared, or the part of a task, at once and until it is changed again.

    A GPU is named by index or UUID, and has --policy, --max-inst and --prio-ratio; a task by its app, its id or its
    container, and has --weight and --high-priority. An agent takes changes from its own machine.
    """
    from mesos_gpu.doors.common.agent import Book

    whole = {"max_inst": max_inst, "prio_ratio": prio_ratio}
    of_task = {"weight": weight, "high_priority": high_priority}
    card_said: dict[str, Any] = {name: value for name, value in whole.items() if value is not None}
    task_said: dict[str, Any] = {name: value for name, value in of_task.items() if value is not None}
    if policy is not None:
        card_said["policy"] = policy_number(policy)
    if bool(card_said) == bool(task_said):
        raise click.UsageError("say what of a GPU (--policy, --max-inst, --prio-ratio), or of a task (--weight, ...)")
    book = Book(local_agent(console, url))
    card, container = target_of(share_lines("", book.shares()), target)
    if (card is None) == bool(card_said):
        kind, has = ("a GPU", "--policy, --max-inst, --prio-ratio") if card is not None else ("a task", "--weight, ...")
        raise click.UsageError(f"{target} is {kind}, which has {has}")
    said = {"card": card, **card_said} if card is not None else {"container_id": container, **task_said}
    lines = share_lines("this machine", book.set_share(said))
    _show(
        console, [line for line in lines if (line.card == card if container is None else line.container == container)]
    )


def _show(console: Console, lines: list[ShareLine]) -> None:
    table = Table(_COLUMNS, [_row(line) for line in lines])
    shown = [line.container for line in lines if line.container]
    console.show([line.document() for line in lines], table=lambda: table, names=shown, none=_EMPTY)


def _row(line: ShareLine) -> list[object]:
    used = mebibytes(line.used_mib)
    return [
        line.agent,
        line.card,
        line.policy,
        line.max_inst,
        line.free_weight,
        line.holder,
        NONE if line.weight is None else line.weight,
        {True: "high", False: "normal", None: NONE}[line.high_priority],
        f"{line.part_mib or 0}/{line.memory_mib} MiB",
        used,
        line.level,
        NONE if line.given is None else f"{line.given:.0%}",
        line.container or NONE,
    ]
