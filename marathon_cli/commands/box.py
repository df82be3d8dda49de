"""`mesos-gpu up`, `down`, `status`: the box on this machine. It is mesos_gpu.local, imported when needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from marathon_cli.connection.box import SYSTEM_WORK_DIR, default_work_dir
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import debug_option, output_options, work_dir_option
from marathon_cli.screen.arguments import Whole
from marathon_cli.screen.language import telling_output
from marathon_cli.screen.output import Table, columns, say
from marathon_cli.screen.units import size
from mesos_gpu.errors import BadInput, NotFound

Command = TypeVar("Command", bound=Callable[..., Any])


def _option(name: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option in Mesos' spelling, with underscores, and in the usual one."""
    spellings = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
    return click.option(*spellings, name, **settings)


def _port(name: str, port: int, what: str) -> Callable[[Command], Command]:
    text = f"Port of {what}; 0 = any free one."
    return _option(name, type=Whole(0, 65535), default=port, show_default=True, help=text)


@click.command()
@work_dir_option
@debug_option
@_option(
    "gpu_driver",
    type=click.Choice(["nvml", "simulated", "none"]),
    help="Where GPUs come from; default: this machine's (nvml), simulated ones where it has none.",
)
@_option("simulated_gpus", type=Whole(min=0), metavar="N", help="Simulated GPUs per agent; default: 4.")
@_option("agents", type=Whole(min=1), metavar="N", help="How many agents; default: 1.")
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="Agents that are alike, in place of --agents and --simulated_gpus; may be given several times. Keys: name, "
    "agents, gpus, and of simulated GPUs model, memory, driver and topology, as in name=t4,agents=2,gpus=4,"
    "model=Tesla-T4,memory=15109MiB. They come back at the next `up`.",
)
@_port("master_port", 5050, "the master")
@_port("agent_port", 5051, "the first agent; the others take the next ones")
@_port("marathon_port", 8080, "Marathon")
@_option(
    "docker_registry",
    metavar="URL",
    help="Where images come from: a registry's URL, /FOLDER of `docker save` archives, or file:/FOLDER of OCI layouts; "
    "default: Docker Hub.",
)
@_option("docker_config", metavar="PATH", help="Credentials for registries: Docker's config.json, or its path.")
@click.option(
    "--system",
    is_flag=True,
    help=f"The box of this machine, in {SYSTEM_WORK_DIR}: everybody's commands find it.",
)
@_option(
    "shared_gpus",
    metavar="GPU,...",
    help="GPUs of each agent that several tasks share, by index; the others are given whole.",
)
@_option(
    "enable_gpu_isolation",
    type=click.BOOL,
    metavar="true|false",
    help="DC/OS' switch: whether GPUs are handed out at all.",
)
@_option(
    "gpus_are_scarce",
    type=click.BOOL,
    metavar="true|false",
    help="DC/OS' switch: whether agents with GPUs are kept for what uses GPUs; default: for frameworks, not for apps.",
)
@_option("dcos_config", metavar="FILE", help="DC/OS' config.yaml: the two switches are read from it.")
@click.option(
    "--group",
    metavar="GROUP",
    help="Let the members of a Unix group in: each runs tasks as himself, and sees and enters his own alone. The box "
    "is then the machine's (--system), unless --work_dir says otherwise.",
)
@click.option(
    "--open",
    "open",
    is_flag=True,
    help="Run the box without a credential: every user of this machine can then run tasks as you.",
)
@click.option("--detach", "-d", is_flag=True, help="Return when the box is ready; it runs on in the background.")
@pass_console
def up(console: Console, /, system: bool, **options: Any) -> int:
    """Start a box: master, agents and Marathon on this machine.

    Its services ask for a credential, which lies in the work_dir for you alone and which mesos-gpu finds by itself;
    --open does without. Ctrl-C stops it.
    """
    from mesos_gpu import local

    given = {name: value for name, value in options.items() if value is not None and value != ()}
    named = console.work_dir is not None or bool(os.environ.get("MESOS_GPU_WORK_DIR"))
    work_dir = _new_box_dir(console, system or (options["group"] is not None and not named))
    with telling_output():
        return local.up(local.UpOptions(work_dir=work_dir, **given))


def _new_box_dir(console: Console, system: bool) -> Path:
    if not system:
        return console.work_dir or default_work_dir(os.environ)
    if console.work_dir not in (None, SYSTEM_WORK_DIR):
        raise BadInput(f"--system is --work_dir {SYSTEM_WORK_DIR}: leave --work_dir {console.work_dir} out")
    return SYSTEM_WORK_DIR


@click.command()
@work_dir_option
@debug_option
@_option("keep_tasks", is_flag=True, help="Stop the services only; tasks run on and are taken over by the next `up`.")
@click.option("--purge", is_flag=True, help="Remove what it keeps, too: apps, images, volumes, sandboxes, logs.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask whether --purge is meant.")
@pass_console
def down(console: Console, keep_tasks: bool, purge: bool, yes: bool) -> int:
    """Stop the box and its tasks.

    Apps, pods and jobs come back at the next `up`; with --purge nothing does. --purge also removes what a box that is
    down already has left.
    """
    from mesos_gpu import local

    work_dir = console.box_dir().expanduser().absolute()
    if not purge:
        with telling_output():
            return local.down(work_dir, keep_tasks)
    if keep_tasks:
        raise BadInput("--purge forgets the tasks that --keep_tasks keeps: say one of the two")
    found = local.kept(work_dir)
    say(f"In {work_dir}:")
    for one in found:
        say(f"  {size(one.bytes):>13}  {one.what}")
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise BadInput("this would be gone for good; --yes confirms that")
        click.confirm("End all tasks there, and remove this for good?", default=False, abort=True, err=True)
    with suppress(NotFound):
        local.down(work_dir, keep_tasks=False, for_ever=True)
    others = local.purge(work_dir)
    stays = f" What else lies there stays: {', '.join(others)}." if others else ""
    click.echo(f"Removed what the box kept in {work_dir}.{stays}")
    return 0


@click.command()
@work_dir_option
@debug_option
@output_options()
@pass_console
def status(console: Console) -> int:
    """Show the box's services and GPUs.

    The exit status is 1 when a service is down.
    """
    from mesos_gpu import local

    found = local.status(console.box_dir())
    services = [found["master"], *found["agents"], found["marathon"]]
    names = ["master", *("agent" for _ in found["agents"]), "marathon"]
    pools = any(agent.get("pool", "") not in ("", "default") for agent in found["agents"])

    def table() -> Table:
        rows = [
            [name, "up" if service["pid"] else "down", _gpus(service), service["pid"] or "---", service["url"]]
            + ([service.get("pool") or "---"] if pools else [])
            for name, service in zip(names, services, strict=True)
        ]
        service, state, free, pid, url = columns("SERVICE", "STATE", "GPUS FREE", "PID", "URL", numbers=("PID",))
        pool = columns("POOL") if pools else ()
        return Table((service, state, free._replace(rank=1), pid._replace(rank=2), url, *pool), rows)

    console.show(found, table=table, names=[str(service["url"]) for service in services])
    if console.form in ("table", "wide") and found["marathon"]["pid"]:
        say(f"The page in a browser: {found['marathon']['url']}/ui/")
    return 0 if all(service["pid"] for service in services) else 1


def _gpus(service: dict[str, Any]) -> str:
    if "gpus" not in service:
        return "---"
    free = service["gpus_free"]
    return f"{'?' if free is None else free} of {service['gpus']}"
