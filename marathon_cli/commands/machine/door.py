"""`mesos-gpu door`: the programs under whose names other engines look for GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.local_agent import local_agent
from marathon_cli.console.options import debug_option, work_dir_option
from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.doors.common.agent import AgentAddress
from mesos_gpu.errors import Unavailable

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
