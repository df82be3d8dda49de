"""What the agent decided to say about a task."""

from __future__ import annotations

from msgspec import Struct

from mesos_gpu.mesos.resource import Document

EXECUTOR, AGENT = "SOURCE_EXECUTOR", "SOURCE_AGENT"


class Verdict(Struct, frozen=True):
    """What is to be said about a task; everything else of a status follows from the task."""

    state: str
    source: str = EXECUTOR
    reason: str | None = None
    message: str | None = None
    limitation: Document | None = None
