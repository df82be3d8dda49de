"""The options that many commands share: where the box is, in which form a command answers, how often it looks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from marathon_cli.console.console import Console
from marathon_cli.console.target import connection_options
from marathon_cli.screen.numbers import Number
from marathon_cli.screen.output import FORMS, Output
from mesos_gpu.errors import BadInput

if TYPE_CHECKING:
    _ParamType = click.ParamType[Output]
else:
    _ParamType = click.ParamType  # generic only in later versions of click

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_WATCH_S = 2.0


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None and parameter.name is not None:
        setattr(context.ensure_object(Console), parameter.name, value)


def work_dir_option(command: Command, *, hidden: bool = False) -> Command:
    """Let a command take --work_dir."""
    return click.option(
        "--work_dir",
        "--work-dir",
        "work_dir",
        type=click.Path(file_okay=False, path_type=Path),
        expose_value=False,
        callback=_keep,
        hidden=hidden,
        help="Folder of the box; default: MESOS_GPU_WORK_DIR, else mesos-gpu in the user's state folder, else the "
        "machine's box (`up --system`).",
    )(command)


def debug_option(command: Command, *, hidden: bool = True) -> Command:
    """Let a command take --debug."""
    return click.option(
        "--debug",
        is_flag=True,
        default=None,
        expose_value=False,
        callback=_keep,
        hidden=hidden,
        help="Show where in the program an error came from.",
    )(command)


def target_options(command: Command, *, hidden: bool = True) -> Command:
    """Let a command take --work_dir, --debug and the options about servers, which the program's own help explains."""
    command = debug_option(command, hidden=hidden)
    return work_dir_option(connection_options(command, hidden=hidden), hidden=hidden)


class _OutputType(_ParamType):
    """A form of output; what is wrong with one is bad usage."""

    name = "form"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        try:
            return value if isinstance(value, Output) else Output.of(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        return [click.shell_completion.CompletionItem(form) for form in FORMS if form.startswith(incomplete)]


def output_options(*, default: str = "table") -> Callable[[Command], Command]:
    """Let a command take -o FORM, --json and -q; without any its answer has the form `default`."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        console = context.ensure_object(Console)
        console.default_output = Output(default)
        if parameter.name == "output":
            console.output = value or console.output
        elif value:
            console.output = Output("json" if parameter.name == "json" else "name")

    def decorate(command: Command) -> Command:
        usual: dict[str, Any] = {"expose_value": False, "callback": keep}
        for option in (
            click.option("--quiet", "-q", is_flag=True, help="Print ids only, as -o name.", **usual),
            click.option("--json", is_flag=True, help="As -o json.", **usual),
            click.option(
                "--output",
                "-o",
                type=_OutputType(),
                metavar="FORM",
                help=f"{', '.join(FORMS)}TEMPLATE; default: {default}.",
                **usual,
            ),
        ):
            command = option(command)
        return command

    return decorate


def watch_options(command: Command) -> Command:
    """Let a command take --watch and --interval; its look is then given to `Console.repeat`."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            console = context.ensure_object(Console)
            console.watch_s = (console.watch_s or DEFAULT_WATCH_S) if value is True else float(value or 0)

    for option in (
        click.option(
            "--interval",
            type=Number(min=0.1),
            metavar="SECONDS",
            expose_value=False,
            callback=keep,
            help=f"How often to look; implies --watch. Default: {DEFAULT_WATCH_S:g}.",
        ),
        click.option(
            "--watch",
            "-w",
            is_flag=True,
            default=None,
            expose_value=False,
            callback=keep,
            help="Refresh until Ctrl-C.",
        ),
    ):
        command = option(command)
    return command


def selector_option(command: Command) -> Command:
    """Let a list take --label; it gets a selector in Marathon's form as `label`, None where none was given."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        # kubectl writes app=web for what Marathon writes app==web.
        return value if value is None else re.sub(r"(?<![=!])=(?!=)", "==", value)

    text = "Only those with these labels, as in team==vision,gpu or team=vision."
    return click.option("--label", "--selector", "-l", "label", metavar="SELECTOR", callback=read, help=text)(command)
