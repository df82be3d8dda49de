"""`cgpu-smi`: what the containers of this machine's shared GPUs do, with the columns of cGPU's program of that name.

Source: "Install and use cGPU on a Docker container", help.aliyun.com: container id, GPU utilisation, compute limit,
memory used and total.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from marathon_cli.console.console import Console, local_agent
from marathon_cli.screen.arguments import Number
from marathon_cli.screen.output import printable, say
from mesos_gpu.errors import MesosGpuError

WINDOW_S = 1.0
"""Over how long use is measured."""
_COLUMNS = ("GPU", "Container ID", "GPU-Util", "Compute Limit", "Memory-Used", "Memory-Total")
_WIDTHS = (5, 36, 8, 13, 12, 12)

Cards = Sequence[Mapping[str, Any]]


def rows(before: Cards, after: Cards, seconds: float) -> list[tuple[str, ...]]:
    """Return a row for each container, of two answers of an agent's /gpu_shares that are so far apart."""
    was = {(card["index"], one["container_id"]): one.get("used_s") for card in before for one in card["containers"]}
    found: list[tuple[str, ...]] = []
    for card in after:
        for one in card["containers"]:
            first, last = was.get((card["index"], one["container_id"])), one.get("used_s")
            known = first is not None and last is not None and seconds > 0
            busy = f"{min(1.0, max(0.0, (last - first) / seconds)):.0%}" if known else "-"
            used = one.get("memory_used_mib")
            found.append(
                (
                    str(card["index"]),
                    str(one["container_id"]),
                    busy,
                    "-" if one.get("part") is None else f"{one['part']:.0%}",
                    "-" if used is None else f"{used}MiB",
                    f"{one['memory_mib']}MiB",
                )
            )
    return found


def table(found: Sequence[Sequence[str]]) -> str:
    """Return rows in a frame, as nvidia-smi draws."""
    widths = [max(width, *(len(row[at]) for row in [_COLUMNS, *found])) for at, width in enumerate(_WIDTHS)]
    frame = "+" + "+".join("-" * (width + 2) for width in widths) + "+"

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(printable(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([frame, line(_COLUMNS), frame.replace("-", "="), *map(line, found), *([frame] if found else [])])


def measured(ask: Callable[[], Cards], *, window_s: float = WINDOW_S) -> list[tuple[str, ...]]:
    """Ask twice, that far apart; return rows."""
    before, began_s = ask(), time.monotonic()
    time.sleep(window_s)
    after = ask()
    return rows(before, after, time.monotonic() - began_s)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-l", "--loop", type=Number(min=0.1), metavar="SECONDS", help="Again each so many seconds, until Ctrl-C.")
@click.option(
    "--agent", "url", metavar="URL", help="The agent of this machine; default: the box's, else http://127.0.0.1:5051."
)
def main(loop: float | None, url: str | None) -> None:
    """Show what the containers of this machine's shared GPUs use, and what each may.

    GPU-Util is over the last second, Compute Limit what a container is to have of the card now: all of it while nobody
    waits. `mesos-gpu share list` shows the whole cluster.
    """
    from mesos_gpu.doors.common.agent import Book

    try:
        book = Book(local_agent(Console(), url))
        while True:
            click.echo(table(measured(book.shares)))
            if loop is None:
                return
            time.sleep(max(0.0, loop - WINDOW_S))
    except MesosGpuError as error:
        say(f"error: {error}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
