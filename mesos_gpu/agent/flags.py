"""The flags of `mesos-gpu-agent`: Mesos's names and defaults, and those of Mesos that have no meaning here. Pure.

Source: Mesos src/slave/flags.cpp, docs/configuration/{agent,master-and-agent}.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.wirings import WIRINGS
from mesos_gpu.mesos.flags import (
    BOOLEAN,
    Bytes,
    CommandLine,
    Duration,
    InertFlag,
    OperatorFlags,
    PathText,
    flag,
    ignored,
    refused,
    required,
)
from mesos_gpu.mesos.shares.gpu_shares import MOST_SLICES
from mesos_gpu.mesos.shares.levels import WORDS, Level

DEFAULT_ISOLATION = (
    "cgroups/cpu",
    "cgroups/mem",
    "cgroups/devices",
    "filesystem/linux",
    "namespaces/pid",
    "docker/runtime",
    "gpu/nvidia",
    "network/cni",
)
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""Folders of CDI files, the last with the highest priority. Source: cncf-tags/container-device-interface README.md."""
SIMULATED = Make()
LOGGER, SANDBOX = "org_apache_mesos_LogrotateContainerLogger", "sandbox"
"""Values of --container_logger."""


class AgentFlags(OperatorFlags):
    """The flags that the agent acts on."""

    master: str | None = flag(
        None, "Where the master is: HOST:PORT, several with commas, or zk://HOST1:PORT1,HOST2:PORT2/PATH."
    )
    zk_session_timeout: Duration = flag(10.0, "ZooKeeper sessions end after this much silence.")
    advertise_ip: str | None = flag(None, "Address that others reach this agent at, when it is not --ip.")
    advertise_port: int | None = flag(
        None, "Port that others reach this agent at, when it is not --port.", at_least=1, at_most=65535
    )
    port: int = flag(5051, "Port to listen on; 0 takes a free one.", at_least=0, at_most=65535)
    hostname: str | None = flag(
        None, "Name under which the agent is shown, and its URLs are made; default: its address."
    )
    work_dir: PathText = required(
        "Folder for sandboxes and checkpoints; the agent is known by what lies here.",
        "a folder for sandboxes and checkpoints, for example /var/lib/mesos",
    )
    runtime_dir: PathText | None = flag(None, "Folder for what runs now, this agent's alone; default: WORK_DIR/run.")
    resources: str | None = flag(None, "What to offer, such as cpus:4;mem:8192;gpus:2; what is not named is detected.")
    attributes: str | None = flag(None, "What else schedulers should know, such as rack:r1;gpu_model:a100.")
    gpu_attributes: bool = flag(
        True,
        "Tell schedulers about the GPUs as attributes: gpu_model, gpu_memory_mib, gpu_driver, gpu_count, gpu_nvlink. "
        "Those that --attributes names stay as they are.",
    )
    default_role: str = flag("*", "Role of resources that name none.")
    user_privileges: bool = flag(
        True,
        "As in Mesos, tasks of users other than root get the capabilities that they ask for, and programs with a "
        "set-user-ID bit work. With --no-user_privileges neither is so: who runs tasks as himself gains nothing by it.",
    )
    isolation: tuple[str, ...] = flag(DEFAULT_ISOLATION, "Isolators; gpu/nvidia is the one that hands out GPUs.")
    nvidia_gpu_devices: tuple[str, ...] | None = flag(None, "GPUs to use, by index or UUID; needs gpus in --resources.")
    gpu_driver: str = flag("auto", "nvml, simulated, none, or auto: nvml where it answers.")
    simulated_gpus: int = flag(4, "How many GPUs the simulated driver has.")
    simulated_gpu_machine: int = flag(0, "Simulated GPUs of another machine number have other UUIDs.")
    simulated_gpu_model: str = flag(SIMULATED.model, "Model name of simulated GPUs.")
    simulated_gpu_memory: Bytes | None = flag(None, "Memory of each simulated GPU, such as 15109MB; default: 16384MB.")
    simulated_gpu_driver_version: str = flag(
        SIMULATED.driver_version, "Which version of the driver simulated GPUs show; images may ask for one."
    )
    simulated_gpu_topology: str = flag(
        SIMULATED.topology, f"How simulated GPUs are connected: as in a machine of {', '.join(WIRINGS)}."
    )
    simulated_gpu_faults: PathText | None = flag(None, "File that says which simulated GPUs are unhealthy.")
    check_invariants: bool = flag(
        False,
        "Debug: compare the GPU ledger with the holders of GPUs after every change; log an error if they differ.",
    )
    gpu_unhealthy_action: str = flag(
        "notify", "A task whose GPU is unhealthy: notify tells its owner, kill ends it.", one_of=("notify", "kill")
    )
    gpu_retest_interval: Duration | None = flag(
        None, "How often withdrawn GPUs that are free are tested; default: never.", above=0
    )
    cdi_spec_dir: PathText | None = flag(
        None,
        "Folder for a CDI file of the GPUs, such as /var/run/cdi: podman and others take them by name; default: none.",
    )
    image_providers: tuple[str, ...] = flag(
        (), "Kinds of images that tasks may run in: docker, or none.", one_of=("docker",)
    )
    docker_registry: str = flag(
        "https://registry-1.docker.io",
        "Where images come from: a registry's URL, /FOLDER of `docker save` archives, or file:/FOLDER of OCI layouts.",
    )
    docker_config: str | None = flag(None, "Credentials for registries: Docker's config.json, or the path of one.")
    docker_store_dir: PathText | None = flag(
        None, "Folder for images, this agent's alone; default: WORK_DIR/store/docker."
    )
    docker_pull_timeout: Duration = flag(3600.0, "How long the pull of an image may take.", above=0)
    sandbox_directory: str = flag("/mnt/mesos/sandbox", "Where tasks in images see their sandbox.")
    network_cni_config_dir: PathText | None = flag(
        None, "Folder of CNI configurations: the networks that tasks may join by name. For network/cni in --isolation."
    )
    http_executor_domain_sockets: bool | None = flag(
        None,
        "Give all executors without an image a socket file to reach the agent at (MESOS_DOMAIN_SOCKET), not only those "
        "in networks of their own; default: only where clients must show certificates "
        "(LIBPROCESS_SSL_REQUIRE_CLIENT_CERT), and credentials or tokens (all three --authenticate_http_ flags).",
    )
    domain_socket_location: PathText | None = flag(None, "That file; default: RUNTIME_DIR/agent.sock.")
    default_container_dns: str | None = flag(
        None,
        "JSON with the nameservers of networks whose plugins name none: "
        '{"mesos": [{"network_mode": "CNI", "network_name": "n", "dns": {"nameservers": ["10.0.0.1"]}}]}.',
    )
    network_cni_plugins_dir: str | None = flag(None, "Folders of CNI plugins, with colons between them.")
    network_cni_root_dir_persist: bool = flag(
        False, "Keep what is known of containers' networks in --work_dir, so that they are left even after a reboot."
    )
    switch_user: bool = flag(True, "Run tasks as the user that they or their framework name.")
    executor_environment_variables: str | None = flag(
        None, 'JSON object of variables for every task, such as {"LANG": "C.UTF-8"}; tasks and Mesos may set others.'
    )
    gc_delay: Duration = flag(604_800.0, "How long what ended runs left (sandboxes, checkpoints) stays on the disk.")
    gc_disk_headroom: float = flag(
        0.1,
        "Share of the disk to keep free: gc_delay is shortened to gc_delay * max(0, 1 - gc_disk_headroom - usage).",
        at_least=0,
        at_most=1,
    )
    disk_watch_interval: Duration = flag(60.0, "How often the usage of the disk is looked at, for gc_delay.", above=0)
    gc_non_executor_container_sandboxes: bool = flag(
        False, "Collect sandboxes of containers launched by the API gc_delay after their end, not with their parent's."
    )
    container_disk_watch_interval: Duration = flag(15.0, "How often disk/du measures sandboxes.", above=0)
    enforce_container_disk_quota: bool = flag(False, "End tasks whose sandbox exceeds their disk (disk/du).")
    external_log_file: PathText | None = flag(
        None, "The file that this program's stderr goes to; /files shows it as /slave/log."
    )
    frameworks_home: PathText | None = flag(None, "Folder that relative paths among a command's URIs are in.")
    fetcher_cache_dir: PathText | None = flag(None, "The fetcher's cache, emptied at start; default: WORK_DIR/fetch.")
    fetcher_cache_size: Bytes = flag(2 << 30, "How much the fetcher's cache may hold.")
    fetcher_stall_timeout: Duration = flag(60.0, "A download that receives no data for this long has failed.", above=0)
    image_gc_max_size: Bytes | None = flag(
        None, "Remove unused images, oldest first, until the store is below; default: never."
    )
    image_gc_max_age: Duration | None = flag(None, "Images unused for longer are removed; default: never.")
    image_gc_interval: Duration = flag(3600.0, "How often unused images are searched for.", above=0)
    seccomp_config_dir: PathText | None = flag(
        None, "Folder of Seccomp profiles in Docker's format, which tasks name by their path in it."
    )
    seccomp_profile_name: str | None = flag(
        None,
        "The one of them that containers have which name none; unconfined: none; default: Docker's, with what GPU "
        "programs need.",
    )
    container_pids_limit: int | None = flag(
        None,
        "How many processes and threads a container may have, 0: any number; default: 32768, or half of kernel.pid_max "
        "where that is less.",
        at_least=0,
    )
    apparmor_profile: str | None = flag(
        None,
        "The AppArmor profile that containers run under, such as docker-default; it has to be loaded; default: none.",
    )
    userns_remap: str | None = flag(
        None,
        "FIRST:COUNT, such as 1879048192:16777216: each container has a user namespace, whose users are numbers of the "
        "host that own nothing there and that no other container has; or USER, USER:GROUP or default (mesos-gpu): what "
        "/etc/subuid and /etc/subgid give them; default: containers' users are the host's.",
    )
    userns_remap_size: int = flag(
        65536,
        "How many numbers of --userns_remap each container has, a multiple of 65536; all share one range where two do "
        "not fit.",
    )
    userns_remap_exempt: bool = flag(
        False,
        "Let tasks with the label USERNS=host do without the user namespace of --userns_remap, if run_tasks lets their "
        "framework's principal run tasks as root.",
    )
    cgroups_root: str = flag("mesos", "Name of the cgroup that containers are put under.")
    cgroups_enable_cfs: bool = flag(False, "Hold containers to their CPUs even when others are idle.")
    executor_registration_timeout: Duration = flag(
        60.0, "How long an executor may take to subscribe, once its container runs."
    )
    executor_reregistration_timeout: Duration = flag(
        2.0,
        "How long executors may take to subscribe again after a restart of the agent: 15secs at most.",
        above=0,
        at_most=15,
    )
    executor_shutdown_grace_period: Duration = flag(5.0, "How long an executor may take to end when told to.")
    recovery_timeout: Duration = flag(900.0, "How long executors go on without an agent; told to them.")
    credential: PathText | None = flag(
        None,
        "File with this agent's credential for the master: "
        '{"principal": ..., "secret": ...}; default: no authentication.',
    )
    authentication_backoff_factor: Duration = flag(1.0, "Base of the delays between tries to authenticate.")
    authentication_timeout_min: Duration = flag(5.0, "How long the master may at least take to authenticate.")
    authentication_timeout_max: Duration = flag(60.0, "How long it may take at most, after many tries.")
    registration_backoff_factor: Duration = flag(1.0, "Base of the delays between tries to register.")
    trace_launches: bool = flag(
        False,
        "Write the stages of each launch and end of a container to the log, with what each took, in milliseconds.",
    )
    reconfiguration_policy: str = flag(
        "equal", "What may change between restarts: equal (nothing) or additive.", one_of=("equal", "additive")
    )
    mig_strategy: str = flag("none", "GPUs in MIG mode: none leaves them out, single gives each instance.")
    mig_profiles: str | None = flag(
        None,
        "How GPUs in MIG mode are divided when the agent starts, such as 0:3g.20gb,2x1g.5gb;1:7g.40gb; what is in use "
        "stays. Default: as they are.",
    )
    shared_gpus: tuple[str, ...] | None = flag(
        None,
        "GPUs, by index or UUID, that tasks share: they leave gpus and are offered as gpu_mem (GiB) and gpu_slices.",
    )
    gpu_share_policy: int = flag(
        1,
        "How tasks take turns on a shared GPU: 0 fair, 1 preemptive, 2 weighted preemptive, 3 fixed, 4 weak, 5 native.",
        at_least=0,
        at_most=5,
    )
    gpu_share_max_inst: int = flag(
        MOST_SLICES,
        "Into how many slices of compute a shared GPU is divided, 1 to 25; a task has as many as its weight.",
        at_least=1,
        at_most=MOST_SLICES,
    )
    gpu_share_slice: Duration = flag(0.02, "How long one slice of compute is, 5ms to 1secs.", at_least=0.005, at_most=1)
    gpu_share_prio_ratio: int = flag(
        90,
        "How many percent of a shared GPU tasks of high priority may take while they have work, 20 to 99.",
        at_least=20,
        at_most=99,
    )
    gpu_share_require: str = flag(
        Level.ADVISORY.word,
        "Refuse parts of GPUs whose memory is kept from others by less than this: mig, cgroup, mps, watcher, advisory.",
        one_of=WORDS,
    )
    gpu_share_memory_grace: Duration = flag(
        10.0, "How long a watched task may have more GPU memory than its part, after it was told."
    )
    gpu_share_mps_dir: PathText | None = flag(
        None,
        "A folder with a folder for each shared GPU, by index, in which the `pipe` and `shm` of its MPS daemon are.",
    )
    gpu_share_tree: PathText | None = flag(
        None,
        "Where the files of cGPU's /proc/cgpu_km are, to look at shares and change them; needs FUSE. Default: nowhere.",
    )
    device_plugins_dir: PathText | None = flag(
        None,
        "Host Kubernetes device plugins, of any vendor, that register at kubelet.sock in this folder; default: none.",
    )
    device_plugins_gpus: str | None = flag(
        None,
        "The resource of them whose devices are offered as gpus, such as nvidia.com/gpu; others keep their own names.",
    )
    device_plugins_grace: Duration = flag(
        300.0, "How long the devices of a plugin that is gone are remembered; none of them is given meanwhile."
    )
    cdi_devices: tuple[str, ...] = flag(
        (),
        "Kinds of CDI devices that tasks may ask for by name, such as vendor.com/class, or all; GPUs are asked for as "
        "gpus.",
    )
    cdi_dirs: tuple[str, ...] = flag(CDI_FOLDERS, "Folders with CDI files, the last with the highest priority.")
    pod_resources_socket: PathText | None = flag(
        None,
        "Tell node tools that know kubelets' PodResources API, such as dcgm-exporter, at this socket file which task "
        "has which GPU; default: nowhere.",
    )
    container_logger: str | None = flag(
        None,
        f"{LOGGER}: what tasks say is kept in files of limited size; {SANDBOX}: in files without a limit. Default: "
        "that, unless one of the next flags is given.",
        one_of=(SANDBOX, LOGGER),
    )
    modules: str | None = flag(None, f"Mesos' modules as JSON, of which {LOGGER} and its parameters are understood.")
    max_stdout_size: Bytes | None = flag(
        None, "How large a task's stdout may be, at least 4KB; a full one becomes stdout.1."
    )
    logrotate_stdout_options: str | None = flag(
        None,
        'How many of those are kept, and how, as for logrotate: "rotate 4", compress, delaycompress; default: none.',
    )
    max_stderr_size: Bytes | None = flag(None, "The same for stderr; either is 10MB where only the other is given.")
    logrotate_stderr_options: str | None = flag(None, "The same for stderr.")
    http_authenticators: tuple[str, ...] | None = flag(
        None, "How callers show who they are: basic, jwt; default: those that are needed.", one_of=("basic", "jwt")
    )
    http_credentials: PathText | None = flag(
        None,
        'File of the credentials of callers: {"credentials": [{"principal": ..., "secret": ...}]}, or a line for each.',
    )
    authenticate_http_executors: bool = flag(False, "Listen only to executors with the token they were given.")
    jwt_secret_key: PathText | None = flag(
        None,
        "File with the key that signs executors' tokens. Further files, after commas, contain earlier keys, whose "
        "tokens remain valid: /etc/mesos/new.key,/etc/mesos/old.key.",
    )
    authorizer: str = flag("local", "Authorizer that applies --acls: local.", one_of=("local",))


OLD_NAMES = {
    "slave_subsystems": "agent_subsystems",
    "allowed_capabilities": "effective_capabilities",
}
"""Names that Mesos still takes for newer ones."""

_NO_MODULES = "modules are C++ libraries; this agent loads none"
_NO_SHAPING = "the traffic of tasks is not shaped or classified: network/cni is the one network isolator"
_NO_STORAGE = "resource providers and CSI are not supported"

INERT: Sequence[InertFlag] = (
    # --- accepted: tuning, watching, logging ---
    *ignored("containers are made by an OCI runtime, found in PATH", "launcher_dir", "launcher"),
    *ignored("images become overlayfs mounts", "image_provisioner_backend"),
    *ignored("--image_gc_max_size and --image_gc_max_age say when images are removed", "image_gc_config"),
    *ignored("no executor process is started for a command", "executor_reregistration_retry_interval"),
    *ignored("updates are sent by the agent itself", "http_command_executor", kind=BOOLEAN),
    *ignored("150 are shown", "max_completed_executors_per_framework"),
    *ignored("events of executors are kept alive by TCP", "http_heartbeat_interval"),
    *ignored("nothing is fetched by hadoop", "hadoop_home"),
    *ignored("logs go to standard error, for journald", "log_dir", "logbufsecs", "logging_level"),
    *ignored("logs go to standard error, for journald", "quiet", "initialize_driver_logging", kind=BOOLEAN),
    *ignored("cgroups are found where they are mounted", "cgroups_hierarchy"),
    *ignored("a cgroup is waited for until it is empty", "cgroups_destroy_timeout"),
    *ignored("processes and threads are counted always", "cgroups_cpu_enable_pids_and_tids_count", kind=BOOLEAN),
    *ignored("nothing is revocable here", "revocable_cpu_low_priority", kind=BOOLEAN),
    *ignored("nothing is revocable here", "oversubscribed_resources_interval", "qos_correction_interval_min"),
    *ignored("perf is not sampled", "perf_events", "perf_interval", "perf_duration"),
    *ignored("conmon keeps containers out of the unit by itself", "systemd_runtime_directory"),
    *ignored("conmon keeps containers out of the unit by itself", "systemd_enable_support", kind=BOOLEAN),
    *ignored("the agent runs in the cgroup it was started in", "agent_subsystems"),
    *ignored("--hostname is used as it is, and by default the address", "hostname_lookup", kind=BOOLEAN),
    *ignored("no profiler is built in", "memory_profiling", kind=BOOLEAN),
    *ignored("records that a restarted agent cannot read are skipped and logged", "strict", kind=BOOLEAN),
    *ignored("there is no Docker daemon in between", "docker", "docker_socket", "docker_remove_delay"),
    *ignored("there is no Docker daemon in between", "docker_stop_timeout", "docker_volume_checkpoint_dir"),
    *ignored("there is no Docker daemon in between", "docker_kill_orphans", kind=BOOLEAN),
    *ignored("joins of networks are not counted", "network_cni_metrics", kind=BOOLEAN),
    *ignored("ports are not watched", "container_ports_watch_interval", "container_ports_isolated_range"),
    *ignored("ports are not watched", "check_agent_port_range_only", kind=BOOLEAN),
    *ignored("no statistics of networks", "network_enable_socket_statistics_summary", kind=BOOLEAN),
    *ignored("no statistics of networks", "network_enable_socket_statistics_details", kind=BOOLEAN),
    *ignored("no statistics of networks", "network_enable_snmp_statistics", kind=BOOLEAN),
    *ignored("no statistics of networks", "network_enable_rate_statistics", kind=BOOLEAN),
    *ignored("no statistics of networks", "network_rate_statistics_window", "network_rate_statistics_interval"),
    *ignored("no statistics of networks", "eth0_name", "lo_name", "network_link_speed"),
    *ignored("half the memory is /dev/shm, as on a host", "default_container_shm_size"),
    *ignored("there are no appc images", "appc_simple_discovery_uri_prefix", "appc_store_dir"),
    *ignored("agents have no IPv6 address in Mesos' protocol", "ip6", "ip6_discovery_command"),
    *ignored("every task has PIDs and IPC of its own", "disallow_sharing_agent_pid_namespace", kind=BOOLEAN),
    *ignored("every task has PIDs and IPC of its own", "disallow_sharing_agent_ipc_namespace", kind=BOOLEAN),
    # --- refused, unless the value means "without" ---
    *refused(_NO_MODULES, "modules_dir", "hooks", "master_detector"),
    *refused(_NO_MODULES, "resource_estimator", "qos_controller", "secret_resolver", "disk_profile_adaptor"),
    *refused(_NO_MODULES, "authenticatee", accepted=("crammd5",)),
    *refused(_NO_STORAGE, "resource_provider_config_dir", "csi_plugin_config_dir"),
    *refused("endpoints are not switched off one by one; --acls says who may use them", "firewall_rules"),
    *refused("it is --jwt_secret_key, as in Mesos since 1.5", "executor_secret_key"),
    *refused(_NO_SHAPING, "ephemeral_ports_per_container", "egress_rate_limit_per_container"),
    *refused(_NO_SHAPING, "egress_rate_per_cpu", "minimum_egress_rate_limit", "maximum_egress_rate_limit"),
    *refused(_NO_SHAPING, "egress_ceil_limit", "egress_burst", "egress_flow_classifier_parent"),
    *refused(_NO_SHAPING, "ingress_rate_limit_per_container", "ingress_rate_per_cpu", "minimum_ingress_rate_limit"),
    *refused(_NO_SHAPING, "maximum_ingress_rate_limit", "ingress_ceil_limit", "ingress_burst"),
    *refused(_NO_SHAPING, "cgroups_net_cls_primary_handle", "cgroups_net_cls_secondary_handles"),
    *refused(_NO_SHAPING, "ingress_isolate_existing_containers", accepted=("false",), kind=BOOLEAN),
    *refused(_NO_SHAPING, "egress_unique_flow_per_container", accepted=("false",), kind=BOOLEAN),
    *refused("ports are not watched", "enforce_container_ports", accepted=("false",), kind=BOOLEAN),
    *refused("disk quotas are those of disk/du", "xfs_project_range", "xfs_quota_headroom"),
    *refused("disk quotas are those of disk/du", "xfs_kill_containers", accepted=("false",), kind=BOOLEAN),
    *refused("containers' capabilities are not configurable", "effective_capabilities", "bounding_capabilities"),
    *refused("containers get their own GPUs' nodes and the standard ones only", "allowed_devices"),
    *refused("swap is not limited", "cgroups_limit_swap", accepted=("false",), kind=BOOLEAN),
    *refused("volumes keep their owners", "volume_gid_range"),
    *refused("volumes keep their owners", "docker_volume_chown", accepted=("false",), kind=BOOLEAN),
    *refused("folders of the host are not made for a volume", "host_path_volume_force_creation"),
    *refused("an image's runtime settings are applied", "docker_ignore_runtime", accepted=("false",), kind=BOOLEAN),
    *refused("the agent runs on the machine itself", "docker_mesos_image"),
    *refused("it is not added to containers", "default_container_info"),
    *refused("fault domains are not supported", "domain"),
    *refused("which capabilities are announced is not configurable", "agent_features"),
    *refused("containers outlive the agent; to end them, stop it with SIGUSR1", "recover", accepted=("reconnect",)),
    *refused("the address is not asked of a program; give --ip", "ip_discovery_command"),
    *refused("containers are made by UCR alone", "containerizers", accepted=("mesos", "mesos,docker", "docker,mesos")),
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


COMMAND_LINE = CommandLine("mesos-gpu-agent", "MESOS_", AgentFlags, INERT, OLD_NAMES)
