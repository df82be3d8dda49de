"""Which tasks of an app have their GPUs put away, as /v2/tasks shows them, and why others have not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


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
    refused = Counter(_refused(task["suspensionRefused"]) for task in tasks if task.get("suspensionRefused"))
    return words + "".join(f" {count} of them {said}." for said, count in sorted(refused.items()))


def _refused(no: Mapping[str, Any]) -> str:
    taker = f" for {no['for']}" if no.get("for") and no["what"] == "suspend" else ""
    done = {"suspend": "suspended", "resume": "resumed"}.get(str(no["what"]), str(no["what"]))
    return f"could not be {done}{taker}: {str(no['reason']).rstrip('.')}"
