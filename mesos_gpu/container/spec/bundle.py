"""A container as an OCI runtime reads it: `config.json` of the OCI runtime specification 1.0.2. Pure.

Without an image a container's root is the host's own file system, as in Mesos; `mounts.mount_host_root` prepares it
once for all containers. Because a runtime creates missing mount points in the root it is given, which here would be on
the host itself, every mount point below exists on any host (/proc, /dev) or lies in the container's own /dev. In an
image they are made in the container's own writable layer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.config import ContainerConfig, Volume, covers_host, one_slash
from mesos_gpu.container.spec.hardening import USUAL_HARDENING, Hardening
from mesos_gpu.container.spec.linux import (
    UNLIMITED,
    capabilities_document,
    memory_document,
    rlimits_document,
    with_shm,
)
from mesos_gpu.container.spec.nesting import cgroup_of
from mesos_gpu.container.spec.runtime_spec import image_environment, merge
from mesos_gpu.container.spec.user_namespace import UserView
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.isolator.plan import DEFAULT_PATH, DeviceRule, LaunchPlan, bind_mount, device_rules

CAPABILITIES = (
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
)
"""What Docker leaves to a container by default. CAP_SYS_ADMIN is not in it: with it /sys could be made writable."""

NVIDIA_VOLUME = "/usr/local/nvidia"
"""Where a plan mounts the driver's files into an image."""

INIT_PATH = "/dev/init"
"""Where an image's container finds its init: in its own /dev, as all images have one there."""

HOST_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")
"""Where the host's network is the container's, these are the host's too."""

MIN_CPU_SHARES, SHARES_PER_CPU = 2, 1024
CFS_PERIOD_US, MIN_CFS_QUOTA_US = 100_000, 1_000
MIN_MEM_BYTES = 32 << 20
"""Mesos' floors; `slave/containerizer/mesos/isolators/cgroups/constants.hpp`."""


class HostSetting(Struct, frozen=True):
    """What is the same for all containers of one agent.

    `rootfs` is where the host's file system is mounted for containers; `init` the command that becomes process 1, to
    which the container's command is appended; `base_rules` are the devices every container may use; with `cfs_quota`
    a container gets no more CPU than it asked for even when the machine is idle (Mesos' --cgroups_enable_cfs);
    `controllers` are those of `cpu`, `memory` and `pids` that can be limited, a runtime fails at others. `image_init`
    is the init of containers in images: a program that needs no other file, and its arguments. `files` are those of
    HOST_FILES that are there. `private` are folders of the agent, with links resolved, that no volume may show.
    """

    rootfs: str
    cgroups_root: str
    init: tuple[str, ...]
    base_rules: tuple[DeviceRule, ...]
    cfs_quota: bool = False
    controllers: frozenset[str] = frozenset({"cpu", "memory", "pids"})
    image_init: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    hardening: Hardening = USUAL_HARDENING


class NetworkView(Struct, frozen=True):
    """What a container has of networks that is not the host's.

    `namespace` and `uts` are paths of namespaces to enter; None: of the former the host's, of the latter a new one, in
    which the host is called `hostname`. `files` are the container's own, with where they lie.
    """

    hostname: str
    namespace: str | None = None
    uts: str | None = None
    files: tuple[tuple[str, str], ...] = ()

    def namespaces(self) -> list[dict[str, str]]:
        """Return the namespaces as a runtime's configuration lists them."""
        own = {"type": "uts"} if self.uts is None else {"type": "uts", "path": self.uts}
        return [own] if self.namespace is None else [own, {"type": "network", "path": self.namespace}]

    def host_document(self) -> dict[str, str]:
        """Return the field of the configuration that names the host."""
        return {"hostname": self.hostname} if self.uts is None else {}

    def mounts(self, there: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return its files as mounts; `there` has those of the host, where none may be made, None in an image."""
        return [
            bind_mount(source, path, read_only=False) for path, source in self.files if there is None or path in there
        ]


class ImageRoot(Struct, frozen=True):
    """An image that is mounted at `path` for one container."""

    path: str
    config: ImageConfig


class _Surroundings(Struct, frozen=True):
    """What differs between a container on the host's files and one in an image."""

    root: str
    args: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str
    sandbox: str
    mounts: tuple[dict[str, Any], ...] = ()


def compose(
    config: ContainerConfig,
    plan: LaunchPlan,
    user: HostUser,
    host: HostSetting,
    image: ImageRoot | None = None,
    network: NetworkView | None = None,
    sandbox: str | None = None,
    users: UserView | None = None,
) -> dict[str, Any]:
    """Return the document of config.json; `image` is that of a config that asks for one.

    `sandbox` is where its sandbox is found by now, if it is in an image or has a user namespace, `users`. Raises
    ContainerError for a device node of `plan` outside /dev, BadInput when nothing says what to run.
    """
    around = _around(config, plan, host, image, sandbox, users)
    views = [] if network is None else [network]
    confined = _confined(user, host)
    capabilities = process_capabilities(config, user, host)
    document: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "process": {
            **_terminal(config),
            "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.groups)},
            "args": list(around.args),
            "env": [f"{name}={value}" for name, value in {"PATH": DEFAULT_PATH, **around.environment}.items()],
            "cwd": around.cwd,
            "capabilities": capabilities,
            **rlimits_document(config.linux),
            **host.hardening.process_document(no_new_privileges=confined or (user.uid != 0 and covers_host(config))),
        },
        "root": {"path": around.root, "readonly": False},
        **{name: value for view in views for name, value in view.host_document().items()},
        "mounts": [
            *(_own_devices(mount, users) for mount in with_shm(BASE_MOUNTS, config.linux)),
            *around.mounts,
            *_network_mounts(network, host, in_image=image is not None, remapped=users is not None),
        ],
        "linux": {
            "namespaces": [
                *({"type": kind} for kind in ("pid", "mount", "ipc", "cgroup")),
                *([] if users is None else [users.namespace()]),
                *(namespace for view in views for namespace in view.namespaces()),
            ],
            "cgroupsPath": f"/{host.cgroups_root}/{cgroup_of(config.container_id)}",
            "resources": _resources(config, host),
            "devices": [],
            **({} if users is None else users.ids.document()),
            "rootfsPropagation": "rslave",
            **host.hardening.linux_document(capabilities["bounding"]),
        },
    }
    # In a user namespace no runtime makes a node that opens: they are in its /dev already.
    document = (plan if users is None else dataclasses.replace(plan, nodes=())).to_oci(document)
    document["mounts"] += [_volume(volume, config, around.sandbox) for volume in config.volumes]
    return document


def _resources(config: ContainerConfig, host: HostSetting) -> dict[str, Any]:
    limits = {
        "cpu": cpu_limits(config.cpus_milli, cfs_quota=host.cfs_quota, limit_milli=config.linux.cpus_limit_milli),
        "memory": memory_document(config.linux, max(config.mem_bytes, MIN_MEM_BYTES)),
    }
    return {
        "devices": device_rules(host.base_rules),
        **{name: limit for name, limit in limits.items() if name in host.controllers},
        **(host.hardening.pids_document() if "pids" in host.controllers else {}),
    }


def _around(
    config: ContainerConfig,
    plan: LaunchPlan,
    host: HostSetting,
    image: ImageRoot | None,
    sandbox: str | None,
    users: UserView | None,
) -> _Surroundings:
    """Return what is around a container; that of one on the host's files is mounted only in a user namespace."""
    if image is None:
        around = str(config.sandbox) if users is None or users.around is None else users.around
        return _on_host(config, host, None if users is None else sandbox, around)
    return _in_image(config, plan, host, image, sandbox)


def _terminal(config: ContainerConfig) -> dict[str, Any]:
    if not config.terminal or config.window is None:
        return {"terminal": config.terminal}
    rows, columns = config.window
    return {"terminal": True, "consoleSize": {"height": rows, "width": columns}}


def _on_host(config: ContainerConfig, host: HostSetting, shown: str | None, around: str) -> _Surroundings:
    sandbox = str(config.sandbox)
    mounts = () if shown is None else (bind_mount(shown, around, read_only=False),)
    return _Surroundings(host.rootfs, (*host.init, *config.argv), config.environment, sandbox, sandbox, mounts)


def process_capabilities(config: ContainerConfig, user: HostUser, host: HostSetting) -> dict[str, list[str]]:
    """Return the capability sets that a container's first process starts with.

    A confined user gets no capability by asking for it; what was requested still limits the bounding set.
    """
    linux = config.linux
    if _confined(user, host):
        linux = replace(linux, effective=None, bounding=linux.effective if linux.bounding is None else linux.bounding)
    return capabilities_document(linux, CAPABILITIES)


def _confined(user: HostUser, host: HostSetting) -> bool:
    return user.uid != 0 and host.hardening.users_confined


def _in_image(
    config: ContainerConfig, plan: LaunchPlan, host: HostSetting, image: ImageRoot, sandbox: str | None
) -> _Surroundings:
    if config.image is None or not host.image_init:
        raise ValueError("an image for a container that asks for none, or on a host that has no init for images")
    init, *arguments = host.image_init
    injected = any(mount.destination == NVIDIA_VOLUME for mount in plan.mounts)
    return _Surroundings(
        image.path,
        (INIT_PATH, *arguments, *merge(config.image.command, image.config, config.labels)),
        image_environment(image.config, config.environment, injected=injected, labels=config.labels),
        image.config.workdir or config.image.sandbox,
        config.image.sandbox,
        (
            # Read-only there already.
            _mount("/sys", "bind", f"{host.rootfs}/sys", "rbind", "ro", "nosuid", "noexec", "nodev"),
            bind_mount(init, INIT_PATH, read_only=True),
            bind_mount(sandbox or str(config.sandbox), config.image.sandbox, read_only=False),
        ),
    )


def _network_mounts(
    network: NetworkView | None, host: HostSetting, *, in_image: bool, remapped: bool
) -> list[dict[str, Any]]:
    """Return the files that tell of the network, and where it is the container's own, /sys as it is seen from there.

    But not for who is `remapped` into a user namespace: the kernel shows it the /sys of its own networks alone.
    """
    own = [] if network is None else network.mounts(None if in_image else host.files)
    mounts = []
    if network is not None and network.namespace is not None and not remapped:
        mounts.append(_mount("/sys", "sysfs", "sysfs", "ro", "nosuid", "noexec", "nodev"))
    given = {mount["destination"] for mount in own}
    shared = [bind_mount(path, path, read_only=True) for path in host.files if in_image and path not in given]
    return [*mounts, CGROUPS, *shared, *own]


def _volume(volume: Volume, config: ContainerConfig, sandbox: str) -> dict[str, Any]:
    inside = not volume.destination.startswith("/")
    to = f"{sandbox}/{volume.destination}" if inside else one_slash(volume.destination)
    return bind_mount(str(config.sandbox / volume.source), to, volume.read_only)


def cpu_limits(cpus_milli: int, *, cfs_quota: bool, limit_milli: int | None = None) -> dict[str, int]:
    """Return the share of a busy machine and the most of an idle one: `limit_milli`, else `cfs_quota` holds it too."""
    shares = max(cpus_milli * SHARES_PER_CPU // 1000, MIN_CPU_SHARES)
    if limit_milli == UNLIMITED or (limit_milli is None and not cfs_quota):
        return {"shares": shares}
    quota = max((cpus_milli if limit_milli is None else limit_milli) * CFS_PERIOD_US // 1000, MIN_CFS_QUOTA_US)
    return {"shares": shares, "quota": quota, "period": CFS_PERIOD_US}


def _mount(destination: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


def _own_devices(mount: dict[str, Any], users: UserView | None) -> dict[str, Any]:
    """Return a mount of every container, or the /dev that was made for this one."""
    if users is None or mount["destination"] != "/dev":
        return mount
    return _mount("/dev", "bind", users.devices, "rbind", "rw", "nosuid", "noexec")


BASE_MOUNTS = (
    _mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
    # Device nodes must work here, so no nodev. The runtime fills it with null, zero, full, random, urandom and tty.
    _mount("/dev", "tmpfs", "tmpfs", "nosuid", "noexec", "strictatime", "mode=755", "size=65536k"),
    _mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
    # No size: half the memory, as on a host. Containers with 64 MiB here are the classic way to break GPU programs.
    _mount("/dev/shm", "tmpfs", "shm", "nosuid", "nodev", "mode=1777"),
    _mount("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"),
)
CGROUPS = _mount("/sys/fs/cgroup", "cgroup", "cgroup", "ro", "nosuid", "noexec", "nodev", "relatime")
"""The container's own cgroup as the root of all, over those of the host that come with its /sys."""
