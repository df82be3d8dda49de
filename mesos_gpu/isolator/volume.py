"""The NVIDIA volume: driver files that a container needs to see, as one host directory per driver version."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mesos_gpu.base.file_locks import hold, holder
from mesos_gpu.base.files import hard_link_whole, link_whole, replacing, sync_folder, write_whole
from mesos_gpu.base.linux import libc
from mesos_gpu.base.linux.processes import all_pids
from mesos_gpu.errors import Conflict, Unavailable, of_want
from mesos_gpu.gpu.device import GpuDriver
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator.driver_files import CAPABILITIES
from mesos_gpu.isolator.driver_tree import FOLDERS, Entry, VolumeFile, VolumeLink, driver_tree, simulated_tree
from mesos_gpu.isolator.plan import BindMount, LaunchPlan

_log = logging.getLogger(__name__)

CONTAINER_PATH = "/usr/local/nvidia"
"""Where images made for NVIDIA's first docker plugin, and Mesos, expect the volume."""

_PREFIX, _ASIDE, _LOCK = "nvidia_", ".nvidia_", ".lock"
_BUILD_S = 120.0
_MUCH_MEMORY = 64 << 20
_COPY_BYTES = 1 << 20


class NvidiaVolume:
    """A volume on this host's disk, read-only to containers and shared by all of them.

    Source: Mesos src/slave/containerizer/mesos/isolators/gpu/volume.cpp. `is_nowhere_else` says
    that the host's own PATH lacks what is in it.
    """

    def __init__(self, host_path: Path, *, is_nowhere_else: bool = False) -> None:
        self.host_path, self.is_nowhere_else = host_path, is_nowhere_else

    @classmethod
    def create(
        cls,
        directory: Path,
        driver: GpuDriver,
        *,
        root: Path = Path("/"),
        capabilities: Collection[str] = CAPABILITIES,
    ) -> NvidiaVolume | None:
        """Return the volume `directory/nvidia_<version>`, built when it is not there; None without a driver.

        It is built aside and renamed whole, so it is never there in part. One that is there gets what it lacks, file
        by file; what it has beyond that stays, for containers may be using it. So do volumes of other driver versions
        that a process still uses; the others are removed. `directory` is this volume's alone. `root` is where the
        driver is installed, `capabilities` are those of NVIDIA_DRIVER_CAPABILITIES that the files are to serve. Files
        are links to the driver's where `directory` is on the same file system, else copies.

        Where `directory` lies on a filesystem that forbids execution, as /run often does, a tmpfs is mounted over it
        (needs root; call this after entering a private mount namespace and before the container's root filesystem is
        bound). Calls for one directory, also of other processes, run one after another. Raises Unavailable when the
        files cannot be written or could not be executed, Conflict when another process builds for more than 2 minutes.
        """
        if driver.version is None:
            return None
        simulated = driver.kind == "simulated"
        volume = cls((directory / f"{_PREFIX}{driver.version}").absolute(), is_nowhere_else=simulated)
        try:
            if simulated:
                simulation = driver if isinstance(driver, SimulatedDriver) else None
                boards = driver.gpus() if simulation is None else simulation.boards
                entries = simulated_tree(boards, driver.version, None if simulation is None else simulation.wiring)
            else:
                entries = driver_tree(root, driver.version, capabilities)
            directory.mkdir(parents=True, exist_ok=True)
            _allow_execution(directory, entries)
            with _alone(directory):
                for half_built in directory.glob(f"{_ASIDE}*"):
                    shutil.rmtree(half_built)
                if volume.host_path.is_dir():
                    _complete(volume.host_path, entries)
                else:
                    _build(volume.host_path, entries)
                _remove_unused(directory, volume.host_path.name)
        except OSError as error:
            raise Unavailable(f"cannot write the NVIDIA volume {volume.host_path}: {error}") from error
        return volume

    def plan(self, *, image: bool) -> LaunchPlan:
        """Return what makes a container see the volume: at its host path, or at /usr/local/nvidia over an image."""
        if not image:
            folders = {"PATH": ("bin",), "LD_LIBRARY_PATH": FOLDERS[1:]}
            return LaunchPlan(
                search_paths={name: tuple(f"{self.host_path}/{one}" for one in some) for name, some in folders.items()}
            )
        return LaunchPlan(
            mounts=(BindMount(str(self.host_path), CONTAINER_PATH),),
            search_paths={
                "PATH": (f"{CONTAINER_PATH}/bin",),
                # An image's own forward-compatible CUDA goes before the host's libraries, as in Mesos.
                "LD_LIBRARY_PATH": ("/usr/local/cuda/compat", f"{CONTAINER_PATH}/lib", f"{CONTAINER_PATH}/lib64"),
            },
        )


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Lock the directory of volumes during the block. Raises Conflict, OSError."""
    path = directory / _LOCK
    lock = hold(path, _BUILD_S)
    if lock is None:
        raise Conflict(
            f"process {holder(path) or 'unknown'} has been building the NVIDIA volume in {directory} for "
            f"{_BUILD_S:g} s: wait for it or stop it, or choose another folder"
        )
    try:
        yield
    finally:
        lock.close()


def _build(path: Path, entries: Iterable[Entry]) -> None:
    aside = path.with_name(f"{_ASIDE}{path.name.removeprefix(_PREFIX)}")
    try:
        _complete(aside, entries)
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_folder(path.parent)


def _complete(path: Path, entries: Iterable[Entry]) -> None:
    """Put each entry that is missing, or not as it should be, in its place below `path`, whole."""
    folders = {path, *(path / name for name in FOLDERS)}
    wrong = [entry for entry in entries if not _is_there(path, entry)]
    folders.update((path / entry.path).parent for entry in wrong)
    for folder in sorted(folders):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    for entry in wrong:
        place = path / entry.path
        if isinstance(entry, VolumeLink):
            link_whole(place, entry.target)
        elif isinstance(entry.source, bytes):
            write_whole(place, entry.source, mode=entry.mode, durable=False)
        else:
            _link_or_copy(entry.source, place, entry.mode)


def _is_there(path: Path, entry: Entry) -> bool:
    place = path / entry.path
    try:
        if isinstance(entry, VolumeLink):
            return place.is_symlink() and str(place.readlink()) == entry.target
        status = place.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o444 != 0o444:
            return False
        if isinstance(entry.source, bytes):
            return status.st_mode & 0o777 == entry.mode and place.read_bytes() == entry.source
        return status.st_size == entry.source.stat().st_size
    except FileNotFoundError:
        return False


def _link_or_copy(source: Path, place: Path, mode: int) -> None:
    """Put the file at `place` too. A link keeps it when an upgrade of the driver replaces the original."""
    if source.stat().st_mode & mode & 0o555 == mode & 0o555:
        try:
            hard_link_whole(place, source)
        except OSError:  # another file system, or one without links
            pass
        else:
            return
    with source.open("rb") as reader, replacing(place, mode=mode, durable=False) as writer:
        shutil.copyfileobj(reader, writer, _COPY_BYTES)


def _remove_unused(directory: Path, current: str) -> None:
    for old in directory.glob(f"{_PREFIX}*"):
        if old.name != current and old.is_dir() and not _in_use(old):
            _log.info("removing the NVIDIA volume of an earlier driver, %s", old)
            aside = old.rename(old.with_name(f"{_ASIDE}{old.name.removeprefix(_PREFIX)}"))
            shutil.rmtree(aside)


def _in_use(volume: Path) -> bool:
    """Return whether a process has the volume mounted, mapped a file of it or was started with it in a variable.

    Its last two names are looked for, since a mount is told by its path within its file system. Raises OSError where
    processes cannot be looked at, for want of descriptors or memory.
    """
    mark = os.fsencode(f"{volume.parent.name}/{volume.name}")
    for pid in all_pids():
        for name in ("mountinfo", "maps", "environ"):
            try:
                if mark in Path(f"/proc/{pid}/{name}").read_bytes():
                    return True
            except OSError as error:
                if of_want(error):
                    raise
                break  # it has ended, or is a kernel thread
    return False


def _allow_execution(directory: Path, entries: Iterable[Entry]) -> None:
    if not os.statvfs(directory).f_flag & os.ST_NOEXEC:
        return
    size = sum(
        len(entry.source) if isinstance(entry.source, bytes) else entry.source.stat().st_size
        for entry in entries
        if isinstance(entry, VolumeFile)
    )
    if size > _MUCH_MEMORY:
        _log.warning(
            "%s is on a filesystem that forbids execution, so %d MiB of memory are spent on the driver's files; a "
            "--runtime_dir on a filesystem mounted without noexec would save that",
            *(directory, size >> 20),
        )
    try:
        # Readable by all, executable, without devices and set-uid programs.
        options = f"mode=755,size={(size * 9 // 8 >> 20) + 1}m"
        libc.mount("tmpfs", directory, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options)
    except OSError as error:
        raise Unavailable(
            f"{directory} is on a filesystem that forbids execution, and mounting another over it failed: "
            f"{error.strerror}; choose a --runtime_dir on a filesystem mounted without noexec"
        ) from error
