"""Whether tasks of an app or pod fail one after the other, and of what: a command that ends, an image not to be had.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mesos_gpu.marathon.why.suspended import GAVE_WAY

RECENT_S = 600.0
"""A failure that is longer ago says nothing of why an app does not run now."""
FLAPPING_S = 60.0
"""An app that runs, and whose last task failed less than this ago, is looked at with suspicion."""
_PULL = re.compile(r"cannot get |cannot be pulled|pull|manifest|Failed to fetch|no such image|image .* not found", re.I)
_INCARNATION = re.compile(r"\.([0-9]+)$")


_FAILED = frozenset({"TASK_FAILED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE"})
"""What a container of a pod ended with; others are ended because of it."""
_OF_ITS_MACHINE = frozenset({"TASK_UNKNOWN", "TASK_UNREACHABLE", "TASK_GONE", "TASK_GONE_BY_OPERATOR"})
"""Ends of tasks whose agent is gone or has begun anew: nothing that the app did."""


class Failure(NamedTuple):
    """The last failure of an app's tasks: what was said, of which try, and whether its image was not to be had."""

    message: str
    tries: int
    """How often the instance was started so far; 0 where that is not known."""
    task_id: str
    agent_id: str
    of_image: bool

    @property
    def sentence(self) -> str:
        """What happened, for a headline."""
        counted = f" (try {self.tries})" if self.tries > 1 else ""
        what = "its image cannot be had" if self.of_image else "its tasks keep failing"
        return f"{what}{counted}. The last task: {self.message.rstrip('.')}."


def last_failure(app: Mapping[str, Any]) -> Failure | None:
    """Return the last failure of an app's present version; None without one. Scaling makes no other version."""
    found = app.get("lastTaskFailure") or {}
    since = (app.get("versionInfo") or {}).get("lastConfigChangeAt") or app.get("version")
    if not found or (since and found.get("version") and str(found["version"]) < str(since)):
        return None
    message = str(found.get("message") or found.get("state") or "no reason was given")
    message = _without_prefix(message)
    task_id = str(found.get("taskId") or "")
    tries = _INCARNATION.search(task_id)
    image = image_of(app, task_id)
    of_image = image is not None and _PULL.search(message) is not None
    return Failure(message, int(tries[1]) if tries else 0, task_id, str(found.get("slaveId") or ""), of_image)


def image_of(app: Mapping[str, Any], task_id: str) -> str | None:
    """Return the image that a task of an app, or of a pod, is to run in; None where it has none."""
    if "containers" not in app:
        return ((app.get("container") or {}).get("docker") or {}).get("image")
    container = app["containers"][container_of(app, task_id)]
    return (container.get("image") or {}).get("id")


def container_of(pod: Mapping[str, Any], task_id: str) -> int:
    """Return which of a pod's containers a task is of (`INSTANCE.NAME.TRY`); the first where that is not known."""
    name = _INCARNATION.sub("", task_id).rpartition(".")[2]
    return next((at for at, one in enumerate(pod["containers"]) if one.get("name") == name), 0)


def pod_document(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod as an app is shown: its definition, its instances, and the last failure of its present version.

    `status` is /v2/pods/ID::status; it tells how instances ended (`terminationHistory`), the last one first.
    """
    found = {**spec, "podInstances": status.get("instances") or []}
    for ended in status.get("terminationHistory") or ():
        failed = next((one for one in ended.get("containers") or () if one.get("lastKnownState") in _FAILED), None)
        if failed is None or str(ended.get("terminatedAt")) < str(spec.get("version") or ""):
            continue
        message = (failed.get("termination") or {}).get("message") or ended.get("message") or failed["lastKnownState"]
        task_id = str(failed.get("containerId") or "")
        if len(spec.get("containers") or ()) > 1:
            message = f"{spec['containers'][container_of(spec, task_id)]['name']}: {_without_prefix(str(message))}"
        found["lastTaskFailure"] = {
            "message": message,
            "state": failed["lastKnownState"],
            "taskId": task_id,
            "timestamp": ended.get("terminatedAt"),
        }
        break
    return found


def _without_prefix(message: str) -> str:
    return message.removeprefix("Failed to launch container: ")


def in_short(failure: Failure) -> str:
    """Return a failure in as few words as a column of a table wants."""
    counted = f" (try {failure.tries})" if failure.tries > 1 else ""
    return f"{'no image' if failure.of_image else 'failing'}{counted}: {' '.join(failure.message.split())}"


def failing(app: Mapping[str, Any], *, running: int, wanted: int, now: datetime | None = None) -> Failure | None:
    """Return the failure that keeps an app from running; None when nothing says that there is one.

    An app that lacks instances fails when its last task did so lately; one that has all of them, when a task failed a
    moment ago and not for the first time. Without `now` a failure of a running app is taken for an old one. A task that
    was lost with its machine, or gave way to another app, has not failed.
    """
    found = last_failure(app)
    told = app.get("lastTaskFailure") or {}
    if found is None or wanted == 0 or told.get("state") in _OF_ITS_MACHINE or found.message.startswith(GAVE_WAY):
        return None
    ago_s = _ago_s(told.get("timestamp"), now)
    if running < wanted:
        return found if ago_s is None or ago_s <= RECENT_S else None
    return found if ago_s is not None and ago_s <= FLAPPING_S and found.tries > 1 else None


def _ago_s(text: object, now: datetime | None) -> float | None:
    if now is None or not isinstance(text, str):
        return None
    try:
        return (now - datetime.fromisoformat(text.replace("Z", "+00:00"))).total_seconds()
    except (ValueError, TypeError):
        return None
