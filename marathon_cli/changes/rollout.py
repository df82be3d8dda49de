"""How far a deployment has come, app by app and pod by pod, from what a Marathon shows of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from marathon_cli.clients.marathon import ChangeTarget
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.why.order import order_words

_REASONS: Mapping[str, str] = {
    Reason.UNFULFILLED_ROLE: "offered resources belong to other roles",
    Reason.UNFULFILLED_CONSTRAINT: "no machine fulfils the constraints",
    Reason.NO_CORRESPONDING_RESERVATION: "its reservation is not offered",
    Reason.AGENT_MAINTENANCE: "machines are under maintenance",
    Reason.INSUFFICIENT_CPUS: "not enough CPUs are free on one machine",
    Reason.INSUFFICIENT_MEMORY: "not enough memory is free on one machine",
    Reason.INSUFFICIENT_DISK: "not enough disk is free on one machine",
    Reason.INSUFFICIENT_GPUS: "not enough GPUs are free on one machine",
    Reason.INSUFFICIENT_PORTS: "the ports it wants are taken",
    Reason.DECLINED_SCARCE_RESOURCES: "machines with GPUs are kept for apps that use them",
}
_FAILED = ("TASK_FAILED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE")


@dataclass(frozen=True, slots=True)
class Standing:
    """How an app or a pod stands. `ready` counts what runs, in its present version, and is healthy where checked."""

    id: str
    wanted: int
    ready: int
    running: int
    states: Mapping[str, int] = field(default_factory=dict)
    old: int = 0
    version: str = ""
    deployments: Sequence[str] = ()
    failure: Mapping[str, Any] | None = None
    image: bool = False
    """Whether a task may be waiting for an image to be pulled."""

    @property
    def text(self) -> str:
        """What there is of what is wanted, in words."""
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "no task yet"
        unready = f", {self.ready} ready" if 0 < self.running != self.ready else ""
        return f"{states} of {self.wanted}{unready}" + (f", {self.old} of the old version" if self.old else "")


def app_standing(app: Mapping[str, Any]) -> Standing:
    """Return how an app stands, from GET /v2/apps/{id}."""
    tasks = [task for task in app.get("tasks") or [] if isinstance(task, Mapping)]
    states: dict[str, int] = {}
    for task in tasks:
        state = str(task.get("state", "TASK_STAGING")).removeprefix("TASK_").lower()
        states[state] = states.get(state, 0) + 1
    since = str((app.get("versionInfo") or {}).get("lastConfigChangeAt") or "")
    old = [task for task in tasks if since and "version" in task and str(task["version"]) < since]
    running = int(app.get("tasksRunning") or 0)
    if tasks:
        ready = sum(_is_ready(task, app) for task in tasks if task not in old)
    else:
        ready = int(app.get("tasksHealthy") or 0) if app.get("healthChecks") else running
    return Standing(
        id=str(app.get("id")),
        wanted=int(app.get("instances") or 0),
        ready=ready,
        running=running,
        states=states,
        old=len(old),
        version=str(app.get("version") or ""),
        deployments=[str(item.get("id")) for item in app.get("deployments") or []],
        failure=app.get("lastTaskFailure"),
        image=bool(((app.get("container") or {}).get("docker") or {}).get("image"))
        and not states.keys().isdisjoint(("staging", "starting")),
    )


def pod_standing(status: Mapping[str, Any]) -> Standing:
    """Return how a pod stands, from GET /v2/pods/{id}::status."""
    spec = status.get("spec") or {}
    instances = [item for item in status.get("instances") or [] if isinstance(item, Mapping)]
    states: dict[str, int] = {}
    for instance in instances:
        state = str(instance.get("status", "PENDING")).lower()
        states[state] = states.get(state, 0) + 1
    version = str(spec.get("version") or "")
    old = [i for i in instances if version and str(i.get("specReference", "")).rpartition("::versions/")[2] < version]
    old = [instance for instance in old if "::versions/" in str(instance.get("specReference", ""))]
    return Standing(
        id=str(status.get("id")),
        wanted=int((spec.get("scaling") or {}).get("instances", 1)),
        ready=sum(str(i.get("status")) == "STABLE" for i in instances if i not in old),
        running=states.get("stable", 0) + states.get("degraded", 0),
        states=states,
        old=len(old),
        version=version,
        image=not states.keys().isdisjoint(("staging",)),
        failure=_last_failure(status.get("terminationHistory") or []),
    )


def _last_failure(history: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the last instance of a pod that failed, in the form of an app's `lastTaskFailure`."""
    ends = sorted(history, key=lambda end: str(end.get("terminatedAt") or ""))
    for end in reversed(ends):
        for container in end.get("containers") or []:
            state = str(container.get("lastKnownState"))
            if state in _FAILED:
                message = end.get("message") or (container.get("termination") or {}).get("message")
                when = {"timestamp": end.get("terminatedAt"), "state": state, "message": message}
                return {"taskId": str(container.get("containerId")), **when}  # Marathon's word for the task's id
    return None


def _is_ready(task: Mapping[str, Any], app: Mapping[str, Any]) -> bool:
    if task.get("state") != "TASK_RUNNING":
        return False
    results = [result for result in task.get("healthCheckResults") or [] if result]
    return not app.get("healthChecks") or (bool(results) and all(result.get("alive") for result in results))


def targets_of(deployment: Mapping[str, Any]) -> list[ChangeTarget]:
    """Return the apps and pods that a deployment is about."""
    removed = {
        str(action.get("app", action.get("pod")))
        for step in deployment.get("steps") or []
        for action in step.get("actions") or []
        if action.get("action") in ("StopApplication", "StopPod")
    }
    named = [("app", name) for name in deployment.get("affectedApps") or []]
    named += [("pod", name) for name in deployment.get("affectedPods") or []]
    return [ChangeTarget(kind, str(name), str(name) in removed) for kind, name in named]


def progress(aim_id: str, deployment: Mapping[str, Any], standing: Standing | None) -> str:
    """Return one line about an app or pod of a deployment that is under way."""
    step, steps = deployment.get("currentStep", 0), deployment.get("totalSteps", 0)
    actions = sorted(set(_actions(aim_id, deployment)))
    doing = ", ".join(actions) or ("its turn is to come" if deployment.get("currentActions") else "starting")
    state = standing.text if standing is not None else "not there"
    return f"{aim_id}: step {step} of {steps} ({doing}): {state}"


def _actions(aim_id: str, deployment: Mapping[str, Any]) -> Iterator[str]:
    for action in deployment.get("currentActions") or []:
        if action.get("app", action.get("pod", aim_id)) == aim_id:
            yield str(action.get("action"))


def failure_text(failure: Mapping[str, Any]) -> str:
    """Return one line about a task that failed."""
    host = f" on {failure['host']}" if failure.get("host") else ""
    said = failure.get("message") or "no reason was given"
    return f"task {failure.get('taskId')}{host}: {failure.get('state')}: {said}"


def reasons_of(item: Mapping[str, Any]) -> list[str]:
    """Return, in words, why a waiting app was not launched: the reasons of the last offers, and its delay."""
    summary = (item.get("processedOffersSummary") or {}).get("rejectSummaryLastOffers") or []
    reasons = [_words(str(entry.get("reason")), item) for entry in summary if entry.get("declined")]
    if words := order_words(item):
        reasons.insert(0, words)
    left = (item.get("delay") or {}).get("timeLeftSeconds") or 0
    return [*reasons, f"the next try is in {left:g} s"] if left > 0 else reasons


def _words(reason: str, item: Mapping[str, Any]) -> str:
    """Return a reason in words; for ports and shares of GPUs, those that were requested."""
    document = item.get("app") or item.get("pod")
    if document is not None and reason in (Reason.INSUFFICIENT_GPUS, Reason.INSUFFICIENT_PORTS):
        from mesos_gpu.marathon.why.request import spec_of

        spec = spec_of(document)
        numbers = ", ".join(str(wish.number) for wish in spec.ports if wish.number is not None)
        if reason == Reason.INSUFFICIENT_PORTS and numbers:
            return f"no machine offers host port {numbers}"
        if reason == Reason.INSUFFICIENT_GPUS and (share := spec.largest_share) is not None:
            of_size = f" of {share.card_gib} GiB" if share.card_gib is not None else ""
            return f"no GPU{of_size} that tasks share has {max(share.mem_gib)} GiB of memory free"
    return _REASONS.get(reason, reason)


def waits_for_offers(queue: Sequence[Mapping[str, Any]], aim_id: str) -> bool:
    """Whether an app or pod is in the launch queue without a delay: none of its tasks has just ended."""
    return any(id_of(item) == aim_id and not (item.get("delay") or {}).get("timeLeftSeconds") for item in queue)


def id_of(item: Mapping[str, Any]) -> str:
    """Return the id of the app, pod or job that an item of the launch queue is about."""
    return str((item.get("app") or item.get("pod") or item.get("job") or {}).get("id"))


MOST = 3
"""This many failures in a row are no accident. Two may be: a machine that goes down ends one or two tasks."""


@dataclass(frozen=True, slots=True)
class Failures:
    """What was seen of the failures of one app or pod since its change."""

    task_id: str = ""
    """The task that failed last."""
    words: str = ""
    """What was said of it, without its name."""
    in_a_row: int = 0
    """How many were seen while nothing of the new version was ready, before and with the failure.

    Without health checks, a task that ends at once is ready for a moment; it is not twice.
    """
    was_ready: bool = False
    """Whether something was ready at the last look."""

    @property
    def hopeless(self) -> bool:
        """Whether to expect that the next ones fail, too."""
        return self.in_a_row >= MOST

    def after(self, standing: Standing, since: str | None) -> Failures:
        """Return what is known after a look. What failed before the moment `since` says nothing about the change."""
        failure, ready = standing.failure, standing.ready > 0
        if not failure or str(failure.get("taskId")) == self.task_id or _is_older(failure.get("timestamp"), since):
            return replace(self, was_ready=ready)
        row = self.in_a_row
        if not _is_older(failure.get("version"), since):
            row = 0 if ready and self.was_ready else row + 1
        return Failures(str(failure.get("taskId")), f"{failure.get('state')} {failure.get('message')}", row, ready)


def _is_older(moment: object, since: str | None) -> bool:
    """Return whether a moment, or a version, which is one, is before another; what is not said is not."""
    return bool(moment and since) and str(moment) < str(since)
