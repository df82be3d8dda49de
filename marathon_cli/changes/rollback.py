"""Rolls back a change that has not come about: its deployment, or what a deployment that is over has left."""

from __future__ import annotations

from collections.abc import Sequence

from marathon_cli.changes.change_target import ChangeTarget
from marathon_cli.changes.wait import KeepsFailing, wait_for
from marathon_cli.clients.marathon import Apps, Change, Marathon
from marathon_cli.console.console import Console
from marathon_cli.screen.output import say
from mesos_gpu.errors import Conflict, NotFound, TimeIsUp


def lead_back(
    console: Console,
    marathon: Marathon,
    change: Change,
    targets: Sequence[ChangeTarget],
    timeout_s: float,
    error: TimeIsUp | KeepsFailing,
) -> None:
    """Roll back and wait for that, too; return only when the deployment has come to a good end just then.

    Raises TimeIsUp or Conflict, as `error` is: what was asked for has not come about. Raises Conflict when the
    deployment was given up.
    """
    say(str(error).partition("\n")[0])
    back = _deployment_back(marathon, str(change.deployment_id))
    if back is None and isinstance(error, KeepsFailing):
        back = _app_back(marathon, change, targets)
    if back is None:
        say("it has just ended; nothing is rolled back")
        wait_for(marathon, change, targets, timeout_s)
        return
    say(f"Created deployment {back.deployment_id}: rolls back {change.deployment_id}")
    console.goes_on = f"the deployment {back.deployment_id}, which rolls it back, continues"
    reasons = "\n".join(line for line in str(error).splitlines()[1:] if "`mesos-gpu " not in line)
    try:
        wait_for(marathon, back, (), timeout_s)
    except TimeIsUp as late:
        raise TimeIsUp(f"{late}\n  it rolls back {change.deployment_id}") from None
    console.goes_on = ""
    if isinstance(error, TimeIsUp):
        raise TimeIsUp(f"not there after {timeout_s:g} s, and rolled back\n{reasons}".rstrip())
    raise Conflict(f"task after task failed, so it was rolled back\n{reasons}".rstrip())


def _deployment_back(marathon: Marathon, deployment_id: str) -> Change | None:
    """Have Marathon roll a deployment back; None when it is over by now. Raises Unavailable, Refused."""
    try:
        return marathon.roll_back(deployment_id)
    except NotFound:
        return None


def _app_back(marathon: Marathon, change: Change, targets: Sequence[ChangeTarget]) -> Change | None:
    """Give one app the version it had before a deployment that is over; one that was new is removed.

    To Marathon a deployment is done as soon as tasks run, so one whose tasks end right away is never rolled back by it.
    None where it cannot be told what was before, as when somebody has changed the app since.
    """
    if len(targets) != 1 or targets[0].kind != "app" or targets[0].gone or change.version is None:
        return None
    apps, name = Apps(marathon), targets[0].id
    try:
        newest, *older = apps.versions(name)
        if newest != change.version:
            return None
        return apps.put(name, {"version": older[0]}, partial=True) if older else apps.remove(name)
    except (NotFound, ValueError):
        return None
