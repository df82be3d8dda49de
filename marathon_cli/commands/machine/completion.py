"""`mesos-gpu completion`: commands, options and the names of what there is, at Tab."""

from __future__ import annotations

import click

from marathon_cli.completion import script
from marathon_cli.registry import PROGRAM


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
