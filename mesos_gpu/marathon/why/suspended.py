"""Which tasks of an app have their GPUs put away, and why others have not; and who gives way to what waits. Pure.

From tasks as /v2/tasks shows them, and entries of /v2/queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

GAVE_WAY = "gave way to "
"""How Marathon begins to say that a task was ended for another app (decisions/lifecycle.py)."""


def is_suspended(task: Mapping[str, Any]) -> bool:
    """Return whether what a task has on GPUs is put away. One that was only asked to do so still has them."""
    return bool((task.get("suspension") or {}).get("state", "asked") != "asked")


def suspended_words(app: Mapping[str, Any]) -> str:
    """Return which of an app's tasks have no GPUs for the moment, for whom, and what agents refused.

    Whole sentences, a space before each; "" where nothing is to be said.
    """
    tasks = app.get("tasks") or []
    away = [task["suspension"].get("for") for task in tasks if is_suspended(task)]
    takers = [str(one) for one in away if one is not None]
    words = ""
    if takers:
        names = ", ".join(sorted(set(takers)))
        words = f" {len(takers)} of them suspended for {names}, and resumed when that needs no more."
    if by_hand := len(away) - len(takers):
        words += f" {by_hand} of them suspended by hand: `mesos-gpu task resume` gives GPUs again."
    asked = Counter(found for task in tasks if (found := _asked(task.get("suspension") or {})))
    words += "".join(f" {count} of them {said}." for said, count in sorted(asked.items()))
    refused = Counter(_refused(task["suspensionRefused"]) for task in tasks if task.get("suspensionRefused"))
    return words + "".join(f" {count} of them {said}." for said, count in sorted(refused.items()))


def giving_way_words(app: Mapping[str, Any], queued: Mapping[str, Any] | None) -> str:
    """Return to whom the last task of an app that waits gave way, and who was asked to give way to it; as above."""
    last = str((app.get("lastTaskFailure") or {}).get("message") or "")
    words = f" Its last task {last.rstrip('.')}." if last.startswith(GAVE_WAY) else ""
    told = Counter((str(one.get("appId")), *_told(one)) for one in (queued or {}).get("suspensions") or [])
    for (app_id, is_so, said), count in sorted(told.items()):
        tasks = f"{count} task{'s' * (count != 1)} of {app_id}"
        words += f" {tasks} {('is ' if count == 1 else 'are ') if is_so else ''}{said}."
    return words


def _told(one: Mapping[str, Any]) -> tuple[bool, str]:
    """Return what a task was asked to do for what waits, or has done, and whether that is so now."""
    if one.get("state") == "refused":
        return False, f"could not be suspended for it: {str(one.get('reason')).rstrip('.')}"
    return True, f"{'asked to be ' if one.get('state') == 'asked' else ''}suspended for it{_silence(one)}"


def _asked(suspension: Mapping[str, Any]) -> str:
    """Return what a task is asked to do that it has not done yet; "" where that is nothing."""
    done = {"asked": f"asked to be suspended for {suspension.get('for')}", "resuming": "asked to be resumed"}
    said = done.get(str(suspension.get("state")), "")
    return f"{said}{_silence(suspension)}" if said else ""


def _silence(asked: Mapping[str, Any]) -> str:
    return ", and its agent has not answered so far" if asked.get("unanswered") else ""


def _refused(no: Mapping[str, Any]) -> str:
    taker = f" for {no['for']}" if no.get("for") and no["what"] == "suspend" else ""
    done = {"suspend": "suspended", "resume": "resumed"}.get(str(no["what"]), str(no["what"]))
    return f"could not be {done}{taker}: {str(no['reason']).rstrip('.')}"
