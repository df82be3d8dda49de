"""The flags of `mesos-gpu-agent`, by Mesos' names (src/slave/flags.cpp), and what they mean together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu.agent.api.access import AGENT_ACCESS_FLAGS, WALLS
from mesos_gpu.agent.decisions.collecting import WEEK_S
from mesos_gpu.agent.devices.settings import DEVICE_FLAGS, check_devices
from mesos_gpu.agent.gpus.sharing_settings import SHARING_FLAGS, check_sharing
from mesos_gpu.agent.mig.settings import MIG_FLAGS, check_mig
from mesos_gpu.agent.model.container_logger import LOGGER_FLAGS
from mesos_gpu.agent.running.networks import NETWORKS, default_dns
from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.wirings import WIRINGS
from mesos_gpu.mesos.dcos.switches import SWITCH_FLAGS
from mesos_gpu.mesos.flags import Flag, format_duration
from mesos_gpu.process.access import check_address
from mesos_gpu.process.browsers import HTTP_HOSTS
from mesos_gpu.process.peers import SAME_USER_PEERS

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
IMAGE_PROVIDERS = ("docker",)
POLICIES = ("equal", "additive")
GPU_UNHEALTHY_ACTIONS = ("notify", "kill")

MAX_REREGISTRATION_S = 15.0
SIMULATED = Make()

FLAGS: Sequence[Flag] = (
    Flag(
        "master",
        "text",
        None,
        "Where the master is: HOST:PORT, several with commas, or zk://HOST1:PORT1,HOST2:PORT2/PATH.",
    ),
    Flag("zk_session_timeout", "duration", 10.0, "ZooKeeper sessions end after this much silence."),
    Flag("ip", "text", "127.0.0.1", "Address to listen on."),
    Flag("advertise_ip", "text", None, "Address that others reach this agent at, when it is not --ip."),
    Flag("advertise_port", "integer", None, "Port that others reach this agent at, when it is not --port."),
    Flag("port", "integer", 5051, "Port to listen on; 0 takes a free one."),
    Flag("json_suffixes", "boolean", False, "Answer /state.json and its kin too, as Mesos did before 1.0."),
    HTTP_HOSTS,
    SAME_USER_PEERS,
    Flag("hostname", "text", None, "Name under which the agent is shown, and its URLs are made; default: its address."),
    Flag("insecure", "boolean", False, "Listen beyond this machine although callers need not show credentials."),
    Flag("work_dir", "path", None, "Folder for sandboxes and checkpoints; the agent is known by what lies here."),
    Flag("runtime_dir", "path", None, "Folder for what runs now, this agent's alone; default: WORK_DIR/run."),
    Flag("resources", "text", None, "What to offer, such as cpus:4;mem:8192;gpus:2; what is not named is detected."),
    Flag("attributes", "text", None, "What else schedulers should know, such as rack:r1;gpu_model:a100."),
    Flag(
        "gpu_attributes",
        "boolean",
        True,
        "Tell schedulers about the GPUs as attributes: gpu_model, gpu_memory_mib, gpu_driver, gpu_count, gpu_nvlink. "
        "Those that --attributes names stay as they are.",
    ),
    Flag("default_role", "text", "*", "Role of resources that name none."),
    Flag(
        "user_privileges",
        "boolean",
        True,
        "As in Mesos, tasks of users other than root get the capabilities that they ask for, and programs with a "
        "set-user-ID bit work. With --no-user_privileges neither is so: who runs tasks as himself gains nothing by it.",
    ),
    Flag("isolation", "list", DEFAULT_ISOLATION, "Isolators; gpu/nvidia is the one that hands out GPUs."),
    Flag("nvidia_gpu_devices", "list", None, "GPUs to use, by index or UUID; needs gpus in --resources."),
    *SWITCH_FLAGS,
    Flag("gpu_driver", "text", "auto", "nvml, simulated, none, or auto: nvml where it answers."),
    Flag("simulated_gpus", "integer", 4, "How many GPUs the simulated driver has."),
    Flag("simulated_gpu_machine", "integer", 0, "Simulated GPUs of another machine number have other UUIDs."),
    Flag("simulated_gpu_model", "text", SIMULATED.model, "Model name of simulated GPUs."),
    Flag("simulated_gpu_memory", "bytes", None, "Memory of each simulated GPU, such as 15109MB; default: 16384MB."),
    Flag(
        "simulated_gpu_driver_version",
        "text",
        SIMULATED.driver_version,
        "Which version of the driver simulated GPUs show; images may ask for one.",
    ),
    Flag(
        "simulated_gpu_topology",
        "text",
        SIMULATED.topology,
        f"How simulated GPUs are connected: as in a machine of {', '.join(WIRINGS)}.",
    ),
    Flag("simulated_gpu_faults", "path", None, "File that says which simulated GPUs are unhealthy."),
    Flag(
        "check_invariants",
        "boolean",
        False,
        "Debug: compare the GPU ledger with the holders of GPUs after every change; log an error if they differ.",
    ),
    *MIG_FLAGS,
    Flag(
        "gpu_unhealthy_action",
        "text",
        "notify",
        "A task whose GPU is unhealthy: notify tells its owner, kill ends it.",
    ),
    Flag(
        "gpu_retest_interval",
        "duration",
        None,
        "How often withdrawn GPUs that are free are tested; default: never.",
    ),
    Flag(
        "cdi_spec_dir",
        "path",
        None,
        "Folder for a CDI file of the GPUs, such as /var/run/cdi: podman and others take them by name; default: none.",
    ),
    *SHARING_FLAGS,
    *DEVICE_FLAGS,
    Flag("image_providers", "list", (), "Kinds of images that tasks may run in: docker, or none."),
    Flag(
        "docker_registry",
        "text",
        "https://registry-1.docker.io",
        "Where images come from: a registry's URL, /FOLDER of `docker save` archives, or file:/FOLDER of OCI layouts.",
    ),
    Flag("docker_config", "text", None, "Credentials for registries: Docker's config.json, or the path of one."),
    Flag("docker_store_dir", "path", None, "Folder for images, this agent's alone; default: WORK_DIR/store/docker."),
    Flag("docker_pull_timeout", "duration", 3600.0, "How long the pull of an image may take."),
    Flag("sandbox_directory", "text", "/mnt/mesos/sandbox", "Where tasks in images see their sandbox."),
    Flag(
        "network_cni_config_dir",
        "path",
        None,
        "Folder of CNI configurations: the networks that tasks may join by name. For network/cni in --isolation.",
    ),
    Flag(
        "http_executor_domain_sockets",
        "boolean",
        False,
        "Give all executors without an image a socket file to reach the agent at (MESOS_DOMAIN_SOCKET), not only those "
        "in networks of their own.",
    ),
    Flag("domain_socket_location", "path", None, "That file; default: RUNTIME_DIR/agent.sock."),
    Flag(
        "default_container_dns",
        "text",
        None,
        "JSON with the nameservers of networks whose plugins name none: "
        '{"mesos": [{"network_mode": "CNI", "network_name": "n", "dns": {"nameservers": ["10.0.0.1"]}}]}.',
    ),
    Flag("network_cni_plugins_dir", "text", None, "Folders of CNI plugins, with colons between them."),
    Flag(
        "network_cni_root_dir_persist",
        "boolean",
        False,
        "Keep what is known of containers' networks in --work_dir, so that they are left even after a reboot.",
    ),
    Flag("switch_user", "boolean", True, "Run tasks as the user that they or their framework name."),
    Flag(
        "executor_environment_variables",
        "text",
        None,
        'JSON object of variables for every task, such as {"LANG": "C.UTF-8"}; tasks and Mesos may set others.',
    ),
    Flag("gc_delay", "duration", WEEK_S, "How long what ended runs left (sandboxes, checkpoints) stays on the disk."),
    Flag(
        "gc_disk_headroom",
        "number",
        0.1,
        "Share of the disk to keep free: gc_delay is shortened to gc_delay * max(0, 1 - gc_disk_headroom - usage).",
    ),
    Flag("disk_watch_interval", "duration", 60.0, "How often the usage of the disk is looked at, for gc_delay."),
    Flag(
        "gc_non_executor_container_sandboxes",
        "boolean",
        False,
        "Collect sandboxes of containers launched by the API gc_delay after their end, not with their parent's.",
    ),
    Flag("container_disk_watch_interval", "duration", 15.0, "How often disk/du measures sandboxes."),
    Flag("enforce_container_disk_quota", "boolean", False, "End tasks whose sandbox exceeds their disk (disk/du)."),
    Flag(
        "external_log_file", "path", None, "The file that this program's stderr goes to; /files shows it as /slave/log."
    ),
    *LOGGER_FLAGS,
    Flag("frameworks_home", "path", None, "Folder that relative paths among a command's URIs are in."),
    Flag("fetcher_cache_dir", "path", None, "The fetcher's cache, emptied at start; default: WORK_DIR/fetch."),
    Flag("fetcher_cache_size", "bytes", 2 << 30, "How much the fetcher's cache may hold."),
    Flag("fetcher_stall_timeout", "duration", 60.0, "A download that receives no data for this long has failed."),
    Flag(
        "image_gc_max_size",
        "bytes",
        None,
        "Remove unused images, oldest first, until the store is below; default: never.",
    ),
    Flag("image_gc_max_age", "duration", None, "Images unused for longer are removed; default: never."),
    Flag("image_gc_interval", "duration", 3600.0, "How often unused images are searched for."),
    Flag(
        "seccomp_config_dir",
        "path",
        None,
        "Folder of Seccomp profiles in Docker's format, which tasks name by their path in it.",
    ),
    Flag(
        "seccomp_profile_name",
        "text",
        None,
        "The one of them that containers have which name none; unconfined: none; default: Docker's, with what GPU "
        "programs need.",
    ),
    Flag(
        "container_pids_limit",
        "integer",
        None,
        "How many processes and threads a container may have, 0: any number; default: 32768, or half of kernel.pid_max "
        "where that is less.",
    ),
    Flag(
        "apparmor_profile",
        "text",
        None,
        "The AppArmor profile that containers run under, such as docker-default; it has to be loaded; default: none.",
    ),
    Flag(
        "userns_remap",
        "text",
        None,
        "FIRST:COUNT, such as 1879048192:16777216: each container has a user namespace, whose users are numbers of the "
        "host that own nothing there and that no other container has; or USER, USER:GROUP or default (mesos-gpu): what "
        "/etc/subuid and /etc/subgid give them; default: containers' users are the host's.",
    ),
    Flag(
        "userns_remap_size",
        "integer",
        65536,
        "How many numbers of --userns_remap each container has, a multiple of 65536; all share one range where two do "
        "not fit.",
    ),
    Flag(
        "userns_remap_exempt",
        "boolean",
        False,
        "Let tasks with the label USERNS=host do without the user namespace of --userns_remap, if run_tasks lets their "
        "framework's principal run tasks as root.",
    ),
    Flag("cgroups_root", "text", "mesos", "Name of the cgroup that containers are put under."),
    Flag("cgroups_enable_cfs", "boolean", False, "Hold containers to their CPUs even when others are idle."),
    Flag(
        "executor_registration_timeout",
        "duration",
        60.0,
        "How long an executor may take to subscribe, once its container runs.",
    ),
    Flag(
        "executor_reregistration_timeout",
        "duration",
        2.0,
        "How long executors may take to subscribe again after a restart of the agent: 15secs at most.",
    ),
    Flag("executor_shutdown_grace_period", "duration", 5.0, "How long an executor may take to end when told to."),
    Flag("recovery_timeout", "duration", 900.0, "How long executors go on without an agent; told to them."),
    Flag(
        "credential",
        "path",
        None,
        "File with this agent's credential for the master: "
        '{"principal": ..., "secret": ...}; default: no authentication.',
    ),
    *AGENT_ACCESS_FLAGS,
    Flag("authentication_backoff_factor", "duration", 1.0, "Base of the delays between tries to authenticate."),
    Flag("authentication_timeout_min", "duration", 5.0, "How long the master may at least take to authenticate."),
    Flag("authentication_timeout_max", "duration", 60.0, "How long it may take at most, after many tries."),
    Flag("registration_backoff_factor", "duration", 1.0, "Base of the delays between tries to register."),
    Flag(
        "trace_launches",
        "boolean",
        False,
        "Write the stages of each launch and end of a container to the log, with what each took, in milliseconds.",
    ),
    Flag("reconfiguration_policy", "text", "equal", "What may change between restarts: equal (nothing) or additive."),
)


def check_flags(flags: Mapping[str, Any]) -> None:
    """Refuse what cannot work together, for GPUs by Mesos' rules. Raises BadFlag.

    Source: Mesos src/slave/containerizer/mesos/isolators/gpu/isolator.cpp.
    """
    if not flags["work_dir"]:
        raise BadFlag("work_dir", "is needed: a folder for sandboxes and checkpoints, for example /var/lib/mesos")
    _check_collection(flags)
    if flags["reconfiguration_policy"] not in POLICIES:
        raise BadFlag("reconfiguration_policy", f"must be one of {', '.join(POLICIES)}")
    if not 0 <= flags["port"] <= 65535:
        raise BadFlag("port", f"{flags['port']} is not a port: 0 to 65535")
    if flags["advertise_port"] is not None and not 0 < flags["advertise_port"] <= 65535:
        raise BadFlag("advertise_port", f"{flags['advertise_port']} is not a port: 1 to 65535")
    _check_isolation(flags["isolation"])
    if not 0 < flags["executor_reregistration_timeout"] <= MAX_REREGISTRATION_S:
        raise BadFlag("executor_reregistration_timeout", f"must be over 0 and at most {MAX_REREGISTRATION_S:g} s")
    _check_gpu_care(flags)
    check_sharing(flags)
    check_mig(flags)
    check_devices(flags)
    _check_images(flags)
    _check_networks(flags)
    read_environment_flag(flags["executor_environment_variables"])
    check_address(flags, WALLS, reached_by="the master reaches this agent", credentials="http_credentials")


def _check_collection(flags: Mapping[str, Any]) -> None:
    if not 0 <= flags["gc_disk_headroom"] <= 1:
        raise BadFlag("gc_disk_headroom", "must be between 0.0 and 1.0")
    if flags["disk_watch_interval"] <= 0:
        raise BadFlag("disk_watch_interval", "must be longer than 0")


def _check_gpu_care(flags: Mapping[str, Any]) -> None:
    if flags["gpu_unhealthy_action"] not in GPU_UNHEALTHY_ACTIONS:
        raise BadFlag("gpu_unhealthy_action", f"must be one of {', '.join(GPU_UNHEALTHY_ACTIONS)}")
    interval_s = flags["gpu_retest_interval"]
    if interval_s is not None and interval_s <= 0:
        raise BadFlag("gpu_retest_interval", "must be longer than 0; leave it out for never")


def _check_networks(flags: Mapping[str, Any]) -> None:
    """As Mesos' network/cni: both folders, or neither, and then no network can be joined. Raises BadFlag."""
    default_dns(flags)
    if NETWORKS not in flags["isolation"]:
        return
    config, plugins = flags["network_cni_config_dir"], flags["network_cni_plugins_dir"]
    for missing, name in ((config, "network_cni_config_dir"), (plugins, "network_cni_plugins_dir")):
        if not missing and (config or plugins):
            raise BadFlag(name, f"the isolator {NETWORKS} needs it, too")
    if config and not Path(config).is_dir():
        raise BadFlag("network_cni_config_dir", f"'{config}' is not a folder of CNI configurations")


def _check_images(flags: Mapping[str, Any]) -> None:
    strange = [name for name in flags["image_providers"] if name not in IMAGE_PROVIDERS]
    if strange:
        raise BadFlag("image_providers", f"{', '.join(strange)} is not supported: only docker")
    if flags["image_providers"] and "docker/runtime" not in flags["isolation"]:
        raise BadFlag("isolation", "--image_providers=docker needs 'docker/runtime' in it")
    if not flags["sandbox_directory"].startswith("/") or ".." in flags["sandbox_directory"].split("/"):
        raise BadFlag("sandbox_directory", "must be an absolute path without '..'")
    for name in ("docker_pull_timeout", "image_gc_interval", "fetcher_stall_timeout", "container_disk_watch_interval"):
        if flags[name] <= 0:
            raise BadFlag(name, "must be longer than 0")


def read_environment_flag(text: str | None) -> dict[str, str]:
    """Return the variables of --executor_environment_variables. Raises BadFlag when it is not an object of texts."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise BadFlag("executor_environment_variables", f"must be a JSON object of texts: {error}") from None


def flags_as_text(flags: Mapping[str, Any]) -> dict[str, str]:
    """Return flags as /flags and /state show them: text, without those that are not set."""
    kinds = {flag.name: flag.kind for flag in FLAGS}
    return {name: _text(kinds.get(name, "text"), value) for name, value in sorted(flags.items()) if value is not None}


def _text(kind: str, value: Any) -> str:
    if kind == "duration":
        return format_duration(value)
    if kind == "boolean":
        return str(value).lower()
    return ",".join(value) if kind == "list" else str(value)


def _check_isolation(isolation: Sequence[str]) -> None:
    twice = sorted({name for name in isolation if isolation.count(name) > 1})
    if twice:
        raise BadFlag("isolation", f"names {', '.join(twice)} more than once")
    if sum(name.startswith("filesystem/") for name in isolation) > 1:
        raise BadFlag("isolation", "names more than one filesystem isolator")
    if "gpu/nvidia" not in isolation:
        return
    if not {"cgroups/devices", "cgroups/all"} & set(isolation):
        raise BadFlag("isolation", "'gpu/nvidia' needs 'cgroups/devices' or 'cgroups/all' beside it")
    if "filesystem/linux" not in isolation:
        raise BadFlag("isolation", "'gpu/nvidia' needs 'filesystem/linux' beside it")
