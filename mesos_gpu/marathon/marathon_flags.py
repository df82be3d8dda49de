"""Flags of Marathon that this one does not act on: so that the line of an existing unit file can be kept. Pure.

The rule, for each: what only tunes is accepted, and named at start. What somebody relies on is refused with the reason,
unless the value says what is done here anyway. Source of the names: Marathon docs/docs/command-line-flags.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag


class Foreign(Struct, frozen=True):
    """One flag: why it does nothing here. `accepted`: the values that go; None for any."""

    name: str
    why: str
    accepted: tuple[str, ...] | None = None
    kind: str = "text"


def _ignored(why: str, *names: str, kind: str = "text") -> list[Foreign]:
    return [Foreign(name, why, None, kind) for name in names]


def _only(accepted: tuple[str, ...], why: str, *names: str, kind: str = "text") -> list[Foreign]:
    return [Foreign(name, why, accepted, kind) for name in names]


_NO_KEYSTORE = (
    "Java's keystores are not read; `openssl pkcs12 -in KEYSTORE -nodes` makes the PEM files of --ssl_cert_file and "
    "--ssl_key_file of one (after `keytool -importkeystore -deststoretype pkcs12`, if it is a JKS)"
)
_NO_PLUGINS = "plugins are not supported, and what one is to do would not be done"
_BY_EVENTS = "what is missing is started at each event, not by a timer"

_ONE_LOOP = "one loop decides about everything: there are no queues and pools of threads to be sized"
_NO_STATSD = "Prometheus takes metrics from /metrics/prometheus; nothing is sent to a server of that kind"

FOREIGN: Sequence[Foreign] = (
    *_ignored("with --zk several can run, without it one", "ha", "disable_ha", kind="boolean"),
    *_ignored("a lost connection to ZooKeeper is made again for as long as it takes", "zk_connection_timeout"),
    *_ignored("a call that failed is made again until --zk_timeout", "zk_operation_max_retries"),
    *_ignored("a call that failed is made again until --zk_timeout", "zk_operation_base_retry_sleep_ms"),
    *_ignored("--zk_timeout is the limit of one read", "on_elected_prepare_timeout", "max_actor_startup_time"),
    *_ignored(_BY_EVENTS, "scale_apps_initial_delay", "scale_apps_interval"),
    *_ignored(
        "instances on lost machines are forgotten at their own time",
        "task_lost_expunge_initial_delay",
        "task_lost_expunge_interval",
    ),
    *_ignored("offers are matched one after another, at once", "max_parallel_offers"),
    *_ignored("all kills are sent at once", "kill_chunk_size", "killsPerBatch", "killBatchDuration"),
    *_ignored("it ends as soon as its changes are on disk", "graceful_shutdown_timeout"),
    *_ignored("a listener that does not read is cut off at 16 MiB", "event_stream_max_outstanding_messages"),
    *_ignored(
        "offers are asked for by what waits, of new apps and old ones", "revive_offers_for_new_apps", kind="boolean"
    ),
    *_ignored("both forms of metrics are always served", "metrics_prometheus", kind="boolean"),
    *_ignored("both forms of metrics are always served", "disable_metrics_prometheus", "metrics", kind="boolean"),
    *_ignored("both forms of metrics are always served", "disable_metrics", kind="boolean"),
    *_ignored(
        "quantiles are of the last values, exactly",
        "metrics_histogram_reservoir_highest_trackable_value",
        "metrics_histogram_reservoir_significant_digits",
        "metrics_histogram_reservoir_resetting_interval_ms",
        "metrics_histogram_reservoir_resetting_chunks",
    ),
    *_ignored(
        "quantiles are of the last values, exactly",
        "metrics_histogram_reservoir_reset_periodically",
        "disable_metrics_histogram_reservoir_reset_periodically",
        kind="boolean",
    ),
    *_ignored(
        _ONE_LOOP,
        "app_info_module_execution_context_size",
        "default_info_service_execution_context_size",
        "deployment_manager_request_timeout",
        "group_manager_execution_context_size",
        "group_manager_request_timeout",
        "instance_tracker_num_parallel_loads",
        "instance_tracker_num_parallel_updates",
        "instance_tracker_update_queue_size",
        "launch_queue_request_timeout",
        "max_parallel_status_updates",
        "max_queued_root_group_updates",
        "max_queued_status_updates",
        "scheduler_actions_execution_context_size",
        "storage_execution_context_size",
        "task_operation_notification_timeout",
        "task_tracker_request_timeout",
        "task_update_request_timeout",
        "zk_max_concurrency",
    ),
    *_ignored("everything is in memory, and on disk", "store_cache", "disable_store_cache", kind="boolean"),
    *_ignored("everything is in memory, and on disk", "internal_version_caching", kind="boolean"),
    *_ignored("everything is in memory, and on disk", "disable_internal_version_caching", kind="boolean"),
    *_ignored("everything is in memory, and on disk", "group_versions_cache_size"),
    *_ignored(
        "versions that are too many go with the change that makes them so",
        "storage_compaction_interval",
        "storage_compaction_scan_batch_size",
    ),
    *_only(("zk",), "state is in ZooKeeper with --zk, else in a file", "internal_store_backend"),
    *_only(("curator",), "there is one way of electing a leader", "leader_election_backend"),
    *_only(("//cmd",), "apps run by Mesos' command executor unless they name another", "executor"),
    *_only(("true",), "tasks always outlive their agent's restart", "checkpoint", kind="boolean"),
    *_only(("false",), "tasks always outlive their agent's restart", "disable_checkpoint", kind="boolean"),
    *_only(
        ("false",),
        "offer constraints are not sent to the master",
        "mesos_offer_constraints",
        kind="boolean",
    ),
    *_ignored("offer constraints are not sent to the master", "disable_mesos_offer_constraints", kind="boolean"),
    *_ignored("offer constraints are not sent to the master", "min_mesos_offer_constraints_update_interval"),
    *_only(
        (),
        "Marathon 1.10 took it away: use --accepted_resource_roles_default_behavior",
        "default_accepted_resource_roles",
    ),
    *_only(("",), "no feature that Marathon 1.11 calls deprecated is here", "deprecated_features"),
    *_only((), _NO_PLUGINS, "plugin_dir", "plugin_conf"),
    *_only((), _NO_KEYSTORE, "ssl_keystore_path", "ssl_keystore_password"),
    *_only(
        ("false",),
        "standbys reach the leader over HTTP; alone, --http_address=127.0.0.1 beside --https_address hides it",
        "disable_http",
        kind="boolean",
    ),
    *_ignored("standbys reach the leader without TLS", "leader_proxy_ssl_ignore_hostname", kind="boolean"),
    *_only((), "there is no user interface whose files could lie elsewhere", "assets_path"),
    *_only(("false",), _NO_STATSD, "metrics_statsd", "metrics_datadog", kind="boolean"),
    *_ignored(_NO_STATSD, "disable_metrics_statsd", "disable_metrics_datadog", kind="boolean"),
    *_ignored(
        _NO_STATSD,
        "metrics_statsd_host",
        "metrics_statsd_port",
        "metrics_statsd_transmission_interval_ms",
        "metrics_datadog_api_key",
        "metrics_datadog_host",
        "metrics_datadog_port",
        "metrics_datadog_protocol",
        "metrics_datadog_transmission_interval_ms",
    ),
    *_only((), "its log goes to standard error alone", "logstash", "sentry", "sentry_tags"),
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
