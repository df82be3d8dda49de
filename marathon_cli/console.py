"""What every command is given: which Marathon it talks to, and how it finds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from marathon_cli.box import default_work_dir, find_marathon

if TYPE_CHECKING:
    from marathon_cli.client import Marathon

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Console:
    """The options that all commands share; they may stand before or behind a command's name."""

    marathon_url: str | None = None
    work_dir: Path | None = None

    def box_dir(self, environ: Mapping[str, str] = os.environ) -> Path:
        """Return the work_dir of the box that is meant."""
        return self.work_dir or default_work_dir(environ)

    def marathon(self, environ: Mapping[str, str] = os.environ) -> Marathon:
        """Return a client of the Marathon that is meant. Raises Unavailable when none is named and no box runs.

        An option counts more than an environment variable, a URL more than a box.
        """
        from marathon_cli.client import Marathon

        if self.marathon_url:
            client = Marathon(self.marathon_url, named_by="--marathon-url")
        elif self.work_dir is None and (url := environ.get("MARATHON_URL")):
            client = Marathon(url, named_by="MARATHON_URL")
        else:
            work_dir = self.box_dir(environ)
            client = Marathon(find_marathon(work_dir), named_by=f"the box in {work_dir}")
        click.get_current_context().call_on_close(client.close)
        return client


pass_console = click.make_pass_decorator(Console, ensure=True)


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None and parameter.name is not None:
        setattr(context.ensure_object(Console), parameter.name, value)


def work_dir_option(command: Command) -> Command:
    """Let a command take --work_dir."""
    return click.option(
        "--work_dir",
        "--work-dir",
        "work_dir",
        type=click.Path(file_okay=False, path_type=Path),
        expose_value=False,
        callback=_keep,
        help="Folder of the box; default: MESOS_GPU_WORK_DIR, else mesos-gpu in the user's state folder.",
    )(command)


def target_options(command: Command) -> Command:
    """Let a command take --marathon-url and --work_dir."""
    return click.option(
        "--marathon-url",
        "--marathon_url",
        "marathon_url",
        metavar="URL",
        expose_value=False,
        callback=_keep,
        help="Marathon to talk to; default: MARATHON_URL, else the box that runs here.",
    )(work_dir_option(command))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
