"""`mesos-gpu help`: what a command says of itself."""

from __future__ import annotations

import click


@click.command(name="help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show what COMMAND does and takes; without one, which commands there are."""
    here = context.find_root()
    rest = list(words)
    while rest:
        command = here.command
        if not isinstance(command, click.Group):
            break  # what stands behind a command is not a command
        name, found, rest = command.resolve_command(here, rest)
        if found is None:
            here.fail(f"there is no command `{here.command_path} {name}`")
        here = click.Context(found, info_name=name, parent=here)
    click.echo(here.get_help())
