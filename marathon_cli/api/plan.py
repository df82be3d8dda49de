"""What would happen if something were asked for, as this project's Marathon tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marathon_cli.clients.client import Document, Marathon
from mesos_gpu.errors import MesosGpuError, NotFound, Refused


def plan(marathon: Marathon, documents: Sequence[Mapping[str, Any]], *, force: bool = False) -> Document:
    """Return what would happen if these were sent, each a `kind` with its `document`; nothing is.

    Raises Refused of a Marathon that is not this project's, and what sending them would raise.
    """
    body: dict[str, Any] = {"documents": list(documents)}
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
        found = marathon.call("POST", "/v1/plan", query={"force": "true"} if force else None, body=body)
    except NotFound as error:
        if "does not exist" in str(error):  # what is asked for names something that is not there
            raise
        raise Refused("this Marathon cannot say what would happen: only mesos-gpu-marathon can", status=404) from None
    return marathon.object_of(found, "a plan")
