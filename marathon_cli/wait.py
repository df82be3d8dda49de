"""Waits for a deployment, telling what it is doing and why it does not get on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from marathon_cli.client import Marathon
from mesos_gpu.errors import Conflict, NotFound, Unavailable

PAUSE_S = 0.25
SILENCE_S = 30.0
"""How long Marathon may be silent (it is being restarted) before waiting is given up."""

_REASONS = {
    "UnfulfilledRole": "offered resources belong to other roles",
    "UnfulfilledConstraint": "no machine fulfils the constraints",
    "NoCorrespondingReservationFound": "its reservation is not offered",
    "AgentMaintenance": "machines are under maintenance",
    "InsufficientCpus": "not enough CPUs are free on one machine",
    "InsufficientMemory": "not enough memory is free on one machine",
    "InsufficientDisk": "not enough disk is free on one machine",
    "InsufficientGpus": "not enough GPUs are free on one machine",
    "InsufficientPorts": "the ports it wants are taken",
    "DeclinedScarceResources": "machines with GPUs are kept for apps that use them",
}


@dataclass(slots=True)
class Wait:
    """One wait for one deployment of one app. Clock, sleep and speech come in."""

    marathon: Marathon
    app_id: str
    deployment_id: str
    say: Callable[[str], None]
    now: Callable[[], float]
    sleep: Callable[[float], None]
    show_pulls: Callable[[], None] | None = None
    """Called when a task of the app may be waiting for its image."""
    _said: str = ""
    _failure: str = ""

    def until_done(self, timeout_s: float, *, removing: bool = False) -> None:
        """Return when the deployment is done; 0 waits without end.

        Raises Unavailable when time is up or Marathon stays silent, Conflict when the deployment was given up.
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
                self._tell(f"still waiting: {error}")
            if timeout_s and self.now() - begun >= timeout_s:
                raise Unavailable(self._verdict(timeout_s))
            self.sleep(PAUSE_S)
        self._check(removing)

    def _look(self) -> bool:
        """Say what is new; return whether the deployment is done."""
        mine = next((item for item in self.marathon.deployments() if item.get("id") == self.deployment_id), None)
        if mine is None:
            return True
        app = self._app()
        self._tell_failure(app)
        self._tell(progress(self.app_id, mine, app))
        if self.show_pulls is not None and _may_pull(app):
            self.show_pulls()
        return False

    def _app(self) -> Mapping[str, Any]:
        try:
            return self.marathon.app(self.app_id)
        except NotFound:
            return {}

    def _tell(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self.say(text)

    def _tell_failure(self, app: Mapping[str, Any]) -> None:
        failure = app.get("lastTaskFailure")
        if failure and failure.get("taskId") != self._failure:
            self._failure = str(failure.get("taskId"))
            self.say(failure_text(failure))

    def _verdict(self, timeout_s: float) -> str:
        lines = [f"{self.app_id} is not there yet after {timeout_s:g} s; its deployment {self.deployment_id} goes on"]
        if failure := self._app().get("lastTaskFailure"):
            lines.append(f"  {failure_text(failure)}")
        if reasons := self._waiting_for():
            lines.append(f"  waiting: {reasons}")
        lines.append(f"  `mesos-gpu app remove {self.app_id}` gives it up")
        return "\n".join(lines)

    def _waiting_for(self) -> str:
        """Return why offers do not serve, from the launch queue."""
        try:
            queue = self.marathon.queue()
        except (Unavailable, NotFound):
            return ""
        for item in queue:
            if (item.get("app") or {}).get("id") == self.app_id:
                return "; ".join(reasons_of(item)) or "no offer of resources has come"
        return ""

    def _check(self, removing: bool) -> None:
        """Look at what a finished deployment has left: Marathon does not tell success from giving up."""
        app = self._app()
        if removing:
            if app and not app.get("deployments"):
                raise Conflict(f"{self.app_id} is still there: its removal {self.deployment_id} was given up")
            return
        if not app:
            raise Conflict(f"{self.app_id} is gone: its deployment {self.deployment_id} was given up")
        self._tell_failure(app)
        running, wanted = app.get("tasksRunning", 0), app.get("instances", 0)
        if running < wanted and app.get("deployments"):
            raise Conflict(f"another deployment has replaced {self.deployment_id} of {self.app_id}")
        self._tell(f"{self.app_id}: {running} of {wanted} running")


def _may_pull(app: Mapping[str, Any]) -> bool:
    image = ((app.get("container") or {}).get("docker") or {}).get("image")
    states = {task.get("state", "TASK_STAGING") for task in app.get("tasks") or []}
    return bool(image) and not states.isdisjoint(("TASK_STAGING", "TASK_STARTING"))


def progress(app_id: str, deployment: Mapping[str, Any], app: Mapping[str, Any]) -> str:
    """Return one line about a deployment under way."""
    step, steps = deployment.get("currentStep", 0), deployment.get("totalSteps", 0)
    actions = sorted({str(item.get("action")) for item in deployment.get("currentActions", [])})
    states: dict[str, int] = {}
    for task in app.get("tasks") or []:
        state = str(task.get("state", "TASK_STAGING")).removeprefix("TASK_").lower()
        states[state] = states.get(state, 0) + 1
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "no task yet"
    wanted = app.get("instances")
    return f"{app_id}: step {step} of {steps} ({', '.join(actions) or 'starting'}): {tasks}" + (
        f" of {wanted}" if wanted is not None else ""
    )


def failure_text(failure: Mapping[str, Any]) -> str:
    """Return one line about a task that failed."""
    return (
        f"task {failure.get('taskId')} on {failure.get('host')}: {failure.get('state')}: "
        f"{failure.get('message') or 'no reason was given'}"
    )


def reasons_of(item: Mapping[str, Any]) -> list[str]:
    """Return, in words, why a waiting app was not launched: the reasons of the last offers, and its delay."""
    summary = (item.get("processedOffersSummary") or {}).get("rejectSummaryLastOffers") or []
    reasons = [
        _REASONS.get(entry.get("reason"), str(entry.get("reason"))) for entry in summary if entry.get("declined")
    ]
    left = (item.get("delay") or {}).get("timeLeftSeconds") or 0
    return [*reasons, f"the next try is in {left:g} s"] if left > 0 else reasons
