"""What the flags of `mesos-gpu-agent` mean together: read once, before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from mesos_gpu.agent.api.access import Access, open_access, protections
from mesos_gpu.agent.cluster.authentication import Patience
from mesos_gpu.agent.decisions.collecting import GcRules
from mesos_gpu.agent.fetch.fetcher import FetcherSettings
from mesos_gpu.agent.flags import SIMULATED, AgentFlags
from mesos_gpu.agent.gpus.sharing_settings import SharingSettings, check_sharing, sharing_settings
from mesos_gpu.agent.model.cdi_names import EVERY, GPUS
from mesos_gpu.agent.model.container_logger import ContainerLogger, read_logger
from mesos_gpu.agent.model.device_units import is_units
from mesos_gpu.agent.model.executors import ExecutorPatience
from mesos_gpu.agent.model.namespace_exits import NamespaceExits
from mesos_gpu.agent.running.hardening import open_exits, open_hardening, open_user_namespaces
from mesos_gpu.agent.running.images import ImageSettings, image_settings
from mesos_gpu.agent.running.networks import NETWORKS, NetworkSettings, default_dns, domain_socket, network_settings
from mesos_gpu.cdi.applying import is_kind
from mesos_gpu.container.host.disk import DiskRules
from mesos_gpu.container.life.profiles import Profiles
from mesos_gpu.container.spec.hardening import Hardening
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.errors import BadFlag, BadInput
from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.mig_layout import read_wanted
from mesos_gpu.mesos.flags import flags_as_text
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.security.cram_md5 import Credential, read_credential
from mesos_gpu.mesos.units import MIB
from mesos_gpu.process.access import check_address
from mesos_gpu.process.browsers import Names, names_of
from mesos_gpu.process.program import read_secret

GPU_ISOLATOR = "gpu/nvidia"
_LONGEST_PATH = 107
"""Of a socket file, in bytes: sockaddr_un."""


class Address(Struct, frozen=True):
    """Where to listen, and where others reach that when it is not the same."""

    ip: str
    port: int
    advertise_ip: str | None
    advertise_port: int | None
    hostname: str | None
    """Under which name the agent is shown; None: its address."""
    names: Names
    """Under which names web pages may call it."""
    same_user_peers: bool
    """Messages are taken from programs of root and of the agent's user alone."""
    domain_socket: Path | None
    """Where executors reach the agent that cannot use its address, or must not."""

    @property
    def reached_at(self) -> str:
        """Return the address that others reach it at."""
        return self.advertise_ip or self.ip


class MasterSettings(Struct, frozen=True):
    """Where the master is found, who to be to it, and how patiently."""

    where: str | None
    session_timeout_s: float
    credential: Credential | None
    patience: Patience
    registration_backoff_s: float


class ResourceSettings(Struct, frozen=True):
    """What the agent has, as far as flags say so: texts in Mesos' forms."""

    resources: str | None
    default_role: Role
    attributes: str | None
    policy: str
    """What of it may change between restarts: a `--reconfiguration_policy`."""


class GpuSettings(Struct, frozen=True):
    """Which GPUs are used, by which driver, and what is done when one is unhealthy. `isolated`: any is given."""

    isolated: bool
    devices: tuple[str, ...] | None
    """By index or UUID; None: as many as --resources names."""
    driver: str
    simulated: int
    simulated_machine: int
    simulated_make: Make
    simulated_faults: Path | None
    mig_strategy: str
    mig_profiles: Mapping[str, str]
    """How GPUs in MIG mode are to be divided, by index or UUID."""
    attributes: bool
    """Schedulers are told about them as attributes of the agent."""
    kill_for_ill: bool
    retest_interval_s: float | None
    cdi_spec_dir: Path | None
    """Where engines that know CDI are told of the GPUs; None: nowhere."""
    sharing: SharingSettings
    check_ledger: bool = False
    """The GPU ledger is compared with the holders of GPUs after every change."""


class TaskSettings(Struct, frozen=True):
    """What holds for every task and executor."""

    sandbox_directory: str
    switch_user: bool
    cfs_quota: bool
    cgroups_root: str
    executor_environment: Mapping[str, str]
    executors: ExecutorPatience
    domain_socket_for_all: bool
    disk: DiskRules | None
    hardening: Hardening
    profiles: Profiles
    """Those of system calls that tasks may name."""
    logger: ContainerLogger | None
    users: IdPool | None
    """The host's numbers of users in containers' user namespaces; None: containers have none."""
    exits: NamespaceExits


class FetchSettings(Struct, frozen=True):
    """Where what is fetched is kept, and how much of it."""

    folder: Path
    cache_bytes: int
    fetcher: FetcherSettings


class DeviceSettings(Struct, frozen=True):
    """Where plugins register (None: nowhere), which resource stands for `gpus` (None: none), how long they may be gone.

    `cdi_kinds` are those CDI devices that tasks may ask for, `cdi_folders` where their files are.
    """

    folder: Path | None
    gpus_from: str | None
    grace_s: float
    cdi_kinds: tuple[str, ...] = ()
    cdi_folders: tuple[Path, ...] = ()


class Configuration(Struct, frozen=True):
    """All that an agent is told."""

    work_dir: Path
    runtime_dir: Path
    address: Address
    master: MasterSettings
    access: Access
    resources: ResourceSettings
    gpus: GpuSettings
    devices: DeviceSettings
    """Of device plugins, None where none are hosted."""
    pod_resources: Path | None
    """The socket of a PodResources API, None for none."""
    tasks: TaskSettings
    images: ImageSettings | None
    networks: NetworkSettings
    fetch: FetchSettings
    gc: GcRules
    json_suffixes: bool
    log_file: str | None
    ready_file: str | None
    shown: Mapping[str, str]
    """The flags as /flags shows them."""


def read_configuration(flags: AgentFlags) -> Configuration:
    """Return what the flags come to, with the files of credentials and lists that they name. Raises BadFlag."""
    check_flags(flags)
    master = _master(flags)
    work_dir = Path(flags.work_dir).absolute()
    runtime_dir = Path(flags.runtime_dir or work_dir / "run").absolute()
    return Configuration(
        work_dir=work_dir,
        runtime_dir=runtime_dir,
        address=Address(
            ip=flags.ip,
            port=flags.port,
            advertise_ip=flags.advertise_ip,
            advertise_port=flags.advertise_port,
            hostname=flags.hostname,
            names=names_of(flags.hostname, flags.http_hosts),
            same_user_peers=flags.same_user_peers,
            domain_socket=domain_socket(flags, runtime_dir),
        ),
        master=master,
        access=open_access(flags),
        resources=ResourceSettings(
            flags.resources, Role(flags.default_role), flags.attributes, flags.reconfiguration_policy
        ),
        gpus=_gpus(flags),
        devices=_devices(flags),
        pod_resources=None if flags.pod_resources_socket is None else Path(flags.pod_resources_socket).absolute(),
        tasks=_tasks(flags),
        images=image_settings(flags, work_dir),
        networks=network_settings(flags, work_dir, runtime_dir),
        fetch=FetchSettings(
            folder=Path(flags.fetcher_cache_dir or work_dir / "fetch").absolute(),
            cache_bytes=flags.fetcher_cache_size,
            fetcher=FetcherSettings(flags.frameworks_home, flags.fetcher_stall_timeout),
        ),
        gc=gc_rules(flags),
        json_suffixes=flags.json_suffixes,
        log_file=flags.external_log_file,
        ready_file=flags.ready_file,
        shown=flags_as_text(flags),
    )


def gc_rules(flags: AgentFlags) -> GcRules:
    """Return the rules of collection that flags say."""
    return GcRules(
        delay_s=flags.gc_delay,
        headroom=flags.gc_disk_headroom,
        watch_interval_s=flags.disk_watch_interval,
        nested=flags.gc_non_executor_container_sandboxes,
    )


def _master(flags: AgentFlags) -> MasterSettings:
    credential = None
    if flags.credential is not None:
        credential = read_credential("credential", read_secret("credential", flags.credential))
    return MasterSettings(
        where=flags.master,
        session_timeout_s=flags.zk_session_timeout,
        credential=credential,
        patience=Patience(
            flags.authentication_timeout_min,
            flags.authentication_timeout_max,
            flags.authentication_backoff_factor,
        ),
        registration_backoff_s=flags.registration_backoff_factor,
    )


def _gpus(flags: AgentFlags) -> GpuSettings:
    return GpuSettings(
        isolated=GPU_ISOLATOR in flags.isolation,
        devices=flags.nvidia_gpu_devices,
        driver=flags.gpu_driver,
        simulated=flags.simulated_gpus,
        simulated_machine=flags.simulated_gpu_machine,
        simulated_make=_make(flags),
        simulated_faults=None if flags.simulated_gpu_faults is None else Path(flags.simulated_gpu_faults),
        mig_strategy=flags.mig_strategy,
        mig_profiles=divisions(flags.mig_profiles),
        attributes=flags.gpu_attributes,
        kill_for_ill=flags.gpu_unhealthy_action == "kill",
        retest_interval_s=flags.gpu_retest_interval,
        cdi_spec_dir=None if flags.cdi_spec_dir is None else Path(flags.cdi_spec_dir),
        sharing=sharing_settings(flags),
        check_ledger=flags.check_invariants,
    )


def _make(flags: AgentFlags) -> Make:
    memory = flags.simulated_gpu_memory
    return Make(
        model=flags.simulated_gpu_model,
        memory_mib=SIMULATED.memory_mib if memory is None else memory // MIB,
        driver_version=flags.simulated_gpu_driver_version,
        topology=flags.simulated_gpu_topology,
    ).checked(flags.simulated_gpus)


def _devices(flags: AgentFlags) -> DeviceSettings:
    return DeviceSettings(
        folder=None if flags.device_plugins_dir is None else Path(flags.device_plugins_dir).absolute(),
        gpus_from=flags.device_plugins_gpus,
        grace_s=flags.device_plugins_grace,
        cdi_kinds=flags.cdi_devices,
        cdi_folders=tuple(map(Path, flags.cdi_dirs)),
    )


def _tasks(flags: AgentFlags) -> TaskSettings:
    measured = bool({"disk/du", "posix/disk"} & set(flags.isolation))
    disk = DiskRules(flags.container_disk_watch_interval, flags.enforce_container_disk_quota)
    hardening, profiles = open_hardening(flags)
    return TaskSettings(
        sandbox_directory=flags.sandbox_directory,
        switch_user=flags.switch_user,
        cfs_quota=flags.cgroups_enable_cfs,
        cgroups_root=flags.cgroups_root,
        executor_environment=read_environment_flag(flags.executor_environment_variables),
        executors=ExecutorPatience(
            registration_s=flags.executor_registration_timeout,
            reregistration_s=flags.executor_reregistration_timeout,
            shutdown_s=flags.executor_shutdown_grace_period,
            recovery_s=flags.recovery_timeout,
        ),
        domain_socket_for_all=bool(flags.http_executor_domain_sockets),
        disk=disk if measured else None,
        hardening=hardening,
        profiles=profiles,
        logger=read_logger(flags),
        users=(users := open_user_namespaces(flags.userns_remap, flags.userns_remap_size)),
        exits=open_exits(users, allowed=flags.userns_remap_exempt),
    )


def check_flags(flags: AgentFlags) -> None:
    """Refuse flags that contradict each other, for GPUs by Mesos's rules. Raises BadFlag.

    Source: Mesos src/slave/containerizer/mesos/isolators/gpu/isolator.cpp.
    """
    _check_isolation(flags.isolation)
    check_sharing(flags)
    check_mig(flags)
    _check_devices(flags)
    _check_images(flags)
    _check_networks(flags)
    read_environment_flag(flags.executor_environment_variables)
    check_address(
        flags.ip,
        flags.advertise_ip,
        protections(flags),
        insecure=flags.insecure,
        reached_by="the master reaches this agent",
        credentials="http_credentials",
    )


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


def _check_networks(flags: AgentFlags) -> None:
    """As Mesos' network/cni: both folders, or neither, and then no network can be joined. Raises BadFlag."""
    default_dns(flags)
    if NETWORKS not in flags.isolation:
        return
    config, plugins = flags.network_cni_config_dir, flags.network_cni_plugins_dir
    for missing, name in ((config, "network_cni_config_dir"), (plugins, "network_cni_plugins_dir")):
        if not missing and (config or plugins):
            raise BadFlag(name, f"the isolator {NETWORKS} needs it, too")
    if config and not Path(config).is_dir():
        raise BadFlag("network_cni_config_dir", f"'{config}' is not a folder of CNI configurations")


def _check_devices(flags: AgentFlags) -> None:
    folder, gpus = flags.device_plugins_dir, flags.device_plugins_gpus
    if folder is not None and len(str(Path(folder).absolute() / "kubelet.sock").encode()) > _LONGEST_PATH:
        raise BadFlag("device_plugins_dir", f"is too long for the path of a socket in it ({_LONGEST_PATH} bytes)")
    for kind in flags.cdi_devices:
        if kind == GPUS:
            raise BadFlag("cdi_devices", f"{GPUS}: tasks ask for GPUs by their number, as gpus, and by no name")
        if kind != EVERY and not is_kind(kind):
            raise BadFlag("cdi_devices", f"'{kind}' is not a kind of CDI devices: vendor.com/class, or {EVERY}")
    pods = flags.pod_resources_socket
    if pods is not None and len(str(Path(pods).absolute()).encode()) > _LONGEST_PATH:
        raise BadFlag("pod_resources_socket", f"is too long for the path of a socket ({_LONGEST_PATH} bytes)")
    if gpus is None:
        return
    if folder is None:
        raise BadFlag("device_plugins_gpus", "needs --device_plugins_dir")
    if not is_units(gpus):
        raise BadFlag(
            "device_plugins_gpus", f"'{gpus}' is not a resource of a plugin: DOMAIN/NAME, such as nvidia.com/gpu"
        )
    if "gpu/nvidia" in flags.isolation:
        raise BadFlag(
            "device_plugins_gpus",
            "gpus come from plugins or from this agent, not from both: take 'gpu/nvidia' out of --isolation",
        )


def check_mig(flags: AgentFlags) -> None:
    """Refuse --mig_profiles if the instances would not be offered. Raises BadFlag."""
    if not divisions(flags.mig_profiles):
        return
    if flags.mig_strategy != "single":
        raise BadFlag("mig_profiles", "needs --mig_strategy=single: otherwise GPUs in MIG mode are left out")
    if "gpu/nvidia" not in flags.isolation:
        raise BadFlag("mig_profiles", "needs 'gpu/nvidia' in --isolation")
    if flags.nvidia_gpu_devices:
        raise BadFlag("mig_profiles", "cannot be with --nvidia_gpu_devices, whose instances would be others then")


def divisions(text: str | None) -> dict[str, str]:
    """Return the requested MIG instances of each GPU, by index or UUID. Raises BadFlag."""
    found: dict[str, str] = {}
    for part in (text or "").split(";"):
        if not part.strip():
            continue
        gpu, colon, division = (word.strip() for word in part.partition(":"))
        if not gpu or not colon:
            raise BadFlag("mig_profiles", f"'{part.strip()}' does not say GPU:PROFILE,...; write 0:3g.20gb,2x1g.5gb")
        if gpu in found:
            raise BadFlag("mig_profiles", f"names GPU {gpu} twice")
        try:
            read_wanted(division)
        except BadInput as error:
            raise BadFlag("mig_profiles", f"GPU {gpu}: {error}") from None
        found[gpu] = division
    return found


def _check_images(flags: AgentFlags) -> None:
    if flags.image_providers and "docker/runtime" not in flags.isolation:
        raise BadFlag("isolation", "--image_providers=docker needs 'docker/runtime' in it")
    if not flags.sandbox_directory.startswith("/") or ".." in flags.sandbox_directory.split("/"):
        raise BadFlag("sandbox_directory", "must be an absolute path without '..'")


def read_environment_flag(text: str | None) -> dict[str, str]:
    """Return the variables of --executor_environment_variables. Raises BadFlag when it is not an object of texts."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise BadFlag("executor_environment_variables", f"must be a JSON object of texts: {error}") from None
