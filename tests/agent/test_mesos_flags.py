"""The flags of an existing mesos-agent: each that Mesos documents is known, by a written rule."""

from __future__ import annotations

import json

import pytest

from mesos_gpu.agent.configuration import check_flags
from mesos_gpu.agent.flags import (
    COMMAND_LINE,
    ISOLATORS,
    ISOLATORS_IGNORED,
    OLD_NAMES,
    AgentFlags,
    settle_isolation,
)
from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import HelpAsked, parse_flags, strangers
from tests.support import places
from tests.support.golden import Golden

RECORDED = json.loads((places.RECORDED / "agent-get-idle.json").read_text())
# What Mesos' documentation of agents names (docs/configuration/agent.md, master-and-agent.md).
DOCUMENTED = [
    "master",
    "work_dir",
    "acls",
    "agent_features",
    "agent_subsystems",
    "effective_capabilities",
    "bounding_capabilities",
    "appc_simple_discovery_uri_prefix",
    "appc_store_dir",
    "attributes",
    "authenticate_http_executors",
    "authenticatee",
    "authentication_backoff_factor",
    "authentication_timeout_min",
    "authentication_timeout_max",
    "authorizer",
    "cgroups_cpu_enable_pids_and_tids_count",
    "cgroups_destroy_timeout",
    "cgroups_enable_cfs",
    "cgroups_hierarchy",
    "cgroups_limit_swap",
    "cgroups_net_cls_primary_handle",
    "cgroups_net_cls_secondary_handles",
    "allowed_devices",
    "cgroups_root",
    "check_agent_port_range_only",
    "container_disk_watch_interval",
    "container_logger",
    "container_ports_isolated_range",
    "container_ports_watch_interval",
    "containerizers",
    "credential",
    "default_container_dns",
    "default_container_info",
    "default_role",
    "default_container_shm_size",
    "disallow_sharing_agent_ipc_namespace",
    "disallow_sharing_agent_pid_namespace",
    "disk_profile_adaptor",
    "disk_watch_interval",
    "docker",
    "docker_config",
    "docker_ignore_runtime",
    "docker_kill_orphans",
    "docker_mesos_image",
    "docker_registry",
    "docker_remove_delay",
    "docker_socket",
    "docker_stop_timeout",
    "docker_store_dir",
    "docker_volume_checkpoint_dir",
    "docker_volume_chown",
    "domain_socket_location",
    "enforce_container_disk_quota",
    "enforce_container_ports",
    "executor_environment_variables",
    "executor_registration_timeout",
    "executor_reregistration_timeout",
    "executor_reregistration_retry_interval",
    "max_completed_executors_per_framework",
    "jwt_secret_key",
    "executor_shutdown_grace_period",
    "fetcher_cache_dir",
    "fetcher_cache_size",
    "fetcher_stall_timeout",
    "frameworks_home",
    "gc_delay",
    "gc_disk_headroom",
    "gc_non_executor_container_sandboxes",
    "hadoop_home",
    "host_path_volume_force_creation",
    "http_credentials",
    "http_command_executor",
    "http_executor_domain_sockets",
    "http_heartbeat_interval",
    "image_providers",
    "image_provisioner_backend",
    "image_gc_config",
    "ip6",
    "ip6_discovery_command",
    "isolation",
    "launcher",
    "launcher_dir",
    "master_detector",
    "nvidia_gpu_devices",
    "network_cni_plugins_dir",
    "network_cni_config_dir",
    "network_cni_root_dir_persist",
    "network_cni_metrics",
    "oversubscribed_resources_interval",
    "perf_duration",
    "perf_events",
    "perf_interval",
    "qos_controller",
    "qos_correction_interval_min",
    "reconfiguration_policy",
    "recover",
    "recovery_timeout",
    "registration_backoff_factor",
    "resource_estimator",
    "resources",
    "resource_provider_config_dir",
    "csi_plugin_config_dir",
    "revocable_cpu_low_priority",
    "runtime_dir",
    "sandbox_directory",
    "strict",
    "secret_resolver",
    "switch_user",
    "systemd_enable_support",
    "systemd_runtime_directory",
    "volume_gid_range",
    "ephemeral_ports_per_container",
    "eth0_name",
    "lo_name",
    "egress_rate_limit_per_container",
    "egress_unique_flow_per_container",
    "egress_flow_classifier_parent",
    "network_enable_socket_statistics_summary",
    "network_enable_socket_statistics_details",
    "network_enable_snmp_statistics",
    "seccomp_config_dir",
    "seccomp_profile_name",
    "xfs_project_range",
    "advertise_ip",
    "advertise_port",
    "authenticate_http_readonly",
    "authenticate_http_readwrite",
    "firewall_rules",
    "domain",
    "hooks",
    "hostname",
    "hostname_lookup",
    "http_authenticators",
    "ip",
    "ip_discovery_command",
    "modules",
    "modules_dir",
    "port",
    "zk_session_timeout",
    "quiet",
    "log_dir",
    "logbufsecs",
    "logging_level",
    "initialize_driver_logging",
    "external_log_file",
]


def parsed(*words: str, **environ: str) -> tuple[AgentFlags, list[str]]:
    return parse_flags(COMMAND_LINE, ["--work_dir=/w", *words], environ)


def test_every_documented_flag_is_known() -> None:
    assert {*DOCUMENTED, *OLD_NAMES} - COMMAND_LINE.known().keys() == set()


def test_an_isolator_is_supported_or_left_out() -> None:
    assert not ISOLATORS & set(ISOLATORS_IGNORED)


def test_the_flags_of_the_recorded_agent_are_taken_as_they_are() -> None:
    """A 1.12 agent with the gpu isolator, told to start as ours: every flag that it shows, as a unit file would."""
    shown = next(r["response"]["body"]["flags"] for r in RECORDED if "flags" in str(r["request"]))
    words = [f"--{name}={value}" for name, value in shown.items() if name not in ("help", "version")]
    flags, said = parsed(*words)
    kept, left_out = settle_isolation(flags.isolation)
    assert left_out == []
    check_flags(flags.replace(isolation=kept))
    told = {line.split()[0] for line in said}
    assert "--launcher" in told
    assert not told & {"--master", "--credential"}


def test_old_names_are_judged_as_the_new_ones(golden: Golden) -> None:
    with pytest.raises(BadFlag, match="executor_secret_key"):
        parsed("--executor_secret_key=/key")
    assert parsed("--slave_subsystems=memory")[1] == golden


def test_all_that_is_refused_is_said_at_once(golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        parsed("--hooks=org_x", "--log_dir=/var/log", "--csi_plugin_config_dir=/csi")
    text = str(refused.value)
    assert text == golden
    assert text.count("--") == 2
    assert "\n" not in text


def test_the_environment_of_a_unit_is_taken_too() -> None:
    given = {"MESOS_MASTER": "zk://z:2181/mesos", "MESOS_LOG_DIR": "/var/log/mesos"}
    assert parsed(**given)[0].master == "zk://z:2181/mesos"
    with pytest.raises(BadFlag, match="hooks"):
        parsed(**given, MESOS_HOOKS="x")


def test_isolators_are_kept_left_out_or_refused() -> None:
    kept, said = settle_isolation(("cgroups/cpu", "cgroups/blkio", "posix/mem", "gpu/nvidia"))
    assert kept == ("cgroups/cpu", "gpu/nvidia")
    assert [line.split()[1] for line in said] == ["cgroups/blkio", "posix/mem"]
    for name in ("network/port_mapping", "appc/runtime", "nonsense"):
        with pytest.raises(BadFlag, match=name):
            settle_isolation((name,))


def test_what_the_environment_has_besides_is_told(golden: Golden) -> None:
    known = COMMAND_LINE.known()
    environ = {"MESOS_WORK_DIR": "/x", "MESOS_NATIVE_JAVA_LIBRARY": "/y", "MESOS_FOO": "1", "LIBPROCESS_IP": "1.2.3.4"}
    said = strangers({**environ, "HOME": "/root", "LIBPROCESS_SSL_ENABLED": "true"}, known)
    assert said == golden
    ours = {"MESOS_URL": "http://127.0.0.1:5050", "MESOS_GPU_TOKEN": "t", "MESOS_GPU_WORK_DIR": "/x"}
    assert strangers(ours, known) == [], "what our command line reads is nobody's mistake"
    assert strangers({"MESOS_GPU_DRIVR": "nvml"}, known) == golden
    assert strangers({"LIBPROCESS_NUM_WORKER_THREADS": "8"}, known) == golden


def test_help_shows_what_this_agent_acts_on() -> None:
    with pytest.raises(HelpAsked) as asked:
        parsed("--help")
    assert "--nvidia_gpu_devices" in str(asked.value)
    assert "--hooks" not in str(asked.value)
