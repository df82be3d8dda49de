"""What tasks had and used, as this project's Marathon keeps account of it."""

from __future__ import annotations

from marathon_cli.clients.client import Document, Marathon
from mesos_gpu.errors import NotFound, Refused

NONE_KEPT = (
    "this Marathon keeps no account of what tasks had and used: only mesos-gpu-marathon does, of the tasks that it "
    "runs itself. `mesos-gpu gpu top` and `mesos-gpu task metrics TASK` show what is used at the moment"
)


def usage(marathon: Marathon, *, since: str, by: str, app: str | None = None) -> Document:
    """Return the sums since a time (Marathon's text). Raises Refused of a Marathon that is not this project's."""
    query = {"since": since, "by": by} | ({} if app is None else {"app": app})
    try:
        found = marathon.call("GET", "/v1/usage", query=query)
    except NotFound:
        raise Refused(NONE_KEPT, status=404) from None
    return marathon.object_of(found, "sums of use")
