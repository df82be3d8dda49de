"""`mesos-gpu flags`: the flags of agent, master and Marathon for a described cluster, in the form that is needed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from marathon_cli import blueprints
from marathon_cli.blueprints import Blueprint, cloudformation, dcos_config, flags_of, program_name, read_blueprint
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import debug_option, output_options
from marathon_cli.document import check
from marathon_cli.screen.output import Table, columns, say
from mesos_gpu.errors import BadInput

FORMS = ("shell", "env", "systemd", "dcos", "cloudformation")
_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS: tuple[Any, ...] = (
    click.option(
        "--as",
        "form",
        type=click.Choice(FORMS),
        default="shell",
        show_default=True,
        help="shell: a command; env: variables for /etc/default; systemd: a unit; dcos: keys of config.yaml; "
        "cloudformation: the GPU parameters of DC/OS' AWS templates.",
    ),
    click.option("--cluster", "file", metavar="FILE", help="Describes the cluster: YAML, or DC/OS' own config.yaml."),
    click.option(
        "--for",
        "make",
        type=click.Choice(("mesos-gpu", "mesos")),
        help="Whose programs the flags are for; default: this project's.",
    ),
    click.option("--master", metavar="ADDRESS", help="HOST:PORT, or zk://HOST1:PORT1,HOST2:PORT2/PATH."),
    click.option("--ip", metavar="IP", help="The address to listen on; default: 127.0.0.1."),
    click.option("--work-dir", "--work_dir", "work_dir", metavar="DIR", help="Folder of its state."),
    click.option(
        "--gpus/--no-gpus", "enable_gpu_isolation", default=None, help="GPUs are handed out (enable_gpu_isolation)."
    ),
    click.option(
        "--scarce/--no-scarce",
        "gpus_are_scarce",
        default=None,
        help="GPU machines are kept for what uses GPUs (gpus_are_scarce).",
    ),
    click.option("--gpu-devices", "--devices", "gpu_devices", metavar="LIST", help="GPUs to use, as in 0,1."),
    click.option("--images/--no-images", "images", default=None, help="Tasks may run in Docker images."),
    click.option("--role", metavar="ROLE", help="Role of the agent's resources, or of the Marathon."),
    click.option("--attributes", metavar="TEXT", help="Attributes of the agent, such as rack:r1."),
    click.option("--region", metavar="REGION", help="AWS region, for cloudformation."),
    click.option("--ami", metavar="AMI", help="Image with NVIDIA's driver, for cloudformation."),
    click.option(
        "--instance-type", "instance_type", metavar="TYPE", help="Instance type of GPU machines, for cloudformation."
    ),
)


def _options(command: _Command) -> _Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return output_options()(debug_option(command))


@click.command()
@_options
@pass_console
def agent(console: Console, /, form: str, file: str | None, **given: Any) -> None:
    """Print the flags of an agent that hands out GPUs."""
    _print(console, "agent", form, file, given)


@click.command()
@_options
@pass_console
def master(console: Console, /, form: str, file: str | None, **given: Any) -> None:
    """Print the flags of a master of a cluster with GPUs."""
    _print(console, "master", form, file, given)


@click.command()
@_options
@pass_console
def marathon(console: Console, /, form: str, file: str | None, **given: Any) -> None:
    """Print the flags of a Marathon that runs apps on GPUs."""
    _print(console, "marathon", form, file, given)


def _print(console: Console, program: str, form: str, file: str | None, given: dict[str, Any]) -> None:
    plan = Blueprint() if file is None else _read(file)
    said = {name: value for name, value in given.items() if value is not None}
    if "gpu_devices" in said:
        said["gpu_devices"] = tuple(part.strip() for part in said["gpu_devices"].split(",") if part.strip())
    plan = replace(plan, **said).checked()
    far = plan.master is not None and not plan.master.startswith(("127.", "localhost"))
    if far and plan.is_loopback and form in ("shell", "env", "systemd"):
        say("note: it listens on 127.0.0.1 only, where other machines do not reach it: --ip names another address")
    value: Any
    if form == "dcos":
        value = dcos_config(plan)
        text = "".join(f"{key}: '{switch}'\n" for key, switch in value.items())
    elif form == "cloudformation":
        value = cloudformation(plan)
        text = json.dumps(value, indent=2) + "\n"
        if plan.ami is None or plan.instance_type is None:
            say("note: image and machine are those of the guide, of 2017: --ami and --instance-type name newer ones")
    else:
        value = flags_of(program, plan)
        text = _text(program, program_name(program, plan), form, value, plan.make)
    if console.form in ("table", "wide"):
        click.echo(text, nl=False)
        return
    names = [item["ParameterKey"] for item in value] if isinstance(value, list) else list(value)
    console.show(value, table=lambda: Table(columns("FLAG")), names=names)


def _text(program: str, name: str, form: str, flags: dict[str, str | bool], make: str) -> str:
    stock_marathon = program == "marathon" and make == "mesos"
    arguments = blueprints.marathon_words(flags) if stock_marathon else blueprints.words(flags)
    if form == "env":
        return blueprints.environment("MARATHON_" if program == "marathon" else "MESOS_", flags)
    if form == "systemd":
        return blueprints.unit(name, _path(name), arguments, keeps_containers=program == "agent")
    return blueprints.shell(name, arguments)


def _path(name: str) -> str:
    """Return where a program lies: beside this one, else where packages put it."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name) or f"/usr/bin/{name}"


def _read(file: str) -> Any:
    source = check.read_source(file)
    plan, problems = read_blueprint(check.parse(source), Blueprint())
    if problems:
        raise BadInput(check.report(source, problems))
    return plan
