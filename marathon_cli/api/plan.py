"""What would happen if something were asked for, as this project's Marathon tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marathon_cli.clients.client import Document, Marathon
from mesos_gpu.errors import MesosGpuError, NotFound, Refused
from mesos_gpu.marathon.why.change import Change, read_change


def plan(marathon: Marathon, documents: Sequence[Mapping[str, Any]], *, force: bool = False) -> Document:
    """Return what would happen if these were sent, each a `kind` with its `document`; nothing is.

    Raises Refused of a Marathon that is not this project's, and what sending them would raise.
    """
    query = {"force": "true"} if force else None
    return _ask(marathon, "/v1/plan", {"documents": list(documents)}, "what would happen", query)


def when(marathon: Marathon, name: str) -> Document:
    """Return when what waits of an app, a pod or a job is expected to start. Raises NotFound, and as `plan`."""
    return _ask(marathon, "/v1/when", {"id": name}, "when something will start", None)


def smallest_change(marathon: Marathon, app_id: str) -> Change | None:
    """Return the smallest change that would start what waits in order; None where there is none, or nobody knows."""
    try:
        found = _ask(marathon, "/v1/why", {"id": app_id}, "what would start it", None).get("change")
        return None if not found else read_change(found)
    except (MesosGpuError, KeyError, TypeError, ValueError):
        return None


def _ask(marathon: Marathon, path: str, body: dict[str, Any], what: str, query: Mapping[str, str] | None) -> Document:
    try:
        mesos = marathon.mesos()
    except MesosGpuError:
        mesos = None  # it asks the master itself
    if mesos is not None:
        try:
            body["agents"] = mesos.slaves()
            body["roles"] = (mesos.ask_master("/roles", missing={}) or {}).get("roles") or []
        except MesosGpuError:
            body.pop("agents", None)
        finally:
            mesos.close()
    try:
        found = marathon.call("POST", path, query=query, body=body)
    except NotFound as error:
        if "HTTP 404" not in str(error):  # what is asked about is not there
            raise
        raise Refused(f"this Marathon cannot say {what}: only mesos-gpu-marathon can", status=404) from None
    return marathon.object_of(found, "a plan")
