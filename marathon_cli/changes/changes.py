"""What every command that changes something has in common: its options, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from marathon_cli.console.console import Console
from marathon_cli.screen.arguments import Number
from mesos_gpu.errors import TimeIsUp

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Change, ChangeTarget, Marathon


Command = TypeVar("Command", bound=Callable[..., Any])


class Waiting(NamedTuple):
    """Whether to wait for a change, for how long (0 = without end), and what to do when it does not come about."""

    wanted: bool = False
    timeout_s: float = 0.0
    roll_back: bool = False


def wait_options(*, roll_back: bool = True) -> Callable[[Command], Command]:
    """Let a command take --wait, --timeout and --rollback-on-failure; it gets them as `waiting`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def inner(*args: Any, wait: bool, timeout_s: float, rollback_on_failure: bool = False, **others: Any) -> Any:
            return command(
                *args, waiting=Waiting(wait or rollback_on_failure, timeout_s, rollback_on_failure), **others
            )

        if roll_back:
            text = "Roll the change back when time is up or task after task fails; implies --wait."
            click.option("--rollback-on-failure", is_flag=True, help=text)(inner)
        click.option(
            "--timeout",
            "timeout_s",
            type=Number(min=0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="How long --wait waits; 0: forever.",
        )(inner)
        click.option("--wait", is_flag=True, help="Return when it is done, and show how it goes.")(inner)
        return inner  # type: ignore[return-value]

    return decorate


def force_option(command: Command) -> Command:
    """Let a command take --force."""
    return click.option("--force", is_flag=True, help="Override a deployment that locks what is to be changed.")(
        command
    )


def finish(
    console: Console,
    marathon: Marathon,
    change: Change,
    targets: Sequence[ChangeTarget],
    sentence: str,
    waiting: Waiting = Waiting(),  # noqa: B008 (a value)
    *,
    value: Mapping[str, Any] | None = None,
) -> None:
    """Say that a deployment was created; wait for it if that was asked for.

    Raises TimeIsUp (after rolling back, if asked to), Conflict when it was given up or rolled back because its
    tasks keep failing, Unavailable.
    """
    told = {"deploymentId": change.deployment_id, "version": change.version, **(value or {})}
    names = [change.deployment_id] if change.deployment_id else []
    console.tell(f"Created deployment {change.deployment_id}: {sentence}", told, names=names)
    if change.deployment_id is None:
        return
    taken_back = f"`mesos-gpu deployment rollback {change.deployment_id}` takes it back"
    console.goes_on = f"the deployment {change.deployment_id} continues; {taken_back}"
    if not waiting.wanted:
        return
    from marathon_cli.changes.wait import KeepsFailing, lead_back, wait_for

    try:
        wait_for(marathon, change, targets, waiting.timeout_s, give_up=waiting.roll_back)
    except (TimeIsUp, KeepsFailing) as error:
        if not waiting.roll_back:
            raise
        lead_back(console, marathon, change, targets, waiting.timeout_s, error)
    console.goes_on = ""
