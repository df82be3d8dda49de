"""All that is known of an app that is to run, in one value. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.marathon.why.verdict import Verdict

if TYPE_CHECKING:
    from mesos_gpu.marathon.model.instances import Task
    from mesos_gpu.marathon.why.change import Change, Held


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of an app: its own document, its place in the queue, and what is around it."""

    app: Mapping[str, Any]
    request: Request
    running: int = 0
    queued: Mapping[str, Any] | None = None
    """Its entry of /v2/queue; None when it does not wait."""
    agents: Sequence[Machine] = ()
    verdicts: Sequence[Verdict] = ()
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)
    """Which task holds what of an agent, by agent id."""
    placed: Sequence[Task] = ()
    """Its instances, as constraints count them."""
    rules: Rules = field(default_factory=Rules)
    """How this Marathon matches offers."""
    roles: Sequence[Mapping[str, Any]] = ()
    """The master's /roles."""
    blockers: Sequence[Mapping[str, Any]] = ()
    """Of its deployments (docs/do/marathon.md)."""
    upgrading: bool = False
    """Whether a deployment is replacing its instances."""
    takes_gpu_offers: bool = True
    """Whether this Marathon has the feature gpu_resources."""
    agents_known: bool = True
    """Whether the master could be asked."""
    ordered_change: Change | None = None
    """Of an app that waits in order: the smallest change that would start it, where its Marathon has found one."""
    now: datetime | None = None
    """When this was so; None where nobody tells: failures are then taken for recent ones."""
