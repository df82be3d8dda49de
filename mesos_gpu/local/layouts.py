"""Which agents a box has: what was asked for, what its work_dir says it had, and what ran there before."""

from __future__ import annotations

import json
from pathlib import Path

from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.errors import Conflict, Unavailable
from mesos_gpu.local.plan import GpuChoice, UpOptions, runtime_dir
from mesos_gpu.local.pools import DEFAULT, Layout, Pool, Wish, document_of, layout_of, read_layout, read_pools
from mesos_gpu.local.record import left_behind

FILE = "pools.json"


def noted_layout(work_dir: Path) -> Layout | None:
    """Return the pools that a box had; None where it was told of none. Raises Unavailable for a damaged file."""
    path = work_dir / FILE
    try:
        return read_layout(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"{path} says which agents this box has, and cannot be read ({error}); "
            "with --pool or --agents a box is laid out again"
        ) from None


def note_layout(work_dir: Path, layout: Layout | None) -> None:
    """Write down the pools of a box, whole or not at all; None: forget them."""
    path = work_dir / FILE
    if layout is None:
        path.unlink(missing_ok=True)
        return
    write_whole(path, json.dumps(document_of(layout), indent=2).encode() + b"\n", mode=PUBLIC)


def open_layout(options: UpOptions, gpus: GpuChoice) -> Layout:
    """Return the agents of a box that comes up, and write down what of them has to be known next time.

    Pools that are named, else agents that are counted, else the pools of last time, else one agent. Raises Conflict
    when containers of before would have no agent, BadInput when the machine's GPUs are short, Unavailable.
    """
    taken, layout = numbers_on_disk(options.work_dir), None
    if options.pools:
        before = noted_layout_or_none(options.work_dir)
        layout = layout_of(read_pools(options.pools), before or Layout(cards=gpus.cards), gpus.cards, taken)
    elif options.sized:
        before = noted_layout_or_none(options.work_dir)
        # Agents of pools have attributes, and cannot come back as others: these have numbers of their own then.
        layout = None if before is None else layout_of([_counted(options, gpus)], before, gpus.cards, taken)
    else:
        layout = noted_layout(options.work_dir)
        if layout is not None and layout.cards != gpus.cards:
            wishes = [Wish(pool, len(layout.of(pool.name))) for pool in layout.pools]
            layout = layout_of(wishes, layout, gpus.cards, taken)
    found = layout or options.layout(gpus.cards)
    _refuse_to_lose_containers(options.work_dir, found)
    note_layout(options.work_dir, layout)
    return found


def _counted(options: UpOptions, gpus: GpuChoice) -> Wish:
    agents = options.agents or 1
    each = options.layout(None).pools[0].gpus if gpus.cards is None else len(gpus.cards) // agents
    return Wish(Pool(DEFAULT, each), agents)


def noted_layout_or_none(work_dir: Path) -> Layout | None:
    """Return the pools that a box had; None where there were none, or their file is damaged."""
    try:
        return noted_layout(work_dir)
    except Unavailable:
        return None


def says_make(options: UpOptions) -> bool:
    """Return whether pools say what their GPUs are to be, so that they must be simulated ones."""
    if options.pools:
        return any(wish.pool.make for wish in read_pools(options.pools))
    noted = None if options.sized else noted_layout_or_none(options.work_dir)
    return noted is not None and any(pool.make for pool in noted.pools)


def numbers_on_disk(work_dir: Path) -> frozenset[int]:
    """Return the numbers of agents that have a folder in a work_dir."""
    names = (path.name.removeprefix("agent") for path in work_dir.glob("agent[0-9]*") if path.is_dir())
    return frozenset(int(name) for name in names if name.isdecimal())


def _refuse_to_lose_containers(work_dir: Path, layout: Layout) -> None:
    names = {seat.name for seat in layout.seats}
    orphans = sorted(
        folder.name
        for folder in runtime_dir(work_dir).glob("agent[0-9]*")
        if folder.name not in names and left_behind(folder.parent, folder.name)
    )
    if orphans:
        raise Conflict(
            f"tasks of before may still run on {', '.join(orphans)}, which this box would leave out: `mesos-gpu up` as "
            "it was last time takes them over, and `mesos-gpu down` then ends them"
        )
