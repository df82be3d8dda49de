"""`mesos-gpu gpu mig`: plan, apply. Divides a GPU of this machine into MIG instances; none that is used is touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.console.console import Console, local_agent, pass_console
from marathon_cli.console.options import debug_option, output_options, work_dir_option
from marathon_cli.screen.output import Column, Table, say
from mesos_gpu.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from mesos_gpu.gpu.mig_layout import MigPlan


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
    from mesos_gpu.doors.common.agent import Book
    from mesos_gpu.gpu.mig_layout import plan as planned
    from mesos_gpu.gpu.mig_layout import read_wanted
    from mesos_gpu.gpu.mig_models import MODELS

    wanted = read_wanted(division)
    if model is not None:
        profiles = {name.lower(): found for name, found in MODELS.items()}.get(model.lower())
        if profiles is None:
            raise BadInput(f"no profiles of a '{model}' are known; known are {', '.join(MODELS)}")
        _show(console, _told(planned(profiles, (), wanted)))
        return
    try:
        made = Book(local_agent(console, url)).divide(gpu, division, plan=True)
    except Unavailable as error:
        say(f"only processes count as use: {error}")
        made = _by_nvml(gpu, division, change=False)
    _show(console, made)


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

    `plan` shows what that does. Needs a GPU in MIG mode, and root where no agent does it.

    The agent divides, so that it gives what is to be ended to nobody meanwhile, and offers the new instances at once.
    """
    from mesos_gpu.doors.common.agent import Book
    from mesos_gpu.gpu.mig_layout import read_wanted

    read_wanted(division)
    if without_agent:
        _show(console, _by_nvml(gpu, division, change=True))
        return
    try:
        made = Book(local_agent(console, url)).divide(gpu, division, plan=False)
    except Unavailable as error:
        raise Unavailable(f"{error}. Where no agent hands out GPUs: --without-agent") from None
    _show(console, made)


def _by_nvml(gpu: str, division: str, *, change: bool) -> dict[str, Any]:
    """Plan, or divide, without an agent; what no process uses is idle."""
    from mesos_gpu.gpu.mig_device import apply as applied
    from mesos_gpu.gpu.mig_layout import plan as planned
    from mesos_gpu.gpu.mig_layout import read_wanted
    from mesos_gpu.gpu.nvml import open_mig_device

    with open_mig_device(gpu) as device:
        made = planned(device.profiles, device.instances(), read_wanted(division))
        if change:
            applied(device, made.destroy, made.create)
    return _told(made)


def _told(made: MigPlan) -> dict[str, Any]:
    from mesos_gpu.gpu.mig_layout import plan_shown

    return plan_shown(made)


def _show(console: Console, made: Mapping[str, Any]) -> None:
    documents = [{"step": step, "used_by": "", **one} for step in ("keep", "destroy", "create") for one in made[step]]
    table = [(one["step"], one["profile"], _slices(one), one["used_by"]) for one in documents]
    console.show(documents, table=lambda: Table(_COLUMNS, table), names=[one["profile"] for one in documents])
    if made["beyond"]:
        beyond = ", ".join(f"{one['profile']} at {one['start']}" for one in made["beyond"])
        say(f"kept besides, because it is in use: {beyond}")


def _slices(place: Mapping[str, Any]) -> str:
    last = place["start"] + place["size"] - 1
    return str(last) if place["size"] == 1 else f"{place['start']}-{last}"
