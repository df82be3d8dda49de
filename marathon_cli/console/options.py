"""The options that many commands share: where the box is, in which form a command answers, how often it looks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from marathon_cli.console.console import Console
from marathon_cli.screen.arguments import Number
from marathon_cli.screen.output import FORMS, Output
from mesos_gpu.errors import BadInput

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    ("marathon-url", "URL",
     "Marathon to talk to (several between commas); default: MARATHON_URL, the profile, the box that runs here."),
    ("mesos-url", "URL", "Mesos master to talk to; default: MESOS_URL, else the one that Marathon names."),
    ("token", "TOKEN", "Send `Authorization: token=TOKEN`, as to DC/OS; @FILE reads it from a file."),
    ("ca", "FILE", "Trust the certificate authorities in FILE (PEM)."),
    ("client-cert", "FILE", "Show this certificate (PEM) to servers."),
    ("client-key", "FILE", "The certificate's key, when it is not in the same file."),
    ("proxy", "URL", "Go through this proxy; `none`: through none, whatever the environment says."),
    ("http-timeout", "SECONDS", "How long to wait for an answer of a server."),
)  # fmt: skip


def connection_options(command: Command, *, hidden: bool) -> Command:
    """Let a command take the options about servers."""
    usual: dict[str, Any] = {"expose_value": False, "hidden": hidden}
    for name, metavar, text in reversed(_OPTIONS):
        spellings = dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}"))
        option = click.option(
            *spellings, name.replace("-", "_"), metavar=metavar, callback=_keep_setting, help=text, **usual
        )
        command = option(command)
    for option in (
        click.option(
            "--insecure",
            is_flag=True,
            default=None,
            callback=_keep_insecure,
            help="Do not check certificates: others may read, and change, what is sent.",
            **usual,
        ),
        click.option(
            "--auth",
            metavar="NAME[:PASSWORD]",
            callback=_keep_login,
            help="Log in (HTTP basic); without a password it is asked for.",
            **usual,
        ),
        click.option(
            "--profile",
            metavar="NAME",
            callback=_keep_profile,
            help="Use the servers and credentials of a profile (`mesos-gpu config`).",
            **usual,
        ),
    ):
        command = option(command)
    return command


def _settings(context: click.Context) -> dict[str, str]:
    return context.ensure_object(Console).settings


def _keep_setting(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is None or parameter.name is None:
        return
    name = parameter.name.replace("_", "-")
    if name == "token" and value.startswith("@"):
        value = _first_line(value[1:])
    _settings(context)[name] = value


def _keep_insecure(context: click.Context, _parameter: click.Parameter, value: bool | None) -> None:
    if value is not None:
        _settings(context)["insecure"] = str(value).lower()


def _keep_login(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    name, colon, password = value.partition(":")
    if not name:
        raise click.UsageError("--auth needs a name: NAME or NAME:PASSWORD")
    if not colon and not context.resilient_parsing:
        password = click.prompt(f"Password of {name}", hide_input=True, err=True)
    _settings(context).update({"user": name, "password": password})


def _keep_profile(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Console).profile = value


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as the user wrote it
            return file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"--token @{path}: {str(reason).lower()}") from None


if TYPE_CHECKING:
    _ParamType = click.ParamType[Output]
else:
    _ParamType = click.ParamType  # generic only in later versions of click


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
