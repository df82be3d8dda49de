"""`mesos-gpu door` and `docker-args`: GPUs of this machine's agent for Docker, podman and other engines."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from marathon_cli.console.console import Console, local_agent, pass_console
from marathon_cli.console.options import debug_option, work_dir_option
from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.doors.common.agent import AgentAddress
from mesos_gpu.errors import BadInput, Unavailable

HOOK_FILE = "mesos-gpu.json"


@click.command()
@click.argument("door", type=click.Choice(["docker", "nvidia-docker", "podman"]))
@click.option("--prefix", default="/usr/local/bin", show_default=True, metavar="FOLDER", help="Where programs go.")
@click.option(
    "--hooks-dir",
    default="/usr/share/containers/oci/hooks.d",
    show_default=True,
    metavar="FOLDER",
    help="Where podman looks for files of hooks.",
)
@click.option(
    "--settings",
    default="/etc/mesos-gpu/doors.json",
    show_default=True,
    metavar="FILE",
    help="Where it is written down which agent they ask, and with whose credential.",
)
@click.option(
    "--credential",
    metavar="FILE",
    help="A file with PRINCIPAL SECRET, where the agent asks for one; default: the box's.",
)
@click.option("--agent", "url", metavar="URL", help="The agent they ask; default: the box's, else the usual port.")
@work_dir_option
@debug_option
@pass_console
def install(
    console: Console, door: str, prefix: str, hooks_dir: str, settings: str, credential: str | None, url: str | None
) -> None:
    """Install the programs that Docker, nvidia-docker's users or podman call for GPUs.

    They take GPUs from the book of this machine's agent. What another put there under the same name stays.
    """
    from mesos_gpu.doors.common.launchers import write_launcher
    from mesos_gpu.doors.common.names import HOOK, RUNTIME

    folder, settings = Path(prefix).absolute(), str(Path(settings).absolute())
    _write_settings(Path(settings), local_agent(console, url), credential)
    if door == "nvidia-docker":
        for name, module in (("nvidia-docker", "cli"), ("nvidia-docker-plugin", "plugin")):
            click.echo(f"{write_launcher(folder, name, f'mesos_gpu.doors.nvidia_docker.{module}', settings=settings)}")
        click.echo("Start nvidia-docker-plugin beside the engine; then: NV_GPU=0 nvidia-docker run IMAGE")
        return
    hook = write_launcher(folder, HOOK, "mesos_gpu.doors.oci.hook", settings=settings)
    click.echo(f"{hook}")
    if door == "docker":
        runtime = write_launcher(folder, RUNTIME, "mesos_gpu.doors.oci.runtime", settings=settings)
        click.echo(f"{runtime}")
        click.echo(
            "Restart dockerd, which looks for the hook on its PATH when it starts; then: docker run --gpus 2 IMAGE"
        )
        runtimes = json.dumps({"runtimes": {"nvidia": {"path": str(runtime)}}})
        click.echo(f"For docker run --runtime=nvidia, /etc/docker/daemon.json has: {runtimes}")
        return
    path = Path(hooks_dir) / HOOK_FILE
    document = {
        "version": "1.0.0",
        "hook": {"path": str(hook), "args": [hook.name, "--door", "podman", "prestart"]},
        "when": {"always": True, "commands": [".*"]},
        "stages": ["prestart"],
    }
    try:
        write_whole(path, json.dumps(document, indent=1).encode() + b"\n", mode=PUBLIC, folder_mode=0o755)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"{path}")
    click.echo("podman run -e NVIDIA_VISIBLE_DEVICES=0 IMAGE")


def _write_settings(path: Path, address: AgentAddress, credential: str | None) -> None:
    known = {"agent": address.url, "credential": credential or address.credential, "ca": address.ca}
    try:
        text = json.dumps({key: value for key, value in known.items() if value}, indent=1) + "\n"
        write_whole(path, text.encode(), mode=None, folder_mode=0o755)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"{path}")


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
