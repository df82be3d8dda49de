"""The flags of `mesos-gpu-marathon`: Marathon's names and defaults, and those that have no meaning here. Pure.

Source: Marathon docs/docs/command-line-flags.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.marathon.definitions.app import FEATURES
from mesos_gpu.marathon.definitions.ports import LOCAL_PORT_MAX, LOCAL_PORT_MIN
from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour
from mesos_gpu.marathon.state.settings import MAX_VERSIONS
from mesos_gpu.mesos.flags import (
    BOOLEAN,
    CommandLine,
    InertFlag,
    Milliseconds,
    PathText,
    ServiceFlags,
    flag,
    ignored,
    refused,
    required,
)
from mesos_gpu.placement.policies import BEST, POLICIES

LONGEST_HOLD_S = 5
"""For which offers are held: half of the shortest --offer_timeout that masters are run with."""
IN_INFO, IN_ZOOKEEPER_INFO = "marathon_config", "zookeeper_config"
"""Parts of the answer of /v2/info."""


class MarathonFlags(ServiceFlags):
    """The flags that Marathon acts on."""

    master: str = required(
        "The Mesos master: host:port, or zk://host1:port1,host2:port2/path. Required.",
        "for example --master=127.0.0.1:5050 (or MARATHON_MASTER in the environment)",
        shown_in=IN_INFO,
    )
    http_address: str = flag("127.0.0.1", "The address to listen on.")
    http_port: int = flag(8080, "The port to listen on; 0 takes a free one.", at_least=0, at_most=65535)
    http_credentials: str | None = flag(None, "user:password that every call must carry (HTTP basic authentication).")
    https_address: str | None = flag(None, "The address to listen on with TLS; without it that of --http_address.")
    https_port: int | None = flag(
        None, "The port for TLS, with --ssl_cert_file; 8443 unless given, 0: a free one.", at_least=0, at_most=65535
    )
    ssl_cert_file: PathText | None = flag(
        None, "Our certificate and those up to the authority, PEM: with it there is https."
    )
    ssl_key_file: PathText | None = flag(
        None, "Its private key, PEM, without a password. Both stand for Marathon's keystore."
    )
    disable_http: bool = flag(
        False,
        "Listen with TLS only, at --https_port. Standbys reach the leader over https, too. Needs --ssl_cert_file.",
    )
    ssl_ca_file: PathText | None = flag(
        None,
        "Authorities that a standby accepts when it passes requests on to the leader over https, PEM; default: those "
        "of the machine.",
    )
    leader_proxy_ssl_ignore_hostname: bool = flag(
        False, "Do not compare the name in the leader's certificate with its --hostname."
    )
    login_hint: str | None = flag(None, "Text that callers without these credentials are shown with the refusal.")
    http_realm: str = flag("Mesosphere", "The realm that clients are shown with --http_credentials.")
    http_compression: bool = flag(True, "Send large answers compressed (gzip) to clients that can read them.")
    http_max_concurrent_requests: int | None = flag(
        None, "Requests answered at a time; further ones get 503.", at_least=1
    )
    access_control_allow_origin: tuple[str, ...] = flag(
        (), "Sites whose pages may read from here in a browser: *, or URLs such as http://ui.example:8888."
    )
    insecure: bool = flag(False, "Listen beyond this machine without --http_credentials.")
    strict_compatibility: bool = flag(
        False,
        "Behave as Marathon where this one differs on purpose: an unknown URI is 500, a cmd of one letter is refused.",
    )
    hostname: str | None = flag(None, "The name of this machine that Mesos and clients are told.")
    webui_url: str | None = flag(None, "The URL of this Marathon that Mesos shows.", shown_in=IN_INFO)
    mesos_leader_ui_url: str | None = flag(None, "The URL of Mesos that clients are told.")
    mesos_role: str = flag("*", "The role to register with; apps run in it.", shown_in=IN_INFO)
    mesos_user: str | None = flag(
        None, "The user that tasks run as unless their app names one; default: our own.", shown_in=IN_INFO
    )
    mesos_authentication_principal: str | None = flag(None, "The principal to register as, and to reserve as.")
    mesos_authentication_secret_file: PathText | None = flag(
        None, "File with its secret, for a master that wants to see it."
    )
    mesos_authentication_secret: str | None = flag(None, "The secret itself; a file keeps it from others.")
    mesos_authentication: bool | None = flag(None, "Show that secret to the master. Default: if there is one.")
    mesos_heartbeat_interval: Milliseconds = flag(
        15.0, "Milliseconds in which the master is expected to say something.", above=0, shown_in=IN_INFO
    )
    mesos_heartbeat_failure_threshold: int = flag(
        5, "After so many silent ones the connection is made again.", at_least=1, shown_in=IN_INFO
    )
    framework_name: str = flag("marathon", "The name to register with.", shown_in=IN_INFO)
    failover_timeout: int = flag(
        604800, "Seconds for which Mesos keeps the tasks when this Marathon is away.", at_least=0, shown_in=IN_INFO
    )
    store_path: PathText | None = flag(
        None, "The file to keep apps and instances in. Default: in the user's state folder."
    )
    zk: str | None = flag(None, "zk://host1:port1,host2:port2/path: keep them there, and be one of several Marathons.")
    zk_timeout: Milliseconds = flag(
        10.0, "Milliseconds that a read or write in ZooKeeper may take.", above=0, shown_in=IN_ZOOKEEPER_INFO
    )
    zk_max_versions: int = flag(
        MAX_VERSIONS, "Versions kept of each app, pod and group, in a file too.", at_least=1, shown_in=IN_ZOOKEEPER_INFO
    )
    zk_session_timeout: Milliseconds = flag(
        10.0, "Milliseconds after which a leader that vanished is followed.", above=0, shown_in=IN_ZOOKEEPER_INFO
    )
    zk_compression: bool = flag(True, "Compress large documents in ZooKeeper.", shown_in=IN_ZOOKEEPER_INFO)
    zk_compression_threshold: int = flag(
        65536, "Bytes beyond which a document is large.", at_least=0, shown_in=IN_ZOOKEEPER_INFO
    )
    zk_max_node_size: int = flag(
        1024000, "Bytes in a node of ZooKeeper at most.", at_least=1, shown_in=IN_ZOOKEEPER_INFO
    )
    enable_features: tuple[str, ...] = flag(
        ("gpu_resources",), f"Features to switch on: {', '.join(sorted(FEATURES))}.", one_of=sorted(FEATURES)
    )
    gpu_scheduling_behavior: str = flag(
        "restricted",
        "Whether apps without GPUs may use agents with GPUs: restricted (no), unrestricted.",
        one_of=[each.value for each in GpuBehaviour],
    )
    placement_policy: str = flag(
        BEST,
        f"How apps with GPUs choose among offers: {', '.join(POLICIES)} (docs/do/placement.md); an app's label "
        "PLACEMENT_POLICY goes before it.",
        one_of=tuple(POLICIES),
    )
    offer_window: Milliseconds = flag(
        0.2,
        "Milliseconds for which offers are held when others may come that suit an app with GPUs better; 0: none are.",
        at_least=0,
        at_most=LONGEST_HOLD_S,
    )
    gang_offer_hold: Milliseconds = flag(
        5.0,
        "Milliseconds for which offers are kept for the gang that waits first; then others have their turn "
        "(docs/do/gangs.md).",
        at_least=0,
        at_most=LONGEST_HOLD_S,
    )
    priority_aging: int = flag(600, "Seconds of waiting that a point of an app's `priority` is worth.", at_least=1)
    accepted_resource_roles_default_behavior: str = flag(
        "any",
        "What apps without acceptedResourceRoles take: any (of their role and unreserved), unreserved, reserved.",
        one_of=[each.value for each in RolesBehaviour],
    )
    env_vars_prefix: str = flag("", "Prefix of HOST and the PORT variables of tasks.", shown_in=IN_INFO)
    default_network_name: str | None = flag(None, "The container network of apps that name none.", shown_in=IN_INFO)
    mesos_bridge_name: str = flag(
        "mesos-bridge", "The network of apps and pods that want container/bridge.", shown_in=IN_INFO
    )
    local_port_min: int = flag(
        LOCAL_PORT_MIN, "The lowest port given out as a service port.", at_least=1, at_most=65535, shown_in=IN_INFO
    )
    local_port_max: int = flag(
        LOCAL_PORT_MAX, "The highest port given out as a service port.", at_least=1, at_most=65535, shown_in=IN_INFO
    )
    new_group_enforce_role: str = flag(
        "off",
        "Whether new top-level groups enforce their role: off, top (yes).",
        one_of=("off", "top"),
        shown_in=IN_INFO,
    )
    max_apps: int | None = flag(None, "Apps that there may be at most.", at_least=1)
    maintenance_mode: bool = flag(True, "Launch nothing on agents that are in maintenance.", shown_in=IN_INFO)
    draining_seconds: int = flag(0, "How long before the maintenance nothing is launched there any more.", at_least=0)
    suppress_offers: bool = flag(True, "Ask the master for no offers while nothing waits for one.")
    max_instances_per_offer: int = flag(5, "Instances started on one offer at most.", at_least=1, shown_in=IN_INFO)
    launch_tokens: int = flag(100, "Tasks started in an interval at most that have not come to run yet.", at_least=1)
    launch_token_refresh_interval: Milliseconds = flag(30.0, "Milliseconds of that interval.", shown_in=IN_INFO)
    max_queued_offers: int = flag(1024, "Offers kept at most while no launch token is left.", at_least=0)
    offer_matching_timeout: Milliseconds = flag(
        3.0, "Milliseconds for which each of them is kept; then it is declined.", at_least=0, at_most=LONGEST_HOLD_S
    )
    decline_offer_duration: Milliseconds = flag(
        120.0, "Milliseconds for which an unused offer is refused.", shown_in=IN_INFO
    )
    min_revive_offers_interval: Milliseconds = flag(
        5.0, "Milliseconds between two calls for offers, on average.", above=0, shown_in=IN_INFO
    )
    task_launch_confirm_timeout: Milliseconds = flag(
        300.0, "Milliseconds after which a task without any status is ended.", above=0, shown_in=IN_INFO
    )
    task_launch_timeout: Milliseconds = flag(
        300.0, "Milliseconds after which a task that does not run is ended.", above=0, shown_in=IN_INFO
    )
    task_reservation_timeout: Milliseconds = flag(
        20.0,
        "Milliseconds within which an agent must show what was reserved on it for an app with persistent volumes.",
        above=0,
        shown_in=IN_INFO,
    )
    max_concurrent_marathon_health_checks: int = flag(
        256, "Health and readiness checks that Marathon itself runs at a time.", at_least=1
    )
    kill_retry_timeout: Milliseconds = flag(
        30.0, "Milliseconds after which the end of a task is asked for again.", above=0
    )
    reconciliation_initial_delay: Milliseconds = flag(
        15.0, "Milliseconds until task states are asked for again.", shown_in=IN_INFO
    )
    reconciliation_interval: Milliseconds = flag(600.0, "Milliseconds between later such questions.", shown_in=IN_INFO)
    leader_proxy_connection_timeout: Milliseconds = flag(
        5.0, "Milliseconds that reaching the leader may take.", above=0
    )
    leader_proxy_read_timeout: Milliseconds = flag(10.0, "Milliseconds that the leader may be silent.", above=0)
    leader_proxy_max_open_connections: int = flag(64, "Connections to the leader at a time.", at_least=1)
    metrics_name_prefix: str = flag("marathon", "The first part of every name in /metrics.")
    logging_level: str | None = flag(
        None, "How much is logged: off, fatal, error, warn, info (default), debug, trace, all."
    )
    usage_interval: Milliseconds = flag(
        60.0, "Milliseconds between two looks at what tasks use (docs/do/usage.md); 0: nobody looks."
    )
    max_running_deployments: int = flag(100, "Deployments that may run at a time.", at_least=0)


_NO_KEYSTORE = (
    "Java's keystores are not read; `openssl pkcs12 -in KEYSTORE -nodes` makes the PEM files of --ssl_cert_file and "
    "--ssl_key_file of one (after `keytool -importkeystore -deststoretype pkcs12`, if it is a JKS)"
)
_NO_PLUGINS = "plugins are not supported, and what one is to do would not be done"
_BY_EVENTS = "what is missing is started at each event, not by a timer"

_ONE_LOOP = "one loop decides about everything: there are no queues and pools of threads to be sized"
_NO_STATSD = "Prometheus takes metrics from /metrics/prometheus; nothing is sent to a server of that kind"

INERT: Sequence[InertFlag] = (
    *ignored("with --zk several can run, without it one", "ha", "disable_ha", kind=BOOLEAN),
    *ignored("a lost connection to ZooKeeper is made again for as long as it takes", "zk_connection_timeout"),
    *ignored("a call that failed is made again until --zk_timeout", "zk_operation_max_retries"),
    *ignored("a call that failed is made again until --zk_timeout", "zk_operation_base_retry_sleep_ms"),
    *ignored("--zk_timeout is the limit of one read", "on_elected_prepare_timeout", "max_actor_startup_time"),
    *ignored(_BY_EVENTS, "scale_apps_initial_delay", "scale_apps_interval"),
    *ignored(
        "instances on lost machines are forgotten at their own time",
        "task_lost_expunge_initial_delay",
        "task_lost_expunge_interval",
    ),
    *ignored("offers are matched one after another, at once", "max_parallel_offers"),
    *ignored("all kills are sent at once", "kill_chunk_size", "killsPerBatch", "killBatchDuration"),
    *ignored("it ends as soon as its changes are on disk", "graceful_shutdown_timeout"),
    *ignored("a listener that does not read is cut off at 16 MiB", "event_stream_max_outstanding_messages"),
    *ignored(
        "offers are asked for by what waits, of new apps and old ones", "revive_offers_for_new_apps", kind=BOOLEAN
    ),
    *ignored("both forms of metrics are always served", "metrics_prometheus", kind=BOOLEAN),
    *ignored("both forms of metrics are always served", "disable_metrics_prometheus", "metrics", kind=BOOLEAN),
    *ignored("both forms of metrics are always served", "disable_metrics", kind=BOOLEAN),
    *ignored(
        "quantiles are of the last values, exactly",
        "metrics_histogram_reservoir_highest_trackable_value",
        "metrics_histogram_reservoir_significant_digits",
        "metrics_histogram_reservoir_resetting_interval_ms",
        "metrics_histogram_reservoir_resetting_chunks",
    ),
    *ignored(
        "quantiles are of the last values, exactly",
        "metrics_histogram_reservoir_reset_periodically",
        "disable_metrics_histogram_reservoir_reset_periodically",
        kind=BOOLEAN,
    ),
    *ignored(
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
    *ignored("everything is in memory, and on disk", "store_cache", "disable_store_cache", kind=BOOLEAN),
    *ignored("everything is in memory, and on disk", "internal_version_caching", kind=BOOLEAN),
    *ignored("everything is in memory, and on disk", "disable_internal_version_caching", kind=BOOLEAN),
    *ignored("everything is in memory, and on disk", "group_versions_cache_size"),
    *ignored(
        "versions that are too many go with the change that makes them so",
        "storage_compaction_interval",
        "storage_compaction_scan_batch_size",
    ),
    *refused("state is in ZooKeeper with --zk, else in a file", "internal_store_backend", accepted=("zk",)),
    *refused("there is one way of electing a leader", "leader_election_backend", accepted=("curator",)),
    *refused("apps run by Mesos' command executor unless they name another", "executor", accepted=("//cmd",)),
    *refused("tasks always outlive their agent's restart", "checkpoint", accepted=("true",), kind=BOOLEAN),
    *refused("tasks always outlive their agent's restart", "disable_checkpoint", accepted=("false",), kind=BOOLEAN),
    *refused(
        "offer constraints are not sent to the master", "mesos_offer_constraints", accepted=("false",), kind=BOOLEAN
    ),
    *ignored("offer constraints are not sent to the master", "disable_mesos_offer_constraints", kind=BOOLEAN),
    *ignored("offer constraints are not sent to the master", "min_mesos_offer_constraints_update_interval"),
    *refused(
        "Marathon 1.10 took it away: use --accepted_resource_roles_default_behavior", "default_accepted_resource_roles"
    ),
    *refused("no feature that Marathon 1.11 calls deprecated is here", "deprecated_features", accepted=("",)),
    *refused(_NO_PLUGINS, "plugin_dir", "plugin_conf"),
    *refused(_NO_KEYSTORE, "ssl_keystore_path", "ssl_keystore_password"),
    *refused("there is no user interface whose files could lie elsewhere", "assets_path"),
    *refused(_NO_STATSD, "metrics_statsd", "metrics_datadog", accepted=("false",), kind=BOOLEAN),
    *ignored(_NO_STATSD, "disable_metrics_statsd", "disable_metrics_datadog", kind=BOOLEAN),
    *ignored(
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
    *refused("its log goes to standard error alone", "logstash", "sentry", "sentry_tags"),
    *refused("use DELETE /v2/leader?backup=, or mesos-gpu-marathon-state copy", "backup_location"),
)

COMMAND_LINE = CommandLine("mesos-gpu-marathon", "MARATHON_", MarathonFlags, INERT, off_prefix="disable_")
