"""The flags of mesos-gpu-marathon: Marathon's names and defaults, and a few of our own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.marathon.definitions.app import FEATURES
from mesos_gpu.marathon.definitions.ports import LOCAL_PORT_MAX, LOCAL_PORT_MIN
from mesos_gpu.marathon.state.settings import MAX_VERSIONS
from mesos_gpu.mesos.flags import Flag
from mesos_gpu.placement.policies import BEST, POLICIES
from mesos_gpu.process.browsers import HTTP_HOSTS

PREFIX = "MARATHON_"

FLAGS = (
    Flag("master", "text", None, "The Mesos master: host:port, or zk://host1:port1,host2:port2/path. Required."),
    Flag("http_address", "text", "127.0.0.1", "The address to listen on."),
    Flag("http_port", "integer", 8080, "The port to listen on; 0 takes a free one."),
    Flag("http_credentials", "text", None, "user:password that every call must carry (HTTP basic authentication)."),
    Flag("https_address", "text", None, "The address to listen on with TLS; without it that of --http_address."),
    Flag("https_port", "integer", None, "The port for TLS, with --ssl_cert_file; 8443 unless given, 0: a free one."),
    Flag("ssl_cert_file", "path", None, "Our certificate and those up to the authority, PEM: with it there is https."),
    Flag("ssl_key_file", "path", None, "Its private key, PEM, without a password. Both stand for Marathon's keystore."),
    Flag("login_hint", "text", None, "Text that callers without these credentials are shown with the refusal."),
    Flag("http_realm", "text", "Mesosphere", "The realm that clients are shown with --http_credentials."),
    Flag("http_compression", "boolean", True, "Send large answers compressed (gzip) to clients that can read them."),
    Flag("http_max_concurrent_requests", "integer", None, "Requests answered at a time; further ones get 503."),
    Flag(
        "access_control_allow_origin",
        "list",
        (),
        "Sites whose pages may read from here in a browser: *, or URLs such as http://ui.example:8888.",
    ),
    HTTP_HOSTS,
    Flag("insecure", "boolean", False, "Listen beyond this machine without --http_credentials."),
    Flag(
        "strict_compatibility",
        "boolean",
        False,
        "Behave as Marathon where this one differs on purpose: an unknown URI is 500, a cmd of one letter is refused.",
    ),
    Flag("hostname", "text", None, "The name of this machine that Mesos and clients are told."),
    Flag("webui_url", "text", None, "The URL of this Marathon that Mesos shows."),
    Flag("mesos_leader_ui_url", "text", None, "The URL of Mesos that clients are told."),
    Flag("mesos_role", "text", "*", "The role to register with; apps run in it."),
    Flag("mesos_user", "text", None, "The user that tasks run as unless their app names one; default: our own."),
    Flag("mesos_authentication_principal", "text", None, "The principal to register as, and to reserve as."),
    Flag("mesos_authentication_secret_file", "path", None, "File with its secret, for a master that wants to see it."),
    Flag("mesos_authentication_secret", "text", None, "The secret itself; a file keeps it from others."),
    Flag("mesos_authentication", "boolean", None, "Show that secret to the master. Default: if there is one."),
    Flag(
        "mesos_heartbeat_interval",
        "integer",
        15000,
        "Milliseconds in which the master is expected to say something.",
    ),
    Flag("mesos_heartbeat_failure_threshold", "integer", 5, "After so many silent ones the connection is made again."),
    Flag("framework_name", "text", "marathon", "The name to register with."),
    Flag("failover_timeout", "integer", 604800, "Seconds for which Mesos keeps the tasks when this Marathon is away."),
    Flag("store_path", "path", None, "The file to keep apps and instances in. Default: in the user's state folder."),
    Flag("zk", "text", None, "zk://host1:port1,host2:port2/path: keep them there, and be one of several Marathons."),
    Flag("zk_timeout", "integer", 10000, "Milliseconds that a read or write in ZooKeeper may take."),
    Flag("zk_max_versions", "integer", MAX_VERSIONS, "Versions kept of each app, pod and group, in a file too."),
    Flag("zk_session_timeout", "integer", 10000, "Milliseconds after which a leader that vanished is followed."),
    Flag("zk_compression", "boolean", True, "Compress large documents in ZooKeeper."),
    Flag("zk_compression_threshold", "integer", 65536, "Bytes beyond which a document is large."),
    Flag("zk_max_node_size", "integer", 1024000, "Bytes in a node of ZooKeeper at most."),
    Flag("enable_features", "list", ("gpu_resources",), f"Features to switch on: {', '.join(sorted(FEATURES))}."),
    Flag(
        "gpu_scheduling_behavior",
        "text",
        "restricted",
        "Whether apps without GPUs may use agents with GPUs: restricted (no), unrestricted.",
    ),
    Flag(
        "placement_policy",
        "text",
        BEST,
        f"How apps with GPUs choose among offers: {', '.join(POLICIES)} (docs/do/placement.md); an app's label "
        "PLACEMENT_POLICY goes before it.",
    ),
    Flag(
        "offer_window",
        "integer",
        200,
        "Milliseconds for which offers are held when others may come that suit an app with GPUs better; 0: none are.",
    ),
    Flag(
        "gang_offer_hold",
        "integer",
        5000,
        "Milliseconds for which offers are kept for the gang that waits first; then others have their turn "
        "(docs/do/gangs.md).",
    ),
    Flag("priority_aging", "integer", 600, "Seconds of waiting that a point of an app's `priority` is worth."),
    Flag(
        "accepted_resource_roles_default_behavior",
        "text",
        "any",
        "What apps without acceptedResourceRoles take: any (of their role and unreserved), unreserved, reserved.",
    ),
    Flag("env_vars_prefix", "text", "", "Prefix of HOST and the PORT variables of tasks."),
    Flag("default_network_name", "text", None, "The container network of apps that name none."),
    Flag("mesos_bridge_name", "text", "mesos-bridge", "The network of apps and pods that want container/bridge."),
    Flag("local_port_min", "integer", LOCAL_PORT_MIN, "The lowest port given out as a service port."),
    Flag("local_port_max", "integer", LOCAL_PORT_MAX, "The highest port given out as a service port."),
    Flag("new_group_enforce_role", "text", "off", "Whether new top-level groups enforce their role: off, top (yes)."),
    Flag("max_apps", "integer", None, "Apps that there may be at most."),
    Flag("maintenance_mode", "boolean", True, "Launch nothing on agents that are in maintenance."),
    Flag("draining_seconds", "integer", 0, "How long before the maintenance nothing is launched there any more."),
    Flag("suppress_offers", "boolean", True, "Ask the master for no offers while nothing waits for one."),
    Flag("max_instances_per_offer", "integer", 5, "Instances started on one offer at most."),
    Flag("launch_tokens", "integer", 100, "Tasks started in an interval at most that have not come to run yet."),
    Flag("launch_token_refresh_interval", "integer", 30000, "Milliseconds of that interval."),
    Flag("max_queued_offers", "integer", 1024, "Offers kept at most while no launch token is left."),
    Flag(
        "offer_matching_timeout", "integer", 3000, "Milliseconds for which each of them is kept; then it is declined."
    ),
    Flag("decline_offer_duration", "integer", 120000, "Milliseconds for which an unused offer is refused."),
    Flag("min_revive_offers_interval", "integer", 5000, "Milliseconds between two calls for offers, on average."),
    Flag(
        "task_launch_confirm_timeout",
        "integer",
        300000,
        "Milliseconds after which a task without any status is ended.",
    ),
    Flag("task_launch_timeout", "integer", 300000, "Milliseconds after which a task that does not run is ended."),
    Flag(
        "task_reservation_timeout",
        "integer",
        20000,
        "Milliseconds within which an agent must show what was reserved on it for an app with persistent volumes.",
    ),
    Flag(
        "max_concurrent_marathon_health_checks",
        "integer",
        256,
        "Health and readiness checks that Marathon itself runs at a time.",
    ),
    Flag("kill_retry_timeout", "integer", 30000, "Milliseconds after which the end of a task is asked for again."),
    Flag("reconciliation_initial_delay", "integer", 15000, "Milliseconds until task states are asked for again."),
    Flag("reconciliation_interval", "integer", 600000, "Milliseconds between later such questions."),
    Flag("leader_proxy_connection_timeout", "integer", 5000, "Milliseconds that reaching the leader may take."),
    Flag("leader_proxy_read_timeout", "integer", 10000, "Milliseconds that the leader may be silent."),
    Flag("leader_proxy_max_open_connections", "integer", 64, "Connections to the leader at a time."),
    Flag("metrics_name_prefix", "text", "marathon", "The first part of every name in /metrics."),
    Flag(
        "logging_level", "text", None, "How much is logged: off, fatal, error, warn, info (default), debug, trace, all."
    ),
    Flag(
        "usage_interval",
        "integer",
        60000,
        "Milliseconds between two looks at what tasks use (docs/do/usage.md); 0: nobody looks.",
    ),
    Flag("max_running_deployments", "integer", 100, "Deployments that may run at a time."),
)

TOGGLES = tuple(
    Flag(f"disable_{flag.name}", "boolean", None, "")
    for flag in FLAGS
    if flag.kind == "boolean" and flag.name not in ("insecure", "strict_compatibility")
)
"""Marathon's other way of switching something off; `--help` leaves them out."""


def switched(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags with those off that a `--disable_...` switches off. `--disable_...=false` switches nothing."""
    off = {flag.name.removeprefix("disable_"): False for flag in TOGGLES if flags.get(flag.name)}
    return {**flags, **off}
