"""`mesos-gpu gpu mig`: plan, apply. Divides a GPU of this machine into MIG instances; none that is used is touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.local_agent import local_agent
from marathon_cli.console.options import debug_option, output_options, work_dir_option
from marathon_cli.screen.output import Column, Table, say
from mesos_gpu.errors import BadInput, MesosGpuError, Refused, Unavailable

if TYPE_CHECKING:
    from mesos_gpu.doors.common.agent import Book
    from mesos_gpu.gpu.mig_layout import MigPlan, Placed

_COLUMNS = (Column("STEP"), Column("PROFILE"), Column("SLICES"), Column("USED BY", cut=True))

_division = click.argument("division", metavar="PROFILE[,PROFILE...]")
_gpu = click.option("--gpu", default="0", show_default=True, metavar="ID", help="Which GPU, by index or UUID.")
_agent = click.option(
    "--agent", "url", metavar="URL", help="The agent of this machine; default: the box's, else http://127.0.0.1:5051."
)


@click.command()
@_division
@_gpu
@click.option("--model", metavar="NAME", help="Plan for an empty GPU of this model, such as A100-40GB; needs no GPU.")
@_agent
@output_options()
@work_dir_option
@debug_option
@pass_console
def plan(console: Console, division: str, gpu: str, model: str | None, url: str | None) -> None:
    """Show which MIG instances would be destroyed and made so that the GPU has these, and no others.

    A PROFILE is a name such as 3g.20gb or 2x1g.5gb; `none` wishes for no instance. What a container holds or a process
    uses stays where it is, and counts as one of those wished for. Nothing is changed.
    """
    from mesos_gpu.gpu.mig_layout import plan as planned
    from mesos_gpu.gpu.mig_layout import read_wanted
    from mesos_gpu.gpu.mig_models import MODELS
    from mesos_gpu.gpu.nvml import open_mig_device

    wanted = read_wanted(division)
    if model is not None:
        profiles = {name.lower(): found for name, found in MODELS.items()}.get(model.lower())
        if profiles is None:
            raise BadInput(f"no profiles of a '{model}' are known; known are {', '.join(MODELS)}")
        _show(console, planned(profiles, (), wanted))
        return
    book = _book(console, url)
    try:
        holders = _holders(book)
    except MesosGpuError as error:
        say(f"only processes count as use: {error}")
        holders = {}
    with open_mig_device(gpu, holders) as device:
        _show(console, planned(device.profiles, device.instances(), wanted))


@click.command()
@_division
@_gpu
@_agent
@click.option(
    "--without-agent", is_flag=True, help="No agent hands out GPUs here: what no process uses may be destroyed."
)
@output_options()
@work_dir_option
@debug_option
@pass_console
def apply(console: Console, division: str, gpu: str, url: str | None, without_agent: bool) -> None:
    """Divide a GPU of this machine into MIG instances; none that is used is touched.

    `plan` shows what that does. Needs root, and a GPU in MIG mode.

    Instances that are to be destroyed are borrowed from the agent first, so that it gives them to nobody meanwhile.
    The agent finds new instances when it is started again; tasks run on meanwhile.
    """
    from mesos_gpu.gpu.mig_device import apply as applied
    from mesos_gpu.gpu.mig_layout import plan as planned
    from mesos_gpu.gpu.mig_layout import read_wanted
    from mesos_gpu.gpu.nvml import open_mig_device

    wanted = read_wanted(division)
    book = None if without_agent else _book(console, url)
    try:
        holders = {} if book is None else _holders(book)
    except Unavailable as error:
        raise Unavailable(f"{error}. Where no agent hands out GPUs: --without-agent") from None
    with open_mig_device(gpu, holders) as device:
        made = planned(device.profiles, device.instances(), wanted)
        lease = None if book is None else _borrow(book, [one.uuid for one in made.destroy if one.uuid in holders])
        try:
            applied(device, made.destroy, made.create)
        finally:
            if book is not None and lease is not None:
                book.give_back(lease)
    _show(console, made)
    if book is not None and (made.destroy or made.create):
        say("restart the agent, so that it offers what there is now; tasks run on meanwhile")


def _book(console: Console, url: str | None) -> Book:
    from mesos_gpu.doors.common.agent import Book

    return Book(local_agent(console, url))


def _holders(book: Book) -> dict[str, str]:
    """Return who holds each GPU that the agent knows, by UUID; an empty name where nobody does."""
    return {str(gpu["uuid"]): _holder(gpu) for gpu in book.gpus()}


def _holder(gpu: Mapping[str, Any]) -> str:
    if gpu.get("lease_id"):
        return f"{gpu.get('door')}: {gpu.get('holder') or gpu['lease_id']}"
    if gpu.get("container_id"):
        return f"task {gpu['task_id']}" if gpu.get("task_id") else f"container {gpu['container_id']}"
    return ""


def _borrow(book: Book, uuids: list[str]) -> str | None:
    """Hold these so that nobody is given them, and return the lease. Raises Refused when somebody has come first."""
    if not uuids:
        return None
    try:
        return str(book.lend({"door": "mig", "holder": "mesos-gpu gpu mig", "pid": os.getpid(), "gpus": uuids})["id"])
    except Refused as refused:
        raise Refused(f"{refused}; plan again", status=refused.status, body=refused.body) from None


def _show(console: Console, made: MigPlan) -> None:
    rows = [
        *(("keep", one.place, one.used or "") for one in made.keep),
        *(("destroy", one.place, "") for one in made.destroy),
        *(("create", place, "") for place in made.create),
    ]
    documents = [
        {"step": step, "profile": place.profile, "start": place.start, "size": place.size, "used_by": used}
        for step, place, used in rows
    ]
    table = [(step, place.profile, _slices(place), used) for step, place, used in rows]
    console.show(documents, table=lambda: Table(_COLUMNS, table), names=[place.profile for _, place, _ in rows])
    if made.beyond:
        beyond = ", ".join(f"{one.place.profile} at {one.place.start}" for one in made.beyond)
        say(f"kept besides, because it is in use: {beyond}")


def _slices(place: Placed) -> str:
    last = place.start + place.size - 1
    return str(last) if place.size == 1 else f"{place.start}-{last}"
