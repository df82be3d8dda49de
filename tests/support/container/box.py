"""Real containers for tests, in cgroups and folders of the test's own, and what is left of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from mesos_gpu.base.linux.mounts import current_mounts
from mesos_gpu.container import ContainerConfig, Containerizer, open_containerizer
from mesos_gpu.container.life.provisioner import Images
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.config import ImageAsk, Volume
from mesos_gpu.container.spec.hardening import Hardening
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.isolation import NO_LABELS, Isolator
from mesos_gpu.container.spec.linux import USUAL, LinuxSettings
from mesos_gpu.container.spec.requirements import DriverFacts
from mesos_gpu.errors import Conflict, NotEnoughGpus
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.isolator.injection import ImageManifest
from mesos_gpu.isolator.plan import DEFAULT_PATH, LaunchPlan
from mesos_gpu.mesos.shares.gpu_shares import Share
from tests.support.container.waiting import until

MEM_BYTES = 64 << 20


TRY_ALL_GPUS = r"""
mkdir nodes
for number in 0 1 2 3; do
    mknod nodes/$number c 195 $number
    if ! message=$( { : < nodes/$number; } 2>&1 ); then echo "$number: ${message##*: }"; fi
done
"""
"""ENXIO: the cgroup let it through, and there is no driver behind it. EPERM: the cgroup refused."""


class FakeIsolator:
    """Counts GPUs as the real one does; a dict in memory stands for its files, so it can outlive a containerizer."""

    def __init__(self, gpus: int = 4, disk: dict[str, int] | None = None, plan: LaunchPlan | None = None) -> None:
        self.images: dict[str, ImageManifest | bool] = {}
        self.gpus, self.disk, self.plan = gpus, {} if disk is None else disk, plan or LaunchPlan()

    @property
    def free(self) -> int:
        return self.gpus - sum(self.disk.values())

    def recover(self, live: Collection[str]) -> frozenset[str]:
        return frozenset(self.disk) - frozenset(live)

    def prepare(
        self,
        container_id: str,
        gpus: int,
        *,
        image: ImageManifest | bool = False,
        labels: Mapping[str, str] = NO_LABELS,
        share: Share | None = None,
    ) -> LaunchPlan:
        self.images[container_id] = image
        if container_id in self.disk:
            raise Conflict(f"container {container_id} has already been prepared")
        if gpus > self.free:
            raise NotEnoughGpus(asked=gpus, free=self.free)
        self.disk[container_id] = gpus
        return self.plan

    def stale(self) -> Mapping[str, frozenset[DeviceNode]]:
        return {}

    def cleanup(self, container_id: str) -> None:
        self.disk.pop(container_id, None)


class Box:
    """A folder and a root cgroup, in which containerizers come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cgroups_root = folder, f"mesos-test-{uuid.uuid4().hex[:12]}"
        self.isolator = FakeIsolator()
        self._open: list[Containerizer] = []

    async def open(
        self,
        live: Collection[str] = (),
        *,
        isolator: Isolator | None = None,
        runtimes: tuple[str, ...] = ("crun", "runc"),
        images: Images | None = None,
        driver: DriverFacts | None = None,
        networks: Networks | None = None,
        users: IdPool | None = None,
        hardening: Hardening | None = None,
        cfs_quota: bool = False,
    ) -> Containerizer:
        """Return a containerizer over what earlier ones left; `live` is for its recover."""
        containerizer = await open_containerizer(
            runtime_dir=self.folder / "run",
            isolator=isolator or self.isolator,
            cgroups_root=self.cgroups_root,
            runtimes=runtimes,
            images=images,
            driver=driver,
            networks=networks,
            users=users,
            hardening=hardening,
            cfs_quota=cfs_quota,
        )
        self._open.append(containerizer)
        await containerizer.recover(live)
        return containerizer

    def config(
        self,
        name: str,
        *argv: str,
        shell: str | None = None,
        user: str | None = None,
        mem_bytes: int = MEM_BYTES,
        gpus: int = 0,
        image: ImageAsk | None = None,
        volumes: tuple[Volume, ...] = (),
        environment: Mapping[str, str] | None = None,
        linux: LinuxSettings = USUAL,
    ) -> ContainerConfig:
        """Return a container with a sandbox, running `argv`, or `shell` in a shell."""
        sandbox = self.folder / "sandboxes" / name
        sandbox.mkdir(parents=True, exist_ok=True)
        command = argv if shell is None else ("/bin/sh", "-c", shell)
        variables = {"PATH": DEFAULT_PATH} if environment is None else environment
        return ContainerConfig(
            name, sandbox, command, variables, user, 500, mem_bytes, gpus, image, volumes, linux=linux
        )

    def said(self, name: str, file: str = "stdout") -> str:
        """Return what a container wrote."""
        return (self.folder / "sandboxes" / name / file).read_text()

    def until_said(self, name: str, text: str) -> None:
        """Return when a container has written `text`."""
        path = self.folder / "sandboxes" / name / "stdout"
        until(lambda: path.exists() and text in path.read_text())

    def until_exit_file(self, name: str) -> None:
        """Return when a container's exit status has been written."""
        until((self.folder / "run" / "exits" / name).exists)

    async def close(self) -> None:
        """Destroy what is left of all containers, also those of other processes."""
        for containerizer in self._open:
            await containerizer.close()
        if self._open:
            last = await open_containerizer(
                runtime_dir=self.folder / "run", isolator=self.isolator, cgroups_root=self.cgroups_root
            )
            await last.recover(())
            await last.close()

    def leftovers(self, *, root_cgroup: bool = False) -> list[str]:
        """Return what still exists of containers: processes, mounts, cgroups, bundles.

        The root cgroup itself counts unless an open containerizer still has it.
        """
        mark = os.fsencode(str(self.folder))
        found = [
            f"process {entry.name}: {command!r}"
            for entry in Path("/proc").iterdir()
            if entry.name.isdecimal() and int(entry.name) != os.getpid() and mark in (command := _command(entry))
        ]
        found += [
            f"mount {line}"
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if str(self.folder) in line
        ]
        below = f"{self.cgroups_root}/*/" if root_cgroup else self.cgroups_root
        found += [
            f"cgroup {path}"
            for pattern in (below, f"*/{below}")
            for path in Path("/sys/fs/cgroup").glob(pattern)
            if path.is_dir()  # before Python 3.11, a pattern that ends in / matches files too
        ]
        found += [f"bundle {path}" for path in (self.folder / "run").glob("bundles/*")]
        found += [f"root {path}" for path in (self.folder / "run").glob("roots/*")]
        return found


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


IN_PURE_V2 = """
umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"
"""


def freeze(cgroups_root: str, container_id: str) -> Callable[[], bool]:
    """Stop a container as its root could who reached its cgroup: by a cgroup that it made in there, where it can.

    Return what tells whether the kernel has stopped all of it.
    """
    for mount in current_mounts():
        if mount.kind == "cgroup" and "freezer" in mount.options:
            own = Path(mount.path) / cgroups_root / container_id
            (own / "deeper").mkdir()
            for pid in (own / "cgroup.procs").read_text().split():
                (own / "deeper" / "cgroup.procs").write_text(pid)
            (own / "deeper" / "freezer.state").write_text("FROZEN")
            (own / "freezer.state").write_text("FROZEN")
            return lambda: (own / "freezer.state").read_text() == "FROZEN\n"
    (unified,) = [mount.path for mount in current_mounts() if mount.kind == "cgroup2"]
    folder = Path(unified) / cgroups_root / container_id
    (folder / "cgroup.freeze").write_text("1")
    return lambda: "frozen 1" in (folder / "cgroup.events").read_text()
