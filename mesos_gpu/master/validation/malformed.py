"""Whether an operation of an ACCEPT says what it is about, in resources that are some: looked at before all else.

Source: Mesos src/common/resources_utils.cpp, validateAndUpgradeResources; src/master/master.cpp, Master::accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mesos_gpu.mesos.resource import ResourceDocument
from mesos_gpu.mesos.resources import validate

Operation = Mapping[str, Any]

_FIELDS: Mapping[str, Sequence[str]] = {
    "RESERVE": ("resources", "source"),
    "UNRESERVE": ("resources",),
    "CREATE": ("volumes",),
    "DESTROY": ("volumes",),
    "GROW_VOLUME": ("volume", "addition"),
    "SHRINK_VOLUME": ("volume",),
    "CREATE_DISK": ("source",),
    "DESTROY_DISK": ("source",),
    "LAUNCH": (),
    "LAUNCH_GROUP": (),
}
_NO_FULL_STOP = frozenset({"GROW_VOLUME", "SHRINK_VOLUME"})


def malformed(operation: Operation) -> str | None:
    """Return what is wrong with an operation, in Mesos' words; None for one that can be looked at, and unknown ones."""
    kind = str(operation.get("type"))
    if kind not in _FIELDS:
        return None
    if kind.lower() not in operation:
        article = "An" if kind == "UNRESERVE" else "A"
        what = "operation" if kind == "GROW_VOLUME" else "offer operation"
        end = "" if kind in _NO_FULL_STOP else "."
        return f"{article} {kind} {what} must have the Offer.Operation.{kind.lower()} field set{end}"
    body = operation[kind.lower()]
    for documents in _resources(kind, body):
        problem = validate(documents)
        if problem is not None:
            return problem
    if body.get("source") and kind == "RESERVE":
        return "Reservation updates are not yet implemented for the scheduler API."
    return None


def _resources(kind: str, body: Mapping[str, Any]) -> Iterator[Sequence[ResourceDocument]]:
    """Yield all resources of an operation, list by list."""
    for field in _FIELDS[kind]:
        found = body.get(field, ())
        yield found if isinstance(found, Sequence) else (found,)
    infos = [*body.get("task_infos", ()), *body.get("task_group", {}).get("tasks", ())]
    infos += [body["executor"]] if "executor" in body else []
    for info in infos:
        yield info.get("resources", ())
        yield info.get("executor", {}).get("resources", ())
