"""What a change of an app does: the definition without what only the server sets, the difference, its cost. Pure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

_READ_ONLY = frozenset(
    {
        *("version", "versionInfo", "deployments", "tasks", "lastTaskFailure", "readinessCheckResults"),
        *("tasksStaged", "tasksRunning", "tasksHealthy", "tasksUnhealthy", "tasksStats", "taskStats"),
    }
)
# What an older Marathon shows twice, and refuses when both come back.
OLDER_FORMS = (("ports", "portDefinitions"), ("uris", "fetch"), ("ipAddress", "networks"))
_NO_RESTART = frozenset({"instances", "priority", "preemptible", "executorResources"})


def editable(app: Mapping[str, Any]) -> dict[str, Any]:
    """Return an app as it may be sent back: without counts, versions and older spellings of what is there anyway."""
    kept = {key: value for key, value in app.items() if key not in _READ_ONLY and value is not None}
    for older, newer in OLDER_FORMS:
        if newer in kept:
            kept.pop(older, None)
    return kept


def without(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a document without keys that only the server sets, and without nulls."""
    return {key: value for key, value in document.items() if key not in keys and value is not None}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the lines of a unified diff of two documents as YAML, without headers; none when they are the same."""
    from marathon_cli.document.yaml_text import write_yaml

    old, new = (
        write_yaml(dict(document)).splitlines() if document else [] for document in (before, _ordered(after, before))
    )
    return list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]


def _ordered(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return `after` with its keys in the order of `before`, so that only what differs shows."""
    known = {key: after[key] for key in before if key in after}
    return {
        key: _ordered(value, before[key])
        if isinstance(value, Mapping) and isinstance(before.get(key), Mapping)
        else value
        for key, value in {**known, **after}.items()
    }


def to_send(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return what to PUT to get from one definition to the other, and whether it is a partial update.

    A partial update replaces top-level keys and takes none away, so a definition that loses one is sent whole.
    """
    if any(key not in after for key in before):
        return dict(after), False
    return {key: value for key, value in after.items() if key not in before or before[key] != value}, True


def consequence(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return in a sentence what an update does to the tasks. Source: Marathon's TaskReplaceActor."""
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    if not changed:
        return "nothing changes"
    old, new = int(before.get("instances", 1)), int(after.get("instances", 1))
    if changed <= _NO_RESTART or new == 0 or old == 0:
        if new == old:
            return "no task is touched"
        return f"{new - old} more start" if new > old else f"{old - new} of {old} end"
    strategy = after.get("upgradeStrategy") or {}
    at_least = math.ceil(new * strategy.get("minimumHealthCapacity", 1))
    at_most = math.floor(new * (1 + strategy.get("maximumOverCapacity", 1)))
    if at_least == at_most <= old:
        at_most += 1
    text = "its task is replaced" if old == 1 else f"all {old} tasks are replaced"
    text += f": at least {min(at_least, old)} stay, at most {at_most} run at once"
    extra = max(0, at_most - old) * int(after.get("gpus", 0))
    return text + (f", which takes up to {extra} more GPU{'s' if extra != 1 else ''} meanwhile" if extra else "")
