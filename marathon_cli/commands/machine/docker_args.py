"""`mesos-gpu docker-args`: GPUs of this machine's agent as arguments of `docker run`."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.local_agent import local_agent
from marathon_cli.console.options import debug_option, work_dir_option
from mesos_gpu.errors import BadInput


@click.command(name="docker-args")
@click.option("--gpus", metavar="N|all", help="Borrow this many free GPUs, or all of them.")
@click.option("--device", "devices", metavar="ID,...", help="Borrow exactly these, by index or UUID.")
@click.option("--look", is_flag=True, help="Borrow nothing: show the arguments for these GPUs, whoever holds them.")
@click.option(
    "--holder",
    default="",
    metavar="NAME",
    help="The name under which the agent's book shows them; default: your user name.",
)
@click.option(
    "--pid", type=click.IntRange(min=1), help="Who holds them until the container is made; default: the calling shell."
)
@click.option(
    "--engine",
    type=click.Choice(["docker", "podman"]),
    default="docker",
    show_default=True,
    help="Whose container holds them from then on, until it is removed.",
)
@click.option(
    "--agent", "url", metavar="URL", help="The agent of this machine; default: the box's, else http://127.0.0.1:5051."
)
@work_dir_option
@debug_option
@pass_console
def docker_args(
    console: Console,
    gpus: str | None,
    devices: str | None,
    look: bool,
    holder: str,
    pid: int | None,
    engine: str,
    url: str | None,
) -> None:
    """Print arguments of docker run that give a container GPUs of this machine's agent.

    As in: docker run $(mesos-gpu docker-args --gpus 2) IMAGE

    The GPUs are taken from the agent's book: Mesos offers them no more until the container is removed. One container
    is made with them; ask again for the next.
    """
    from mesos_gpu.doors.common.agent import Book
    from mesos_gpu.doors.docker_args.arguments import docker_arguments, looking

    names = [name for name in (devices or "").replace(",", " ").split() if name]
    if gpus is not None and names:
        raise BadInput("name --gpus or --device, not both")
    book = Book(local_agent(console, url))
    if look:
        use = _shown(looking, book.driver(), gpus, names)
    elif names or gpus is not None:
        use = book.lend(_asked(gpus, names, holder, pid, engine))
    else:
        raise BadInput("say what to borrow: --gpus 2, --gpus all or --device GPU-6f...; or --look to borrow nothing")
    click.echo(shlex.join(docker_arguments(use)))


def _asked(gpus: str | None, names: list[str], holder: str, pid: int | None, engine: str) -> dict[str, Any]:
    from mesos_gpu.doors.common.engines import containers_folder

    asked: dict[str, Any] = {"door": "docker-args", "holder": holder or _user(), "pid": pid or os.getppid()}
    if names:
        asked["gpus"] = names
    elif gpus == "all":
        asked["gpus"] = "all"
    elif gpus is not None and gpus.isdigit() and int(gpus):
        asked["count"] = int(gpus)
    else:
        raise BadInput(f"--gpus takes a number of GPUs, 1 or more, or all, not {gpus!r}")
    if folder := containers_folder(engine):
        asked["containers"] = folder
    return asked


def _shown(looking: Any, driver: dict[str, Any], gpus: str | None, names: list[str]) -> dict[str, Any]:
    if gpus not in (None, "all"):
        raise BadInput("--look shows named GPUs (--device) or all of them: none is chosen when none is borrowed")
    try:
        shown: dict[str, Any] = looking(driver, names)
    except KeyError as missing:
        there = ", ".join(f"{gpu['index']} ({gpu['uuid']})" for gpu in driver["gpus"]) or "none"
        raise BadInput(f"there is no GPU {missing.args[0]} here; there are {there}") from None
    return shown


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
