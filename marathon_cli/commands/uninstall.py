"""`mesos-gpu uninstall`: what was set up on this machine, undone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from marathon_cli.connection.box import SYSTEM_WORK_DIR, default_work_dir, is_up
from marathon_cli.connection.profiles import ProfileStore
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import debug_option
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput

PACKAGED = "/usr/lib/mesos-gpu/"
"""Where the Debian package has its environment."""


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Say what is there, and remove nothing.")
@click.option(
    "--prefix", "prefixes", multiple=True, metavar="FOLDER", help="Another folder that `door install` put programs in."
)
@click.option("--root", default="/", hidden=True, type=click.Path(path_type=Path))
@debug_option
@pass_console
def uninstall(console: Console, yes: bool, dry_run: bool, prefixes: tuple[str, ...], root: Path) -> int:
    """Undo what was set up on this machine: programs of doors, hooks, CDI files, systemd units, completions.

    Says all of it first, and what is left to do by hand: the state of boxes, profiles, and the program itself.
    """
    from mesos_gpu.local import find_installed, installed

    found = find_installed(root, Path.home(), prefixes)
    ours = [piece for piece in found if piece.by_hand is None]
    for piece in ours:
        click.echo(f"removes  {piece.path}  ({piece.what})")
    if not ours:
        click.echo("nothing was set up on this machine that could be removed")
    by_hand = [f"{piece.path}  ({piece.what}): {piece.by_hand}" for piece in found if piece.by_hand]
    for line in [*by_hand, *_the_rest()]:
        click.echo(f"by hand  {line}")
    if dry_run or not ours:
        return 0
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise BadInput("nothing was removed; --yes confirms that")
        click.confirm("Remove these?", default=False, abort=True, err=True)
    systemd = root == Path("/") and Path("/run/systemd/system").is_dir()
    for piece in ours:
        installed.remove(piece, systemd=systemd)
    say(f"Removed {len(ours)}; engines that were told of them, such as dockerd, have to be restarted.")
    return 0


def _the_rest() -> Iterator[str]:
    for work_dir in dict.fromkeys([default_work_dir(os.environ), SYSTEM_WORK_DIR]):
        if (work_dir / "lock").exists():
            runs = "a box that runs" if is_up(work_dir) else "the state of a box"
            yield f"{work_dir}  ({runs}): mesos-gpu down --purge --work_dir {work_dir}"
    profiles = ProfileStore.of(os.environ).config.parent
    if profiles.is_dir():
        yield f"{profiles}  (profiles and credentials of the command line): rm -r {profiles}"
    program = Path(sys.argv[0]).absolute()
    yield f"{program}  (the program itself): {how_to_remove(Path(sys.prefix))}"


def how_to_remove(prefix: Path) -> str:
    """Return the command that removes the program from the environment at `prefix`, by what installed it."""
    if f"{prefix}/".startswith(PACKAGED):
        return "apt purge mesos-gpu"
    if (prefix / "pipx_metadata.json").exists():
        return "pipx uninstall mesos-gpu"
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool uninstall mesos-gpu"
    clone = prefix.parent
    if (clone / "run").exists() and (clone / "marathon_cli").is_dir():
        return f"{clone}/run uninstall"
    return f"{prefix}/bin/python -m pip uninstall mesos-gpu"
