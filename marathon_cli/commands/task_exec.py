"""`mesos-gpu task exec` and `attach`: hands inside a task's container."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from marathon_cli.clients.task_names import TaskRef, one
from marathon_cli.connection.http import HttpClient
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import target_options
from marathon_cli.screen import terminal
from marathon_cli.screen.output import say
from marathon_cli.screen.terminal import DETACH_KEYS
from marathon_cli.screen.terminal import keys as read_keys
from mesos_gpu.errors import Conflict, NotFound, Refused

Command = TypeVar("Command", bound=Callable[..., Any])

DETACHED, UNKNOWN = 0, 1


def detach_option(command: Command) -> Command:
    """Let a command take --detach-keys."""
    return click.option(
        "--detach-keys",
        metavar="KEYS",
        default=lambda: os.environ.get("DCOS_TASK_ESCAPE_SEQUENCE") or DETACH_KEYS,
        help=f"Keys that leave a terminal; default: DCOS_TASK_ESCAPE_SEQUENCE, else {DETACH_KEYS}.",
    )(command)


class _OptionsBehindTheTask(click.Command):
    """A command whose options may stand between TASK and --, where nothing else does: as kubectl's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options."""
        before = args[: args.index("--")] if "--" in args else []
        options = [one for one in self.params if isinstance(one, click.Option)]
        valued = {name for one in options if not one.is_flag for name in one.opts}
        names = [
            word
            for last, word in zip(["", *before], before, strict=False)
            if not word.startswith("-") and last not in valued
        ]
        if len(names) == 1:
            ctx.allow_interspersed_args, ctx.ignore_unknown_options = True, False
        return super().parse_args(ctx, args)


@click.command(
    cls=_OptionsBehindTheTask,
    name="exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--interactive", "-i", is_flag=True, help="Pass standard input on.")
@click.option(
    "--tty", "-t", is_flag=True, help="Give it a terminal; Ctrl-C then goes to the command, not to mesos-gpu."
)
@click.option("--user", "-u", metavar="USER", help="Run it as this user; default: the task's.")
@click.option("--env", "-e", "variables", metavar="NAME=VALUE", multiple=True, help="Set a variable; may be repeated.")
@detach_option
@click.argument("task", metavar="TASK")
@click.argument("command", metavar="COMMAND [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
@target_options
@pass_console
def exec_(
    console: Console,
    interactive: bool,
    tty: bool,
    user: str | None,
    variables: tuple[str, ...],
    detach_keys: str,
    task: str,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND in the container of TASK, with its GPUs, files and limits.

    TASK is an id, the beginning of one, an app or a pattern, as long as it means one running task. Options stand before
    TASK, or between it and --. Ends with COMMAND's exit status (128 + N for signal N). Without -t Ctrl-C ends COMMAND.
    """
    # Here: sessions need HTTP (ssl) and terminals, which --help and the commands beside this one do without.
    from marathon_cli.oneoff.session import Wish, execute

    environment = _environment(variables)
    wish = Wish(interactive, tty, read_keys(detach_keys))
    wish.check()
    agent, found = find_task(console, task)
    words = command[1:] if command[0] == "--" else command
    if not words:
        raise click.UsageError("there is no COMMAND behind --")
    try:
        end = execute(agent, container_of(found), words, wish, user=user, environment=environment)
    except NotFound as error:
        raise NotFound(f"task {found.id} no longer runs: {error}") from None
    if end.detached:
        say(f"\ndetached; {words[0]} was ended, as its agent does when nobody is connected")
        return DETACHED
    if end.status is None:
        say(f"how {words[0]} ended is not known: the agent does not tell (did the task end?)")
        return UNKNOWN
    return end.status


@click.command()
@click.option("--no-stdin", is_flag=True, help="Only watch: send no input.")
@detach_option
@click.argument("task", metavar="TASK")
@target_options
@pass_console
def attach(console: Console, no_stdin: bool, detach_keys: str, task: str) -> int:
    """Attach this terminal to TASK's own, until it ends or the detach keys are typed.

    The task continues when we leave. It must have a terminal ("tty": true in its app).
    """
    from marathon_cli.oneoff.session import Wish
    from marathon_cli.oneoff.session import attach as attach_to

    keys = read_keys(detach_keys)
    agent, found = find_task(console, task)
    here = terminal.is_terminal(0)
    if keys and here and not no_stdin:
        say(f"attached to {found.id}; {detach_keys} leaves it")
    try:
        end = attach_to(agent, container_of(found), Wish(not no_stdin, here and not no_stdin, keys))
    except NotFound as error:
        raise NotFound(f"task {found.id} no longer runs: {error}") from None
    except Refused as error:
        if error.status == 409:
            raise Conflict(f"somebody else types into task {found.id} already; --no-stdin looks on") from None
        if "switchboard" in str(error):
            raise Conflict(
                f'task {found.id} has no terminal to attach to: its app needs "tty": true. '
                f"`mesos-gpu task log -f` shows what it writes, `task exec -it` starts a shell beside it"
            ) from None
        raise
    if end.detached:
        say(f"\ndetached from {found.id}; it continues")
    return DETACHED


def find_task(console: Console, name: str) -> tuple[HttpClient, TaskRef]:
    """Return the one running task that `name` means and the client of its agent. Raises NotFound, BadInput."""
    mesos = console.mesos()
    found = one([TaskRef.of(task) for task in mesos.tasks()], name)
    return mesos.agent(found.agent_id), found


def container_of(task: TaskRef) -> Mapping[str, Any]:
    """Return the id of a task's container. Raises Conflict when it has none yet."""
    if task.container_id is None:
        raise Conflict(f"task {task.id} has no container yet: it is {task.state}")
    return task.container_id


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in variables:
        name, equals, value = text.partition("=")
        if not name:
            raise click.UsageError(f"--env {text!r} is not NAME=VALUE")
        # As docker does: a name alone takes the value that it has here.
        found[name] = value if equals else os.environ.get(name, "")
    return found
