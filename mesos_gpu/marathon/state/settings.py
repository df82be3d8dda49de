"""The flags that decide how the scheduler behaves; names and defaults are Marathon's.

Source: Marathon MarathonConf.scala, AllConf.scala and the *Config.scala that these gather.
"""

from __future__ import annotations

from msgspec import Struct, field

from mesos_gpu.marathon.definitions.app import AppRules
from mesos_gpu.marathon.definitions.ports import LOCAL_PORT_MAX, LOCAL_PORT_MIN
from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour
from mesos_gpu.mesos.ids import Role
from mesos_gpu.placement.policies import BEST

MAX_VERSIONS = 50
"""Versions kept of one app (--zk_max_versions), by default."""


class Settings(Struct, frozen=True, kw_only=True):
    """One Marathon's configuration. Times are seconds."""

    rules: AppRules = field(default_factory=AppRules)
    gpu_behaviour: GpuBehaviour = GpuBehaviour.RESTRICTED
    roles_behaviour: RolesBehaviour = RolesBehaviour.ANY
    placement_policy: str = BEST
    """How apps with GPUs choose among offers, unless their label says otherwise: one of POLICIES."""
    offer_window_s: float = 0.0
    """For so long offers are held when others may come that suit better; 0: not at all."""
    gang_offer_hold_s: float = 5.0
    """For so long offers are kept for the first that waits, where an order was asked for; then for others."""
    priority_aging_s: float = 600.0
    """What a point of `priority` is worth: to have waited so much longer."""
    user: str = ""
    """Whom tasks run as whose apps name nobody."""
    counts_usage: bool = True
    """Whether accounts are kept of what tasks have; not on a copy of the state."""
    principal: str | None = None
    """Whom Mesos knows us as; what we reserve and create is marked so."""
    env_prefix: str = ""
    max_instances_per_offer: int = 5
    decline_offer_s: float = 120.0
    min_revive_interval_s: float = 5.0
    revive_burst: int = 5
    """So many revives may follow one another at once before the interval counts: several apps sent in a row then
    start as quickly as one (Marathon makes the second wait)."""
    launch_timeout_s: float = 300.0
    """A task that is not running after so long is ended and started again."""
    reservation_timeout_s: float = 20.0
    """What was reserved must show in an offer within so long; else another try is made elsewhere."""
    confirm_timeout_s: float = 300.0
    """The same for one that nobody has said anything about."""
    kill_retry_s: float = 30.0
    reconcile_initial_s: float = 15.0
    reconcile_interval_s: float = 600.0
    max_concurrent_checks: int = 256
    """Health and readiness checks of Marathon's own under way at a time."""
    max_running_deployments: int = 100
    max_apps: int | None = None
    max_versions: int = MAX_VERSIONS
    """Versions kept of each app and of the tree of groups."""
    service_ports: tuple[int, int] = (LOCAL_PORT_MIN, LOCAL_PORT_MAX)
    """The first and the last port that may be given out as a service port."""
    draining_s: float | None = 0.0
    """So long before their maintenance begins agents are left alone; None: their maintenance does not matter."""
    suppress_offers: bool = True
    offer_statistics: bool = True
    """Whether offers that did not do are counted for /v2/queue; a replay has nobody who asks."""
    groups_enforce_role: bool = False
    """Whether a new top-level group that says nothing about it enforces its role."""
    launch_tokens: int = 100
    launch_token_refresh_s: float = 30.0
    max_queued_offers: int = 1024
    """Offers kept at most while there are no tokens; 0: none."""
    offer_matching_timeout_s: float = 3.0
    """For so long each is kept."""

    @property
    def role(self) -> Role:
        """Return the one role of this framework."""
        return self.rules.mesos_role
