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

    The address of this machine's box lets a browser of yours in, once and within two minutes. Where no browser can be
    opened (no display, or a session over SSH) the address alone is printed.
    """
    marathon = console.marathon()
    marathon.info()  # an address at which nobody answers is of no use
    address, connections = f"{marathon.url}/ui/", console.connections()
    login = connections.box_login_of(marathon.url)
    # What sudo starts opens no browser of root's: who typed it does.
    uid = int(os.environ["SUDO_UID"]) if os.environ.get("SUDO_UID", "").isdecimal() else os.geteuid()
    ticket = None if login is None else marathon.ticket(uid, connections.box_authorization())
    address += "" if ticket is None else f"#ticket={ticket}"
    click.echo(address)
    if login is not None:
        asks = f"the page asks for the box's credential: the name is {login[0]}, the password what {login[1]} has"
        once = "this address lets a browser of this user in once, within two minutes; without it "
        say(asks if ticket is None else once + asks)
    if not only_print and has_browser(os.environ, sys.platform):
        import webbrowser

        webbrowser.open(address)


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser that is opened here is seen by who asked for it."""
    if environ.get("SSH_CONNECTION"):
        return False
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
