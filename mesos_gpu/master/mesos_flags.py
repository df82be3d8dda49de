"""Flags of `mesos-master` that this master does not act on; the rule is that of `mesos/foreign.py`. Pure.

Source of the names: Mesos docs/configuration/{master,master-and-agent}.md, src/master/flags.cpp, src/logging/flags.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.mesos.foreign import Foreign, ignored, refused

OLD_NAMES = {
    "slave_reregister_timeout": "agent_reregister_timeout",
    "slave_removal_rate_limit": "agent_removal_rate_limit",
    "slave_ping_timeout": "agent_ping_timeout",
    "max_slave_ping_timeouts": "max_agent_ping_timeouts",
    "recovery_slave_removal_limit": "recovery_agent_removal_limit",
    "authenticate_slaves": "authenticate_agents",
    "authenticate": "authenticate_frameworks",
    "authenticate_http": "authenticate_http_readwrite",
    "max_executors_per_slave": "max_executors_per_agent",
}
"""Names that Mesos still takes for newer ones."""
_ONE_VALUE = "the registry is a file in --work_dir, or with --zk one value in ZooKeeper"
_NO_MODULES = "modules are C++ libraries; this master loads none"
_LOGS = "logs go to standard error, for journald"

FOREIGN: Sequence[Foreign] = (
    # --- accepted: tuning, watching, logging ---
    *ignored(_ONE_VALUE, "quorum", "registry", "registry_fetch_timeout"),
    *ignored(_ONE_VALUE, "log_auto_initialize", "registry_strict", kind="boolean"),
    *ignored("offers begin as agents come back", "allocator_recovery_timeout", "allocator_agent_recovery_factor"),
    *ignored("a driver may take as long as it likes to authenticate", "authentication_v0_timeout"),
    *ignored(
        "50 frameworks, and 1000 ended and 1000 unreachable tasks of each, are remembered",
        "max_completed_frameworks",
        "max_completed_tasks_per_framework",
        "max_unreachable_tasks_per_framework",
    ),
    *ignored(
        "regexes of offer constraints are matched in bounded time and memory",
        "offer_constraints_re2_max_mem",
        "offer_constraints_re2_max_program_size",
    ),
    *ignored(_LOGS, "log_dir", "logbufsecs", "logging_level"),
    *ignored(_LOGS, "quiet", "initialize_driver_logging", kind="boolean"),
    *ignored("--hostname is used as it is, and by default the address", "hostname_lookup", kind="boolean"),
    *ignored("no profiler is built in", "memory_profiling", kind="boolean"),
    *ignored("Mesos' own pages are not bundled; served from elsewhere, they can read this master", "webui_dir"),
    # --- refused: somebody relies on them ---
    *refused(_NO_MODULES, "modules", "modules_dir", "hooks", "master_contender", "master_detector"),
    *refused(_NO_MODULES, "allocator", without=("hierarchical", "HierarchicalDRF")),
    *refused("agents show who they are by CRAM-MD5 alone", "authenticators", without=("crammd5",)),
    *refused("nothing is run to find an address: say --ip or --advertise_ip", "ip_discovery_command"),
    *refused("agents are not kept out by a list: deactivate them", "whitelist", without=("*",)),
    *refused("the calls of frameworks are not limited by rate", "rate_limits"),
    *refused("endpoints are not switched off one by one: --acls says who may use which", "firewall_rules"),
    *refused("weights are set by PUT /weights or UPDATE_WEIGHTS, and are kept", "weights"),
    *refused("fault domains are not supported", "domain"),
    *refused("fault domains are not supported", "require_agent_domain", without=("false",), kind="boolean"),
    *refused("there is no port mapping isolator that would need it", "max_executors_per_agent"),
)
