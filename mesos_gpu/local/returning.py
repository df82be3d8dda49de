"""What a box's Marathon continues with at the next `up`: told when it goes down, and when it is back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mesos_gpu.local import asking

SHOWN = 5


def what_runs(marathon_url: str, login: tuple[str, str] | None) -> list[str]:
    """Return the names of apps and pods with instances, and of jobs with schedules; none where nobody answers."""
    found: list[str] = []
    for path, names in (("/v2/apps", _apps), ("/v2/pods", _pods), ("/v1/jobs?embed=schedules", _jobs)):
        try:
            answer = asking.get(marathon_url + path, login)
            found += names(answer.document) if answer is not None and answer.ok else []
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
    return found


def named(names: Sequence[str]) -> str:
    """Return names for a sentence: the first few, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _apps(document: Any) -> list[str]:
    return [str(app["id"]) for app in document["apps"] if app["instances"]]


def _pods(document: Any) -> list[str]:
    return [f"pod {pod['id']}" for pod in document if (pod.get("scaling") or {}).get("instances", 1)]


def _jobs(document: Any) -> list[str]:
    return [f"job {job['id']}" for job in document if any(one.get("enabled") for one in job.get("schedules") or ())]
