"""What every command is given: which Marathon it talks to, how it finds it, and in which form it answers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from marathon_cli.connection.box import found_work_dir
from marathon_cli.screen.language import told
from marathon_cli.screen.output import DEFAULT, Output, Table, render, say
from mesos_gpu.errors import Unavailable

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from marathon_cli.clients.marathon import Marathon
    from marathon_cli.clients.mesos import Mesos
    from marathon_cli.console.connections import Connections
    from mesos_gpu.doors.common.agent import AgentAddress


Command = TypeVar("Command", bound=Callable[..., Any])


def watch(look: Callable[[], str], every_s: float, screen: RichConsole | None) -> NoReturn:
    """Show what `look` returns, again and again, until an exception ends it.

    It is shown in place on a terminal's `screen`; elsewhere a text is printed if it differs from the last one.
    """
    if screen is not None:
        from rich.live import Live
        from rich.text import Text

        with Live(console=screen, auto_refresh=False, vertical_overflow="ellipsis") as live:
            while True:
                live.update(Text.from_ansi(look()), refresh=True)
                time.sleep(every_s)
    last = ""
    while True:
        text = look()
        if text != last:
            click.echo(("\n" if last else "") + text, nl=False)
            sys.stdout.flush()
        last = text
        time.sleep(every_s)


@dataclass
class Console:
    """The options that all commands share; they may stand before or behind a command's name."""

    settings: dict[str, str] = field(default_factory=dict)
    """What options say about connections."""
    profile: str | None = None
    work_dir: Path | None = None
    output: Output | None = None
    """What -o or -q asked for; None where neither was given."""
    default_output: Output = DEFAULT
    debug: bool = False
    watch_s: float | None = None
    """How often --watch looks; None where it was not asked for."""
    goes_on: str = ""
    """What a server continues doing when this program is interrupted; said then."""
    _caught: list[str] | None = None
    """What is shown in one look of --watch."""
    _connections: Connections | None = None

    @property
    def form(self) -> str:
        """The name of the form that the answer has: table, wide, json, yaml, name or jsonpath."""
        return (self.output or self.default_output).form

    def show(self, value: Any, *, table: Callable[[], Table], names: Sequence[str], none: str = "") -> None:
        """Print a value in the form that was asked for; `names` are the ids in it.

        Where people read a list and nothing is in it, `none` says so on stderr, with what to do next.
        """
        text = render(value, self.output or self.default_output, table=table, names=names)
        empty = none if not value and self.form in ("table", "wide") else ""
        if self._caught is not None:
            self._caught += [text, f"{empty}\n"] if empty else [text]
            return
        click.echo(text, nl=False)
        if empty:
            say(empty)

    def repeat(self, look: Callable[[], None]) -> None:
        """Do what shows something, again and again where --watch says so. A server that is away is waited for."""
        if self.watch_s is None:
            look()
            return
        screen = None
        if sys.stdout.isatty():
            from rich.console import Console as RichConsole

            screen = RichConsole()

        def text() -> str:
            self._caught = []
            try:
                look()
            except Unavailable as error:
                return f"{error}\n"
            finally:
                caught, self._caught = self._caught, None
            return "".join(caught)

        watch(text, self.watch_s, screen)

    def tell(self, sentence: str, value: Any, *, names: Sequence[str]) -> None:
        """Print what was done: a sentence, where no other form was asked for."""
        output = self.output or self.default_output
        if output.form in ("table", "wide"):
            click.echo(told(sentence, sys.stdout))
        else:
            click.echo(render(value, output, table=lambda: Table(()), names=names), nl=False)

    def box_dir(self, environ: Mapping[str, str] = os.environ) -> Path:
        """Return the work_dir of the box that is meant."""
        return self.work_dir or found_work_dir(environ)

    def marathon(self) -> Marathon:
        """Return a client of the Marathon that is meant. Raises Unavailable when none is named and no box runs.

        An option counts more than an environment variable, that more than the profile in use, a URL more than a box.
        """
        client = self.connections().marathon()
        click.get_current_context().call_on_close(client.close)
        return client

    def mesos(self, marathon: Marathon | None = None) -> Mesos:
        """Return a client of the master that is meant, else of the one that Marathon names, and of its agents.

        `marathon` saves making a client of Marathon for that question. Raises as `marathon` does.
        """
        client = self.connections().mesos(marathon)
        click.get_current_context().call_on_close(client.close)
        return client

    def connections(self) -> Connections:
        """Return what is set about servers."""
        from marathon_cli.console.connections import Connections

        if self._connections is None:
            self._connections = Connections(self.settings, self.profile, self.work_dir)
        return self._connections


pass_console = click.make_pass_decorator(Console, ensure=True)


def box_agents(console: Console) -> list[str]:
    """Return the URLs of the box's agents; none without a box."""
    import json

    try:
        box = json.loads((console.box_dir(os.environ) / "box.json").read_bytes())
        return [str(agent["url"]).rstrip("/") for agent in box.get("agents", [])]
    except (OSError, ValueError, TypeError, LookupError):
        return []


def local_agent(console: Console, url: str | None) -> AgentAddress:
    """Return the agent to ask: `url`, or the one that the environment names, or the box's first, or the usual one.

    The box's asks for the box's credential, which whoever started it may read.
    """
    from mesos_gpu.doors.common.agent import VARIABLE, find_agent

    of_box = box_agents(console)
    given = url or os.environ.get(VARIABLE)
    address = find_agent(given or next(iter(of_box), None))
    netrc = console.box_dir(os.environ) / "access" / "netrc"
    if address.url.rstrip("/") in of_box and not address.credential and netrc.exists():
        return replace(address, credential=str(netrc))
    return address
