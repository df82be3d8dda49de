"""The options that say what is talked to, and how; they may stand before or behind a command's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from marathon_cli.console.console import Console
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
        option = click.option(*spellings, name.replace("-", "_"), metavar=metavar, callback=_keep, help=text, **usual)
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


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
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
