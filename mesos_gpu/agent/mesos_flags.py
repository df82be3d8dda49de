"""Flags of `mesos-agent` that this agent does not act on: so that an existing unit file's line can be kept. Pure.

The rule, for each: what only tunes, watches or logs is accepted, and named in one warning at start (IGNORED). What
somebody relies on, a wall, an isolation, an identity, a place where data goes, is refused with the reason (REFUSED),
unless the value is the one that means "without". A flag that this agent comes to act on is in `flags.py`, and its row
here no longer counts. Source of the names: Mesos docs/configuration/{agent,master-and-agent}.md, src/slave/flags.cpp.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag

OLD_NAMES = {
    "slave_subsystems": "agent_subsystems",
    "allowed_capabilities": "effective_capabilities",
}
"""Names that Mesos still takes for newer ones."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """One flag: why it does nothing here. `without`: values that are accepted; None for any (IGNORED)."""

    name: str
    why: str
    without: tuple[str, ...] | None = None
    kind: str = "text"

    @property
    def refused(self) -> bool:
        """Tell whether a value may be refused."""
        return self.without is not None


def _ignored(why: str, *names: str, kind: str = "text") -> list[Foreign]:
    return [Foreign(name, why, None, kind) for name in names]


def _refused(why: str, *names: str, without: tuple[str, ...] = (), kind: str = "text") -> list[Foreign]:
    return [Foreign(name, why, without, kind) for name in names]


_NO_MODULES = "modules are C++ libraries; this agent loads none"
_NO_APPC = "only images of Docker and OCI are supported"
_NO_SHAPING = "the traffic of tasks is not shaped or classified: network/cni is the one network isolator"
_NO_STORAGE = "resource providers and CSI are not supported"

FOREIGN: Sequence[Foreign] = (
    # --- accepted: tuning, watching, logging ---
    *_ignored("containers are made by an OCI runtime, found in PATH", "launcher_dir", "launcher"),
    *_ignored("images become overlayfs mounts", "image_provisioner_backend"),
    *_ignored("--image_gc_max_size and --image_gc_max_age say when images go", "image_gc_config"),
    *_ignored("no executor process is started for a command", "executor_reregistration_retry_interval"),
    *_ignored("a restarted agent finds its containers by itself", "recovery_timeout", "executor_registration_timeout"),
    *_ignored("a restarted agent finds its containers by itself", "executor_reregistration_timeout"),
    *_ignored("updates are sent by the agent itself", "http_command_executor", kind="boolean"),
    *_ignored("the grace is the task's own, else Mesos' default", "executor_shutdown_grace_period"),
    *_ignored("150 are shown", "max_completed_executors_per_framework"),
    *_ignored("events of executors are kept alive by TCP", "http_heartbeat_interval"),
    *_ignored("nothing is fetched by hadoop", "hadoop_home"),
    *_ignored("logs go to standard error, for journald", "log_dir", "logbufsecs", "logging_level"),
    *_ignored("logs go to standard error, for journald", "quiet", "initialize_driver_logging", kind="boolean"),
    *_ignored("cgroups are found where they are mounted", "cgroups_hierarchy"),
    *_ignored("a cgroup is waited for until it is empty", "cgroups_destroy_timeout"),
    *_ignored("processes and threads are counted always", "cgroups_cpu_enable_pids_and_tids_count", kind="boolean"),
    *_ignored("nothing is revocable here", "revocable_cpu_low_priority", kind="boolean"),
    *_ignored("nothing is revocable here", "oversubscribed_resources_interval", "qos_correction_interval_min"),
    *_ignored("perf is not sampled", "perf_events", "perf_interval", "perf_duration"),
    *_ignored("conmon keeps containers out of the unit by itself", "systemd_runtime_directory"),
    *_ignored("conmon keeps containers out of the unit by itself", "systemd_enable_support", kind="boolean"),
    *_ignored("the agent runs in the cgroup it was started in", "agent_subsystems"),
    *_ignored("--hostname is used as it is, and by default the address", "hostname_lookup", kind="boolean"),
    *_ignored("no profiler is built in", "memory_profiling", kind="boolean"),
    *_ignored("what a restarted agent cannot read it skips, and says so", "strict", kind="boolean"),
    *_ignored("there is no Docker daemon in between", "docker", "docker_socket", "docker_remove_delay"),
    *_ignored("there is no Docker daemon in between", "docker_stop_timeout", "docker_volume_checkpoint_dir"),
    *_ignored("there is no Docker daemon in between", "docker_kill_orphans", kind="boolean"),
    *_ignored("joins of networks are not counted", "network_cni_metrics", kind="boolean"),
    *_ignored("ports are not watched", "container_ports_watch_interval", "container_ports_isolated_range"),
    *_ignored("ports are not watched", "check_agent_port_range_only", kind="boolean"),
    *_ignored("no statistics of networks", "network_enable_socket_statistics_summary", kind="boolean"),
    *_ignored("no statistics of networks", "network_enable_socket_statistics_details", kind="boolean"),
    *_ignored("no statistics of networks", "network_enable_snmp_statistics", kind="boolean"),
    *_ignored("no statistics of networks", "network_enable_rate_statistics", kind="boolean"),
    *_ignored("no statistics of networks", "network_rate_statistics_window", "network_rate_statistics_interval"),
    *_ignored("no statistics of networks", "eth0_name", "lo_name", "network_link_speed"),
    *_ignored("half the memory is /dev/shm, as on a host", "default_container_shm_size"),
    *_ignored("there are no appc images", "appc_simple_discovery_uri_prefix", "appc_store_dir"),
    *_ignored("agents have no IPv6 address in Mesos' protocol", "ip6", "ip6_discovery_command"),
    *_ignored("every task has PIDs and IPC of its own", "disallow_sharing_agent_pid_namespace", kind="boolean"),
    *_ignored("every task has PIDs and IPC of its own", "disallow_sharing_agent_ipc_namespace", kind="boolean"),
    # --- refused, unless the value means "without" ---
    *_refused(_NO_MODULES, "modules", "modules_dir", "hooks", "container_logger", "master_detector"),
    *_refused(_NO_MODULES, "resource_estimator", "qos_controller", "secret_resolver", "disk_profile_adaptor"),
    *_refused(_NO_MODULES, "authenticatee", without=("crammd5",)),
    *_refused(_NO_STORAGE, "resource_provider_config_dir", "csi_plugin_config_dir"),
    *_refused("endpoints are not switched off one by one; --acls says who may use them", "firewall_rules"),
    *_refused("it is --jwt_secret_key, as in Mesos since 1.5", "executor_secret_key"),
    *_refused(_NO_SHAPING, "ephemeral_ports_per_container", "egress_rate_limit_per_container"),
    *_refused(_NO_SHAPING, "egress_rate_per_cpu", "minimum_egress_rate_limit", "maximum_egress_rate_limit"),
    *_refused(_NO_SHAPING, "egress_ceil_limit", "egress_burst", "egress_flow_classifier_parent"),
    *_refused(_NO_SHAPING, "ingress_rate_limit_per_container", "ingress_rate_per_cpu", "minimum_ingress_rate_limit"),
    *_refused(_NO_SHAPING, "maximum_ingress_rate_limit", "ingress_ceil_limit", "ingress_burst"),
    *_refused(_NO_SHAPING, "cgroups_net_cls_primary_handle", "cgroups_net_cls_secondary_handles"),
    *_refused(_NO_SHAPING, "ingress_isolate_existing_containers", without=("false",), kind="boolean"),
    *_refused(_NO_SHAPING, "egress_unique_flow_per_container", without=("false",), kind="boolean"),
    *_refused("ports are not watched", "enforce_container_ports", without=("false",), kind="boolean"),
    *_refused("disk quotas are those of disk/du", "xfs_project_range", "xfs_quota_headroom"),
    *_refused("disk quotas are those of disk/du", "xfs_kill_containers", without=("false",), kind="boolean"),
    *_refused("the runtime's default profile is not configurable", "seccomp_config_dir", "seccomp_profile_name"),
    *_refused("containers' capabilities are not configurable", "effective_capabilities", "bounding_capabilities"),
    *_refused("containers get their own GPUs' nodes and the standard ones only", "allowed_devices"),
    *_refused("swap is not limited", "cgroups_limit_swap", without=("false",), kind="boolean"),
    *_refused("volumes keep their owners", "volume_gid_range"),
    *_refused("volumes keep their owners", "docker_volume_chown", without=("false",), kind="boolean"),
    *_refused("folders of the host are not made for a volume", "host_path_volume_force_creation"),
    *_refused("an image's runtime settings are applied", "docker_ignore_runtime", without=("false",), kind="boolean"),
    *_refused("the agent runs on the machine itself", "docker_mesos_image"),
    *_refused("it is not added to containers", "default_container_info"),
    *_refused("fault domains are not supported", "domain"),
    *_refused("which capabilities are announced is not configurable", "agent_features"),
    *_refused("containers outlive the agent; to end them, stop it with SIGUSR1", "recover", without=("reconnect",)),
    *_refused("the address is not asked of a program; give --ip", "ip_discovery_command"),
    *_refused("containers are made by UCR alone", "containerizers", without=("mesos", "mesos,docker", "docker,mesos")),
)

ISOLATORS_IGNORED: Mapping[str, str] = {
    "posix/cpu": "nothing is isolated by it in Mesos either",
    "posix/mem": "nothing is isolated by it in Mesos either",
    "cgroups/perf_event": "perf is not sampled",
    "cgroups/pids": "processes are counted, not limited",
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
        "disk/du",
        "docker/runtime",
        "environment_secret",
        "filesystem/linux",
        "gpu/nvidia",
        "linux/capabilities",
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
"""Isolators that do here what they do in Mesos; the walls of containers stand whether they are named or not."""


def foreign_flags(own: Collection[str]) -> list[Flag]:
    """Return the flags that are only known here, for the parser; `--help` leaves them out. `own`: the others."""
    foreign = [Flag(row.name, row.kind, None, "") for row in FOREIGN if row.name not in own]
    kinds = {flag.name: flag.kind for flag in foreign}
    old = [Flag(name, kinds[new], None, "") for name, new in OLD_NAMES.items() if new in kinds]
    return [*foreign, *old]


def settle(flags: Mapping[str, Any], own: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the flags this agent acts on, and what it says at start about the others that were given.

    Raises BadFlag for those that somebody relies on, all in one, so that a unit is mended in one go.
    """
    rows = {row.name: row for row in FOREIGN}
    said: list[str] = []
    refused: list[tuple[str, str]] = []
    for name, value in flags.items():
        row = rows.get(OLD_NAMES.get(name, name))
        if name in own or row is None or value is None:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        if row.without is not None and text not in row.without and text:
            but = f"; only {' or '.join(row.without)} is accepted" if row.without else ""
            refused.append((name, f"{row.why}{but}"))
        elif not row.refused:
            said.append(f"--{name} does nothing here: {row.why}")
    if refused:
        (first, why), *more = refused
        raise BadFlag(first, "; ".join([why, *(f"--{name}: {words}" for name, words in more)]))
    mine = {name: value for name, value in flags.items() if name in own}
    return mine, said


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


_ADDRESSES = frozenset({"IP", "PORT", "ADVERTISE_IP", "ADVERTISE_PORT"})
"""What libprocess reads of the environment, after its name, and is a flag here."""


def strangers(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return what is said at start about the environment: MESOS_* that is no flag, LIBPROCESS_* that is not read."""
    said: list[str] = []
    for name in sorted(environ):
        if name.startswith("LIBPROCESS_") and not name.startswith("LIBPROCESS_SSL_"):
            instead = f": say --{name[11:].lower()}" if name[11:] in _ADDRESSES else ""
            said.append(f"{name} is not read{instead}")
        elif name.startswith("MESOS_") and not name.startswith("MESOS_NATIVE_") and name[6:].lower() not in known:
            said.append(f"{name} is not read: there is no such flag")
    return said
