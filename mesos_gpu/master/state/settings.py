"""The flags that the master's decisions go by."""

from __future__ import annotations

from msgspec import Struct, field

from mesos_gpu.master.allocation.eligibility import Rules
from mesos_gpu.master.allocation.random_sorter import Draw
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.security.authorization import OPEN, Acls


class Settings(Struct, frozen=True):
    """Flags that decisions need."""

    rules: Rules = field(default_factory=Rules)
    allocation_interval_s: float = 1.0
    heartbeat_interval_s: float = 15.0
    framework_metrics: bool = True
    max_watchers: int = 1000
    """Event streams of operators at a time."""
    root_submissions: bool = True
    """Whether frameworks of the user root may subscribe."""
    roles: frozenset[Role] | None = None
    """The only roles there are (`--roles`, and `*`); None allows any."""
    offer_timeout_s: float | None = None
    """How long an offer may stay unanswered; None is forever."""
    registry_max_agent_age_s: float = 14 * 24 * 3600.0
    """How long unreachable or gone agents are remembered."""
    registry_max_agent_count: int = 102_400
    """How many unreachable agents are known, and how many that are gone."""
    check_invariants: bool = False
    """Whether the books are checked after every event."""
    authenticate_frameworks: bool = False
    """Whether scheduler drivers must have shown who they are."""
    acls: Acls = OPEN
    """Who may do what."""
    agents_at_once: int | None = None
    """How many agents one allocation looks at, where no role has a quota; the others follow at once. None: all."""
    draw: Draw | None = None
    """The chance that decides whose turn it is (`--role_sorter=random`); None: shares do."""
