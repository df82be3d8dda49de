"""Whether an app's tasks fail one after the other, and of what: a command that ends, an image not to be had. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

RECENT_S = 600.0
"""A failure that is longer ago says nothing of why an app does not run now."""
FLAPPING_S = 60.0
"""An app that runs, and whose last task failed less than this ago, is looked at with suspicion."""
_PULL = re.compile(r"cannot get |cannot be pulled|pull|manifest|Failed to fetch|no such image|image .* not found", re.I)
_INCARNATION = re.compile(r"\.([0-9]+)$")


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
    message = message.removeprefix("Failed to launch container: ")
    task_id = str(found.get("taskId") or "")
    tries = _INCARNATION.search(task_id)
    image = bool(((app.get("container") or {}).get("docker") or {}).get("image"))
    of_image = image and _PULL.search(message) is not None
    return Failure(message, int(tries[1]) if tries else 0, task_id, str(found.get("slaveId") or ""), of_image)


def failing(app: Mapping[str, Any], *, running: int, wanted: int, now: datetime | None = None) -> Failure | None:
    """Return the failure that keeps an app from running; None when nothing says that there is one.

    An app that lacks instances fails when its last task did so lately; one that has all of them, when a task failed a
    moment ago and not for the first time. Without `now` a failure of a running app is taken for an old one.
    """
    found = last_failure(app)
    if found is None or wanted == 0:
        return None
    ago_s = _ago_s((app.get("lastTaskFailure") or {}).get("timestamp"), now)
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
