"""Putting a containerizer together from what this machine has, and trying it."""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.container.cgroups import Cgroups, find_cgroups
from mesos_gpu.container.host.disk import DiskRules
from mesos_gpu.container.host.filters import Filters
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.runtime import RUNTIMES, Runtime, find_conmon, find_image_init, find_init, find_runtime
from mesos_gpu.container.life.containerizer import Containerizer
from mesos_gpu.container.life.execution import Executor
from mesos_gpu.container.life.profiles import Profiles
from mesos_gpu.container.life.provisioner import Images, Provisioner
from mesos_gpu.container.life.remapping import Remapping, reachable
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.bundle import HOST_FILES, HostSetting
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.container.spec.hardening import Hardening, usual_pids_limit
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.isolation import NO_LABELS, Isolator
from mesos_gpu.container.spec.requirements import DriverFacts
from mesos_gpu.container.spec.seccomp import read_machine
from mesos_gpu.container.state.checkpoints import ContainerRecords
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.errors import ContainerError, CutOff, NotEnoughGpus, NotFound, Unavailable
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.isolator.access import BASE_RULES
from mesos_gpu.isolator.injection import ImageManifest
from mesos_gpu.isolator.plan import DEFAULT_PATH, Change, DeviceRule, LaunchPlan
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share
from mesos_gpu.process.program import SHORT_OF

PROBE_MEM_BYTES = 64 << 20
NETWORKS = Path("isolators", "network", "cni")
"""Where Mesos keeps what it knows of containers' networks, below its own folder."""

log = logging.getLogger(__name__)


async def open_containerizer(
    *,
    runtime_dir: Path,
    isolator: Isolator,
    cgroups_root: str = "mesos",
    cfs_quota: bool = False,
    runtimes: tuple[str, ...] = RUNTIMES,
    images: Images | None = None,
    driver: DriverFacts | None = None,
    disk: DiskRules | None = None,
    networks: Networks | None = None,
    private: Collection[Path] = (),
    hardening: Hardening | None = None,
    profiles: Profiles | None = None,
    users: IdPool | None = None,
) -> Containerizer:
    """Return a containerizer that has run a container on this machine; call its `recover` next.

    All files lie below `runtime_dir`, which is this agent's alone; several agents may share `cgroups_root`. Without
    `images` no container runs in one; `driver` is what images are told about the GPUs' driver; with `disk`
    sandboxes are measured; `networks` are those that containers may join; nothing in `runtime_dir` and the `private`
    folders is shown to tasks that name it as a volume. `hardening` is by default that of `usual_hardening`, `profiles`
    are those that tasks may name. With `users` each container has a user namespace, whose users have numbers of this
    pool. Raises Unavailable, saying what is missing and how to get it:
    root, cgroups, an OCI runtime that works, conmon, an init.
    """
    if os.geteuid() != 0:
        raise Unavailable("containers need root, for cgroups and mounts: run the agent as root, for example with sudo")
    init, conmon = find_init(), find_conmon()
    image_init = () if images is None else find_image_init()
    cgroups = find_cgroups(cgroups_root.strip("/"))
    folder = runtime_dir.absolute()
    mounts = MountNamespace(folder / "host")
    try:
        cgroups.check()
        await mounts.open(cgroups_root.strip("/"))
        root, limited = cgroups_root.strip("/"), cgroups.controllers()
        for name in sorted({"cpu", "memory"} - limited):
            log.warning("this machine's cgroups cannot limit %s, so containers are not kept to theirs", name)
        files = tuple(path for path in HOST_FILES if Path(path).is_file())
        rules = tuple(BASE_RULES)
        hardened = hardening or usual_hardening()
        hidden = tuple(str(path.resolve()) for path in (folder, *private))
        host = HostSetting(
            str(mounts.rootfs), root, init, rules, cfs_quota, limited, image_init, files, hidden, hardened
        )
        if users is not None:
            _check_reachable(folder)
            log.info("user namespaces of containers: %s", users.words())
        parts = _Parts(host, conmon, cgroups, mounts, profiles or Profiles(), Filters(), users)
        runtime = await find_runtime(partial(_probe, parts, folder / "probe"), runtimes)
    except BaseException:
        mounts.close()
        cgroups.remove_root()
        raise
    provisioner, remapping = None, Remapping(users, mounts, folder / "bundles")
    if images is not None:
        provisioner = Provisioner(images, mounts, folder / "bundles", driver or DriverFacts(), remapping)
    networks = networks or Networks(folder / NETWORKS)
    return parts.build(runtime, isolator, folder, remapping, provisioner, disk, networks)


def _check_reachable(folder: Path) -> None:
    """Raise Unavailable where users of user namespaces cannot get to roots of containers in `folder`."""
    try:
        reachable(folder / "roots")
    except ContainerError as error:
        raise Unavailable(str(error)) from None


class _Parts(Struct, frozen=True):
    """What a containerizer needs beside a runtime and a folder."""

    host: HostSetting
    conmon: Path
    cgroups: Cgroups
    mounts: MountNamespace
    profiles: Profiles
    filters: Filters
    """What the probe's runtime has compiled is there for the first container."""
    users: IdPool | None
    thorough: set[str] = field(default_factory=set)
    """The runtimes that put a container into the cgroup2 tree beside version 1, too."""

    def build(
        self,
        runtime: Runtime,
        isolator: Isolator,
        folder: Path,
        remapping: Remapping,
        provisioner: Provisioner | None = None,
        disk: DiskRules | None = None,
        networks: Networks | None = None,
        *,
        thorough: bool = False,
    ) -> Containerizer:
        return Containerizer(
            host=self.host,
            conmon=Conmon(
                self.conmon,
                runtime,
                folder / "exits",
                self.mounts,
                self.filters,
                thorough=thorough or runtime.name in self.thorough,
            ),
            executor=Executor(runtime, self.mounts, self.cgroups),
            cgroups=self.cgroups,
            isolator=isolator,
            checkpoints=ContainerRecords(folder / "containers"),
            bundles=folder / "bundles",
            mounts=self.mounts,
            provisioner=provisioner,
            disk=disk,
            networks=networks or Networks(folder / NETWORKS),
            profiles=self.profiles,
            remapping=remapping,
        )


def usual_hardening() -> Hardening:
    """Return how containers on this machine are hardened by default."""
    machine = os.uname()
    found = Hardening(
        machine=read_machine(machine.machine, machine.release),
        pids_limit=usual_pids_limit(int(Path("/proc/sys/kernel/pid_max").read_text())),
    )
    if "\nSeccomp:" not in Path("/proc/self/status").read_text():
        log.warning("this kernel cannot filter system calls (CONFIG_SECCOMP_FILTER), so those of containers are not")
        return replace(found, seccomp=None)
    return found


async def _probe(parts: _Parts, folder: Path, runtime: Runtime) -> None:
    """Run `true` as any container is run. Raises ContainerError when it does not end well."""
    sandbox = folder / "sandbox"
    sandbox.mkdir(parents=True, exist_ok=True)
    # What lives of an earlier agent is not known yet: the probe has numbers that no container has.
    pool = None if parts.users is None else IdPool(parts.users.disk, parts.users.each)
    remapping = Remapping(pool, parts.mounts, folder / "bundles")
    tried = runtime.name == "crun"
    containerizer = parts.build(runtime, _NoIsolator(), folder, remapping, thorough=tried)
    try:
        await containerizer.recover(())  # a probe that was killed
        name = ContainerId(f"probe-{uuid.uuid4()}")
        config = ContainerConfig(name, sandbox, ("true",), {"PATH": DEFAULT_PATH}, None, 100, PROBE_MEM_BYTES, 0)
        await containerizer.launch(config)
        # By the runtime, if so; what has ended is not taken away before the next await.
        if tried and parts.cgroups.made_beside(name):
            parts.thorough.add(runtime.name)
        termination = await containerizer.wait(name)
        await containerizer.destroy(name)
        if termination.exit_code is None:
            raise CutOff(f"`true` in a container was killed ({termination})")
        if termination.exit_code != 0:
            said = (sandbox / "stderr").read_text(errors="replace").strip()
            raise ContainerError(f"`true` in a container ended with {termination}; it said {said!r}")
    except ContainerError as error:
        # A full or broken disk, no descriptor or no memory says nothing about the runtime.
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in SHORT_OF:
            raise CutOff(str(error)) from error
        raise
    finally:
        remapping.close()
        shutil.rmtree(folder, ignore_errors=True)


class _NoIsolator:
    """An isolator that has nothing to give."""

    def recover(self, live: Collection[ContainerId]) -> frozenset[ContainerId]:
        return frozenset()

    def prepare(
        self,
        container_id: ContainerId,
        gpus: int,
        *,
        image: ImageManifest | bool = False,
        labels: Mapping[str, str] = NO_LABELS,
        share: Share | None = None,
    ) -> LaunchPlan:
        return LaunchPlan()

    def isolate(self, container_id: ContainerId, pid: int, rules: Sequence[DeviceRule] = ()) -> None:
        pass

    def update(self, container_id: ContainerId, gpus: int, release: Collection[Gpu] | None = None) -> Change:
        raise NotEnoughGpus(asked=gpus, free=0)

    def stale(self) -> Mapping[ContainerId, frozenset[DeviceNode]]:
        return {}

    def revoke(self, container_id: ContainerId) -> Change:
        raise NotFound(f"there is no container {container_id}")

    def cleanup(self, container_id: ContainerId) -> None:
        pass
