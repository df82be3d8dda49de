"""Waits for a deployment, telling what it is doing and why it does not get on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from marathon_cli.changes.rollout import (
    Failures,
    Standing,
    app_standing,
    failure_text,
    id_of,
    pod_standing,
    progress,
    reasons_of,
    targets_of,
    waits_for_offers,
)
from marathon_cli.clients.marathon import Apps, Change, ChangeTarget, Marathon, Pods
from marathon_cli.console.console import Console
from marathon_cli.screen.output import say
from marathon_cli.screen.progress import Screen
from mesos_gpu.errors import Conflict, NotFound, TimeIsUp, Unavailable

PAUSE_S = 0.25
LOOKS_AFTERWARDS = 8
"""How often to look whether tasks stay, where there is a reason to doubt it."""

SILENCE_S = 30.0
"""How long Marathon may be silent (it is being restarted) before waiting is given up."""


class KeepsFailing(Conflict):
    """The tasks of a deployment fail one after the other, whether it continues or Marathon takes it for done."""


@dataclass(slots=True)
class Wait:
    """One wait for one deployment. Clock, sleep and screen come in.

    `targets` are the apps and pods it is about; when there are none, those that Marathon names.
    """

    marathon: Marathon
    change: Change
    targets: Sequence[ChangeTarget]
    screen: Screen
    now: Callable[[], float]
    sleep: Callable[[float], None]
    show_pulls: Callable[[], None] | None = None
    """Called when a task may be waiting for its image."""
    give_up: bool = False
    """Whether to stop as soon as the deployment clearly fails (`failing.Failures`)."""
    pause: Callable[[float], None] | None = None
    """How to wait for the next look, where something may come before it is time; else `sleep` does it."""
    _failures: dict[str, Failures] = field(default_factory=dict)
    _blocked: set[str] = field(default_factory=set)

    def until_done(self, timeout_s: float) -> None:
        """Return when the deployment is done; 0 waits without end.

        Raises TimeIsUp, Unavailable when Marathon stays silent, Conflict when the deployment was given up, KeepsFailing
        when it is done and its tasks fail; with `give_up` also before, when they fail one after the other.
        """
        begun = heard = self.now()
        while True:
            try:
                if self._look():
                    break
                heard = self.now()
            except Unavailable as error:
                if self.now() - heard > SILENCE_S:
                    raise
                self.screen.status("", f"still waiting: {error}")
            if self.give_up and any(failures.hopeless for failures in self._failures.values()):
                raise KeepsFailing(self._hopeless())
            if timeout_s and self.now() - begun >= timeout_s:
                raise TimeIsUp(self._verdict(timeout_s))
            (self.pause or self.sleep)(PAUSE_S)
        for target in self.targets:
            self._check(target)
        if self.give_up or any(failures.in_a_row for failures in self._failures.values()):
            self._see_it_stay()

    def _see_it_stay(self) -> None:
        """Look on for a moment: to Marathon, a task without health checks that ends right away was a success."""
        before = {name: failures.task_id for name, failures in self._failures.items()}
        for _ in range(LOOKS_AFTERWARDS):
            self.sleep(PAUSE_S)
            for target in self.targets:
                standing = None if target.gone else self._standing(target)
                if standing is None:
                    continue
                self._tell_failure(standing)
                if self._failures[standing.id].task_id != before.get(standing.id, ""):
                    raise self._does_not_stay(target, standing)

    def _does_not_stay(self, target: ChangeTarget, standing: Standing) -> KeepsFailing:
        return KeepsFailing(
            f"Marathon takes the deployment {self.change.deployment_id} for done, and the tasks of {target.id} do not "
            f"stay: {standing.running} of {standing.wanted} running\n  the last: {self._failures[standing.id].words}\n"
            "  with a health check, Marathon waits until they are well"
        )

    @property
    def _names(self) -> str:
        return ", ".join(target.id for target in self.targets[:3]) + (", ..." if len(self.targets) > 3 else "") or "it"

    def _look(self) -> bool:
        """Show what is new; return whether the deployment is done."""
        listed = self.marathon.deployments(blockers=True)
        mine = next((item for item in listed if item.get("id") == self.change.deployment_id), None)
        if mine is None:
            return True
        self.targets = self.targets or targets_of(mine)
        for blocker in mine.get("blockers") or []:
            self._tell_blocker(blocker)
        pulling = False
        for target in self.targets:
            standing = self._standing(target)
            if standing is not None:
                self._tell_failure(standing)
                pulling = pulling or standing.image
            ready, wanted = (standing.ready, standing.wanted) if standing is not None else (0, 0)
            self.screen.status(target.id, progress(target.id, mine, standing), ready, wanted)
        if self.show_pulls is not None and pulling:
            self.show_pulls()
        return False

    def _standing(self, target: ChangeTarget) -> Standing | None:
        try:
            if target.kind == "pod":
                return pod_standing(Pods(self.marathon).status(target.id))
            return app_standing({"id": target.id, **self.marathon.app(target.id)})
        except NotFound:
            return None

    def _tell_blocker(self, blocker: Mapping[str, Any]) -> None:
        app_id = str(blocker.get("app"))
        if app_id not in self._blocked:
            self._blocked.add(app_id)
            self.screen.say(f"{blocker.get('message')} `mesos-gpu why {app_id}` says what would help")

    def _tell_failure(self, standing: Standing) -> None:
        before = self._failures.get(standing.id, Failures())
        now = self._failures[standing.id] = before.after(standing, self.change.version)
        if now.task_id == before.task_id or standing.failure is None:
            return
        if now.words == before.words:
            self.screen.say(f"task {now.task_id}: the same again")
        else:
            self.screen.say(failure_text(standing.failure))

    def _hopeless(self) -> str:
        lines = [f"{self._names} will not get there; the deployment {self.change.deployment_id} continues"]
        for name, failures in self._failures.items():
            if failures.hopeless:
                lines.append(
                    f"  {failures.in_a_row} tasks of {name} have failed one after the other, and none is ready"
                )
                lines.append(f"  the last: {failures.words}")
        return "\n".join(lines)

    def _verdict(self, timeout_s: float) -> str:
        deployment_id = self.change.deployment_id
        are = "are" if len(self.targets) > 1 else "is"
        lines = [f"{self._names} {are} not there yet after {timeout_s:g} s; the deployment {deployment_id} continues"]
        for target in self.targets:
            try:
                standing = self._standing(target)
            except Unavailable:
                standing = None
            if standing is not None and standing.failure:
                lines.append(f"  {failure_text(standing.failure)}")
            if reasons := self._waiting_for(target):
                lines.append(f"  {target.id} waits: {reasons}")
        if self.targets and self.targets[0].kind == "app":
            lines.append(f"  `mesos-gpu why {self.targets[0].id}` tells more")
        lines.append(f"  `mesos-gpu deployment rollback {deployment_id}` takes it back")
        return "\n".join(lines)

    def _waiting_for(self, target: ChangeTarget) -> str:
        """Return why offers do not serve, from the launch queue."""
        try:
            queue = self.marathon.queue()
        except (Unavailable, NotFound):
            return ""
        for item in queue:
            if id_of(item) == target.id:
                return "; ".join(reasons_of(item)) or "no offer of resources has come"
        return ""

    def _check(self, target: ChangeTarget) -> None:
        """Look at what a finished deployment has left: Marathon does not tell success from giving up."""
        standing, deployment_id = self._standing(target), self.change.deployment_id
        if target.gone:
            if standing is not None and not standing.deployments:
                raise Conflict(f"{target.id} is still there: its removal {deployment_id} was given up")
            return
        if standing is None:
            raise Conflict(f"{target.id} is gone: its deployment {deployment_id} was given up")
        self._tell_failure(standing)
        if (standing.running < standing.wanted and standing.deployments) or (
            self.change.version and standing.version > self.change.version
        ):
            raise Conflict(f"another deployment has replaced {deployment_id} of {target.id}")
        if standing.old or (standing.running < standing.wanted and self._never_launched(target, standing)):
            raise Conflict(f"the deployment {deployment_id} of {target.id} was stopped before its end: {standing.text}")
        failures = self._failures.get(target.id, Failures())
        if failures.in_a_row and standing.running < standing.wanted:
            raise self._does_not_stay(target, standing)
        line = f"{target.id}: {standing.running} of {standing.wanted} running"
        self.screen.status(target.id, line, standing.ready, standing.wanted)

    def _never_launched(self, target: ChangeTarget, standing: Standing) -> bool:
        if standing.states or self._failures.get(target.id, Failures()).task_id:
            return False
        try:
            return waits_for_offers(self.marathon.queue(), target.id)
        except (Unavailable, NotFound):
            return False


def wait_for(
    marathon: Marathon, change: Change, targets: Sequence[ChangeTarget], timeout_s: float, *, give_up: bool = False
) -> None:
    """Wait for a deployment, and show how it goes; without targets, of all that Marathon says it is about.

    Raises TimeIsUp, Conflict when it was given up, Unavailable; with `give_up` KeepsFailing.
    """
    from marathon_cli.clients.event_stream import EventStream
    from marathon_cli.screen.progress import Bars, new_screen
    from marathon_cli.show.pulls import PullWatch

    screen = new_screen()
    pulls = PullWatch(marathon, screen.progress if isinstance(screen, Bars) else None)
    names = {target.id for target in targets}
    news = EventStream(marathon, lambda event: event.get("id") == change.deployment_id or event.get("appId") in names)
    wait = Wait(marathon, change, targets, screen, time.monotonic, time.sleep, pulls.look, give_up, news.pause)
    try:
        wait.until_done(timeout_s)
    finally:
        news.close()
        pulls.close()
        screen.close()


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
