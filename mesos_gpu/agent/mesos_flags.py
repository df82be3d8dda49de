"""Flags of `mesos-agent` that this agent does not act on: so that an existing unit file's line can be kept. Pure.

The rule, for each: what only tunes, watches or logs is accepted, and named in one warning at start (IGNORED). What
somebody relies on, a protection, an identity, a place where data goes, is refused with the reason (REFUSED), unless
its value means "without". A flag that this agent acts on is in `flags.py`, and not here.
Source of the names: Mesos docs/configuration/{agent,master-and-agent}.md, src/slave/flags.cpp.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos import foreign
from mesos_gpu.mesos.flags import Flag
from mesos_gpu.mesos.foreign import Foreign, ignored, refused

OLD_NAMES = {
    "slave_subsystems": "agent_subsystems",
    "allowed_capabilities": "effective_capabilities",
}
"""Names that Mesos still takes for newer ones."""

_NO_MODULES = "modules are C++ libraries; this agent loads none"
_NO_APPC = "only images of Docker and OCI are supported"
_NO_SHAPING = "the traffic of tasks is not shaped or classified: network/cni is the one network isolator"
_NO_STORAGE = "resource providers and CSI are not supported"

FOREIGN: Sequence[Foreign] = (
    # --- accepted: tuning, watching, logging ---
    *ignored("containers are made by an OCI runtime, found in PATH", "launcher_dir", "launcher"),
    *ignored("images become overlayfs mounts", "image_provisioner_backend"),
    *ignored("--image_gc_max_size and --image_gc_max_age say when images are removed", "image_gc_config"),
    *ignored("no executor process is started for a command", "executor_reregistration_retry_interval"),
    *ignored("updates are sent by the agent itself", "http_command_executor", kind="boolean"),
    *ignored("150 are shown", "max_completed_executors_per_framework"),
    *ignored("events of executors are kept alive by TCP", "http_heartbeat_interval"),
    *ignored("nothing is fetched by hadoop", "hadoop_home"),
    *ignored("logs go to standard error, for journald", "log_dir", "logbufsecs", "logging_level"),
    *ignored("logs go to standard error, for journald", "quiet", "initialize_driver_logging", kind="boolean"),
    *ignored("cgroups are found where they are mounted", "cgroups_hierarchy"),
    *ignored("a cgroup is waited for until it is empty", "cgroups_destroy_timeout"),
    *ignored("processes and threads are counted always", "cgroups_cpu_enable_pids_and_tids_count", kind="boolean"),
    *ignored("nothing is revocable here", "revocable_cpu_low_priority", kind="boolean"),
    *ignored("nothing is revocable here", "oversubscribed_resources_interval", "qos_correction_interval_min"),
    *ignored("perf is not sampled", "perf_events", "perf_interval", "perf_duration"),
    *ignored("conmon keeps containers out of the unit by itself", "systemd_runtime_directory"),
    *ignored("conmon keeps containers out of the unit by itself", "systemd_enable_support", kind="boolean"),
    *ignored("the agent runs in the cgroup it was started in", "agent_subsystems"),
    *ignored("--hostname is used as it is, and by default the address", "hostname_lookup", kind="boolean"),
    *ignored("no profiler is built in", "memory_profiling", kind="boolean"),
    *ignored("records that a restarted agent cannot read are skipped and logged", "strict", kind="boolean"),
    *ignored("there is no Docker daemon in between", "docker", "docker_socket", "docker_remove_delay"),
    *ignored("there is no Docker daemon in between", "docker_stop_timeout", "docker_volume_checkpoint_dir"),
    *ignored("there is no Docker daemon in between", "docker_kill_orphans", kind="boolean"),
    *ignored("joins of networks are not counted", "network_cni_metrics", kind="boolean"),
    *ignored("ports are not watched", "container_ports_watch_interval", "container_ports_isolated_range"),
    *ignored("ports are not watched", "check_agent_port_range_only", kind="boolean"),
    *ignored("no statistics of networks", "network_enable_socket_statistics_summary", kind="boolean"),
    *ignored("no statistics of networks", "network_enable_socket_statistics_details", kind="boolean"),
    *ignored("no statistics of networks", "network_enable_snmp_statistics", kind="boolean"),
    *ignored("no statistics of networks", "network_enable_rate_statistics", kind="boolean"),
    *ignored("no statistics of networks", "network_rate_statistics_window", "network_rate_statistics_interval"),
    *ignored("no statistics of networks", "eth0_name", "lo_name", "network_link_speed"),
    *ignored("half the memory is /dev/shm, as on a host", "default_container_shm_size"),
    *ignored("there are no appc images", "appc_simple_discovery_uri_prefix", "appc_store_dir"),
    *ignored("agents have no IPv6 address in Mesos' protocol", "ip6", "ip6_discovery_command"),
    *ignored("every task has PIDs and IPC of its own", "disallow_sharing_agent_pid_namespace", kind="boolean"),
    *ignored("every task has PIDs and IPC of its own", "disallow_sharing_agent_ipc_namespace", kind="boolean"),
    # --- refused, unless the value means "without" ---
    *refused(_NO_MODULES, "modules_dir", "hooks", "master_detector"),
    *refused(_NO_MODULES, "resource_estimator", "qos_controller", "secret_resolver", "disk_profile_adaptor"),
    *refused(_NO_MODULES, "authenticatee", without=("crammd5",)),
    *refused(_NO_STORAGE, "resource_provider_config_dir", "csi_plugin_config_dir"),
    *refused("endpoints are not switched off one by one; --acls says who may use them", "firewall_rules"),
    *refused("it is --jwt_secret_key, as in Mesos since 1.5", "executor_secret_key"),
    *refused(_NO_SHAPING, "ephemeral_ports_per_container", "egress_rate_limit_per_container"),
    *refused(_NO_SHAPING, "egress_rate_per_cpu", "minimum_egress_rate_limit", "maximum_egress_rate_limit"),
    *refused(_NO_SHAPING, "egress_ceil_limit", "egress_burst", "egress_flow_classifier_parent"),
    *refused(_NO_SHAPING, "ingress_rate_limit_per_container", "ingress_rate_per_cpu", "minimum_ingress_rate_limit"),
    *refused(_NO_SHAPING, "maximum_ingress_rate_limit", "ingress_ceil_limit", "ingress_burst"),
    *refused(_NO_SHAPING, "cgroups_net_cls_primary_handle", "cgroups_net_cls_secondary_handles"),
    *refused(_NO_SHAPING, "ingress_isolate_existing_containers", without=("false",), kind="boolean"),
    *refused(_NO_SHAPING, "egress_unique_flow_per_container", without=("false",), kind="boolean"),
    *refused("ports are not watched", "enforce_container_ports", without=("false",), kind="boolean"),
    *refused("disk quotas are those of disk/du", "xfs_project_range", "xfs_quota_headroom"),
    *refused("disk quotas are those of disk/du", "xfs_kill_containers", without=("false",), kind="boolean"),
    *refused("containers' capabilities are not configurable", "effective_capabilities", "bounding_capabilities"),
    *refused("containers get their own GPUs' nodes and the standard ones only", "allowed_devices"),
    *refused("swap is not limited", "cgroups_limit_swap", without=("false",), kind="boolean"),
    *refused("volumes keep their owners", "volume_gid_range"),
    *refused("volumes keep their owners", "docker_volume_chown", without=("false",), kind="boolean"),
    *refused("folders of the host are not made for a volume", "host_path_volume_force_creation"),
    *refused("an image's runtime settings are applied", "docker_ignore_runtime", without=("false",), kind="boolean"),
    *refused("the agent runs on the machine itself", "docker_mesos_image"),
    *refused("it is not added to containers", "default_container_info"),
    *refused("fault domains are not supported", "domain"),
    *refused("which capabilities are announced is not configurable", "agent_features"),
    *refused("containers outlive the agent; to end them, stop it with SIGUSR1", "recover", without=("reconnect",)),
    *refused("the address is not asked of a program; give --ip", "ip_discovery_command"),
    *refused("containers are made by UCR alone", "containerizers", without=("mesos", "mesos,docker", "docker,mesos")),
)

ISOLATORS_IGNORED: Mapping[str, str] = {
    "posix/cpu": "nothing is isolated by it in Mesos either",
    "posix/mem": "nothing is isolated by it in Mesos either",
    "cgroups/perf_event": "perf is not sampled",
    "cgroups/blkio": "no statistics of block devices",
    "cgroups/cpuset": "CPUs are shared by weight, not pinned",
    "cgroups/hugetlb": "huge pages are not limited",
    "filesystem/posix": "every task has a mount namespace of its own",
    "volume/image": "images are not mounted as volumes",
}
"""Isolators that tasks do not rely on being there: left out with a warning. One with a slash that is neither here nor
among ISOLATORS is refused."""
ISOLATORS = frozenset(
    {
        "cgroups/all",
        "cgroups/cpu",
        "cgroups/devices",
        "cgroups/mem",
        "cgroups/pids",
        "disk/du",
        "docker/runtime",
        "environment_secret",
        "filesystem/linux",
        "gpu/nvidia",
        "linux/capabilities",
        "linux/nnp",
        "linux/seccomp",
        "namespaces/ipc",
        "namespaces/pid",
        "network/cni",
        "posix/disk",
        "posix/rlimits",
        "volume/host_path",
        "volume/sandbox_path",
        "volume/secret",
    }
)
"""Isolators that do here what they do in Mesos; containers are hardened whether they are named or not."""


def foreign_flags(own: Collection[str]) -> list[Flag]:
    """Return the flags that are only known here, for the parser; `--help` leaves them out. `own`: the others."""
    return foreign.parser_flags(FOREIGN, [Flag(name, "text", None, "") for name in own], OLD_NAMES)


def settle(flags: Mapping[str, Any], own: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the flags this agent acts on, and what it says at start about the others; see foreign.settle."""
    return foreign.settle(FOREIGN, flags, own, OLD_NAMES)


def settle_isolation(isolation: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the isolators that mean something here, and what is said at start about those left out.

    Raises BadFlag for one that tasks would rely on.
    """
    kept: list[str] = []
    said: list[str] = []
    for name in isolation:
        if name in ISOLATORS_IGNORED:
            said.append(f"--isolation: {name} does nothing here: {ISOLATORS_IGNORED[name]}")
        elif name in ISOLATORS:
            kept.append(name)
        else:
            raise BadFlag("isolation", f"'{name}' is not supported; these are: {', '.join(sorted(ISOLATORS))}")
    return tuple(kept), said
