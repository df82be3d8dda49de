"""`mesos-gpu cdi`: GPUs and other devices by the names of the Container Device Interface."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from marathon_cli.console.console import Console, local_agent, pass_console
from marathon_cli.console.options import debug_option, output_options, work_dir_option
from marathon_cli.screen.output import Table, columns, say
from mesos_gpu.base.files import write_whole
from mesos_gpu.errors import BadInput, MesosGpuError, Unavailable

FOLDERS = ("/etc/cdi", "/var/run/cdi")
_agent_option = click.option(
    "--agent", "url", metavar="URL", help="The agent of this machine; default: the box's, else http://127.0.0.1:5051."
)
_folders_option = click.option(
    "--spec-dir",
    "folders",
    multiple=True,
    default=FOLDERS,
    show_default=True,
    metavar="FOLDER",
    help="Where files are, the last with the highest priority; may be repeated.",
)


@click.command()
@_agent_option
@click.option("--output", metavar="FILE", help="Write it to this file, whole or not at all; default: print it.")
@click.option("--kind", default="nvidia.com/gpu", show_default=True, metavar="VENDOR/CLASS", help="What it is of.")
@click.option("--annotate", is_flag=True, help="Put the driver's version into it, for consumers of CDI 0.6 and later.")
@work_dir_option
@debug_option
@pass_console
def generate(console: Console, url: str | None, output: str | None, kind: str, annotate: bool) -> None:
    """Print a CDI specification of the GPUs of this machine's agent: by index, by UUID, and all.

    What takes one by its name takes a lease with it. An agent with --cdi_spec_dir=/var/run/cdi writes it by itself.
    """
    from mesos_gpu.cdi.writing import gpu_spec
    from mesos_gpu.doors.common.agent import Book

    book = Book(local_agent(console, url))
    hook = [sys.executable, "-I", "-m", "mesos_gpu.doors.oci.hook", "--agent", book.address.url, "lease"]
    driver = book.driver()
    if not driver["gpus"]:
        raise Unavailable(f"the agent at {book.address.url} has no GPUs to describe")
    text = json.dumps(gpu_spec(driver, hook, kind=kind, annotate=annotate), indent=1) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    path = Path(output)
    if path.suffix != ".json":
        raise BadInput(f"consumers read *.json and *.yaml, and this is JSON: call it {path.stem}.json")
    try:
        write_whole(path, text.encode(), mode=None)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}") from None


@click.command(name="list")
@_folders_option
@_agent_option
@work_dir_option
@output_options()
@pass_console
def list_devices(console: Console, folders: tuple[str, ...], url: str | None) -> None:
    """List the devices that CDI files of this machine define, of any vendor.

    GPUs that Mesos' tasks share have no name, for no engine could keep a container to a part of one.
    """
    found, _ = _read(folders)
    for problem in [*found.problems, *_shared(console, url)]:
        say(problem)
    rows = [[device.name, device.path] for device in found.devices.values()]
    documents = [{"name": device.name, "file": device.path} for device in found.devices.values()]
    table = Table(columns("DEVICE", "FILE"), rows)
    console.show(documents, table=lambda: table, names=list(found.devices))


@click.command()
@_folders_option
@_agent_option
@work_dir_option
@debug_option
@pass_console
def check(console: Console, folders: tuple[str, ...], url: str | None) -> int:
    """Check the CDI files of this machine: each by the rules of its version, ours against the agent's GPUs.

    The exit status is 1 when an engine would refuse something.
    """
    from mesos_gpu.cdi.reading import PODMAN_4, VERSIONS
    from mesos_gpu.cdi.writing import KIND

    found, files = _read(folders)
    for problem in found.problems:
        click.echo(f"problem  {problem}")
    for file in files:
        version = str(file.document.get("cdiVersion", "")) if isinstance(file.document, dict) else ""
        if version in VERSIONS and VERSIONS.index(version) > VERSIONS.index(PODMAN_4):
            click.echo(f"note     {file.path}: cdiVersion {version}; podman before 4.9 takes none above {PODMAN_4}")
    stale = _stale(
        {name: device for name, device in found.devices.items() if name.startswith(f"{KIND}=")}, console, url
    )
    for words in stale:
        click.echo(f"problem  {words}")
    for words in _shared(console, url):
        click.echo(f"note     {words}")
    click.echo(f"{len(files)} files, {len(found.devices)} devices, {len(found.problems) + len(stale)} problems")
    return 1 if found.problems or stale else 0


def _shared(console: Console, url: str | None) -> list[str]:
    """Return of each GPU that tasks share why it has no name; nothing without an agent."""
    from mesos_gpu.doors.common.agent import Book

    try:
        cards = Book(local_agent(console, url)).shared_cards()
    except MesosGpuError:
        return []
    return [
        f"GPU {card['index']} ({card['uuid']}) has no CDI name: Mesos' tasks share it (--shared_gpus), and an engine "
        "would give a container all of it"
        for card in cards
    ]


def _stale(devices: dict[str, Any], console: Console, url: str | None) -> list[str]:
    """Return how GPUs in files differ from those that the agent has now; nothing without an agent."""
    from mesos_gpu.doors.common.agent import Book

    if not devices:
        return []
    try:
        gpus = Book(local_agent(console, url)).driver()["gpus"]
    except MesosGpuError as error:
        click.echo(f"note     not compared with the agent's GPUs: {error}")
        return []
    here = {f"nvidia.com/gpu={gpu['uuid']}" for gpu in gpus}
    named = {name for name in devices if "GPU-" in name or "MIG-" in name}
    gone = [f"{devices[name].path}: {name} is not here any more" for name in sorted(named - here)]
    new = [f"{name} is in no file: mesos-gpu cdi generate" for name in sorted(here - named)]
    return gone + new


def _read(folders: tuple[str, ...]) -> tuple[Any, list[Any]]:
    import yaml

    from mesos_gpu.cdi.reading import SpecFile, read_devices

    files = []
    for priority, folder in enumerate(folders):
        for path in sorted([*Path(folder).glob("*.json"), *Path(folder).glob("*.yaml")]):
            try:
                files.append(SpecFile(str(path), priority, yaml.safe_load(path.read_bytes())))
            except (OSError, yaml.YAMLError) as error:
                files.append(SpecFile(str(path), priority, f"{error}"))
    return read_devices(files), files
