"""`mesos-gpu ui`: the page of a Marathon, in a browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import target_options
from marathon_cli.screen.output import say


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Print the address, and open nothing.")
@target_options
@pass_console
def ui(console: Console, only_print: bool) -> None:
    """Open the page of Marathon in a browser, and print its address.

    Where no browser can be opened (no display, or a session over SSH) the address alone is printed.
    """
    marathon = console.marathon()
    marathon.info()  # an address at which nobody answers is of no use
    address = f"{marathon.url}/ui/"
    click.echo(address)
    if (name := console.connections().box_login_of(marathon.url)) is not None:
        say(f"the page asks for the box's credential: the name is {name[0]}, the password what {name[1]} has")
    if not only_print and has_browser(os.environ, sys.platform):
        import webbrowser

        webbrowser.open(address)


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser that is opened here is seen by who asked for it."""
    if environ.get("SSH_CONNECTION"):
        return False
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
