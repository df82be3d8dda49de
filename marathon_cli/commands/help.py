"""`mesos-gpu help` and `completion`: the help of a command, and what a shell needs to complete commands."""

from __future__ import annotations

import click

from marathon_cli.completion import script
from marathon_cli.registry import PROGRAM


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


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what SHELL needs to complete commands and names.

    \b
      bash   echo 'eval "$(mesos-gpu completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(mesos-gpu completion zsh)"' >> ~/.zshrc      (behind compinit)
      fish   mesos-gpu completion fish > ~/.config/fish/completions/mesos-gpu.fish

    Names of apps, tasks, agents and the like are asked of the servers that the command line, the environment or the
    profile in use name. One that does not answer within a second or two is done without.
    """
    click.echo(script(context.find_root().command, shell, PROGRAM))
