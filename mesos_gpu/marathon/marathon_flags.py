"""Flags of Marathon that this one does not act on: so that the line of an existing unit file can be kept. Pure.

The rule, for each: what only tunes is accepted, and named at start. What somebody relies on is refused with the reason,
unless the value says what is done here anyway. Source of the names: Marathon docs/command-line-flags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag


@dataclass(frozen=True, slots=True)
class Foreign:
    """One flag: why it does nothing here. `accepted`: the values that go; None for any."""

    name: str
    why: str
    accepted: tuple[str, ...] | None = None
    kind: str = "text"


def _ignored(why: str, *names: str, kind: str = "text") -> list[Foreign]:
    return [Foreign(name, why, None, kind) for name in names]


def _only(accepted: tuple[str, ...], why: str, *names: str, kind: str = "text") -> list[Foreign]:
    return [Foreign(name, why, accepted, kind) for name in names]


_NO_TLS = "this Marathon serves no TLS; put a proxy in front of it"
_NO_PLUGINS = "nothing can be plugged in, so whoever relies on a plugin would be without it"
_BY_EVENTS = "what is missing is started at each event, not by a timer"

FOREIGN: Sequence[Foreign] = (
    *_ignored("with --zk several can run, without it one", "ha", "disable_ha", kind="boolean"),
    *_ignored("a lost connection to ZooKeeper is made anew for as long as it takes", "zk_connection_timeout"),
    *_ignored("--zk_timeout is the limit of one read", "on_elected_prepare_timeout"),
    *_ignored("--task_launch_timeout holds for the whole way to running", "task_launch_confirm_timeout"),
    *_ignored(_BY_EVENTS, "scale_apps_initial_delay", "scale_apps_interval"),
    *_ignored("offers are matched one after another, at once", "offer_matching_timeout", "max_parallel_offers"),
    *_ignored("offers are matched one after another, at once", "max_queued_offers"),
    *_ignored("all kills are sent at once", "kill_chunk_size"),
    *_ignored("a silent master is left after 75 s", "mesos_heartbeat_interval", "mesos_heartbeat_failure_threshold"),
    *_ignored("the leader's answer is waited for", "leader_proxy_connection_timeout", "leader_proxy_read_timeout"),
    *_ignored("it ends as soon as what it does is on disk", "graceful_shutdown_timeout"),
    *_ignored("levels are set with POST /logging", "logging_level"),
    *_ignored("a listener that does not read is cut off at 16 MiB", "event_stream_max_outstanding_messages"),
    *_ignored("bodies of requests are bounded together", "http_max_concurrent_requests"),
    *_ignored(
        "offers are suppressed while nothing waits", "suppress_offers", "revive_offers_for_new_apps", kind="boolean"
    ),
    *_ignored("both forms of metrics are always served", "metrics_prometheus", kind="boolean"),
    *_only(("50",), "50 versions of each app are kept", "zk_max_versions"),
    *_only(("//cmd",), "apps run by Mesos' command executor unless they name another", "executor"),
    *_only(("10000",), "service ports begin there", "local_port_min"),
    *_only(("20000",), "service ports end there", "local_port_max"),
    *_only(("true",), "tasks always outlive their agent's restart", "checkpoint", kind="boolean"),
    *_only(("false",), "tasks always outlive their agent's restart", "disable_checkpoint", kind="boolean"),
    *_only(("true",), "agents in maintenance are left alone", "maintenance_mode", kind="boolean"),
    *_only(("false",), "agents in maintenance are left alone", "disable_maintenance_mode", kind="boolean"),
    *_only(("0",), "agents are left alone when their maintenance begins, not before", "draining_seconds"),
    *_only(("off",), "groups say themselves whether they enforce their role", "new_group_enforce_role"),
    *_only(("false",), "offer constraints are not sent to the master", "mesos_offer_constraints", kind="boolean"),
    *_only(("marathon",), "metrics have Marathon's default prefix", "metrics_name_prefix"),
    *_only((), "the number of apps is not limited", "max_apps"),
    *_only((), "give a file: --mesos_authentication_secret_file", "mesos_authentication_secret"),
    *_only((), _NO_PLUGINS, "plugin_dir", "plugin_conf"),
    *_only((), _NO_TLS, "ssl_keystore_path", "ssl_keystore_password"),
    *_only(("false",), _NO_TLS, "disable_http", kind="boolean"),
    *_ignored("this Marathon serves no TLS, at no port", "https_port", "https_address"),
    *_only((), "answers carry no CORS headers; put a proxy in front", "access_control_allow_origin"),
    *_only((), "use DELETE /v2/leader?backup=, or mesos-gpu-marathon-state copy", "backup_location"),
)

FOREIGN_FLAGS: Sequence[Flag] = tuple(Flag(row.name, row.kind, None, "") for row in FOREIGN)
"""For the parser; `--help` leaves them out."""


def settle(flags: Mapping[str, Any]) -> list[str]:
    """Return what is said at start about those that were given. Raises BadFlag for one that somebody relies on."""
    said: list[str] = []
    for row in FOREIGN:
        value = flags.get(row.name)
        if value is None:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        if row.accepted is None:
            said.append(f"--{row.name} does nothing here: {row.why}")
        elif text not in row.accepted:
            but = f"; only {' or '.join(row.accepted)} is accepted" if row.accepted else ""
            raise BadFlag(row.name, f"{row.why}{but}")
    return said
