"""What the end of a nested container says about its task; words and states as Mesos'. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any


def terminal_status(end: Mapping[str, Any], *, killed: bool, timed_out: bool) -> tuple[str, dict[str, Any]]:
    """Return the state, and the further fields of a status, for the answer of WAIT_NESTED_CONTAINER."""
    extra = {name: end[name] for name in ("reason", "limitation") if name in end}
    if timed_out:
        return "TASK_FAILED", {"reason": "REASON_MAX_COMPLETION_TIME_REACHED"}
    if killed:
        return "TASK_KILLED", {}
    if "exit_status" not in end:
        return str(end.get("state", "TASK_FAILED")), extra
    if "state" in end and end["state"] != "TASK_FINISHED":
        return str(end["state"]), extra
    return ("TASK_FINISHED" if end["exit_status"] == 0 and "reason" not in end else "TASK_FAILED"), extra


def how_it_ended(end: Mapping[str, Any]) -> str | None:
    """Return the words for a raw wait status, None when there is none."""
    status = end.get("exit_status")
    if status is None:
        return None
    number = int(status) & 0x7F
    if number:
        return f"Command terminated with signal {signal.strsignal(number) or number}"
    return f"Command exited with status {int(status) >> 8}"
