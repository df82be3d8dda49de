"""What the NVIDIA volume of a driver has in it, and where each file of it comes from."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path

from mesos_gpu.gpu.device import Gpu
from mesos_gpu.gpu.wirings import Wiring
from mesos_gpu.isolator.driver_files import (
    LIBRARY_FOLDERS,
    LINKS,
    is_drivers,
    stem,
    wanted_binaries,
    wanted_libraries,
)
from mesos_gpu.isolator.elf import read_library
from mesos_gpu.isolator.ldcache import libraries
from mesos_gpu.simulated.libraries import CUDA, NVML, USE, simulated_library

_log = logging.getLogger(__name__)

_SCRIPT = Path(__file__).parent.parent / "gpu" / "smi"
FOLDERS = ("bin", "lib", "lib64")
_PROGRAM_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOST_LINKS = 40
_TABLE_TITLE = "#minor\tindex\tuuid\tname\tmemory_mib\tbus_id\tdriver_version\n"
_LINKS_TITLE = "#minor\tminor\tlevel\tnvlinks\n"


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """A file of the volume, by its path in there: a host's file, or bytes."""

    path: str
    source: Path | bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class VolumeLink:
    """A symbolic link of the volume."""

    path: str
    target: str


Entry = VolumeFile | VolumeLink


def simulated_tree(gpus: Sequence[Gpu], version: str, wiring: Wiring | None = None) -> tuple[Entry, ...]:
    """Return the files of the simulated driver: nvidia-smi, NVML and CUDA where there is a compiler, and the tables
    they read.
    """
    compiled = {name: simulated_library(name) for name in (NVML, CUDA)}
    use = simulated_library(USE)
    return (
        VolumeFile("bin/nvidia-smi", simulated_smi(), 0o755),
        *([] if use is None else [VolumeFile(f"bin/{USE}", use, 0o755)]),
        *(VolumeFile(f"lib64/{name}", bytes_, 0o755) for name, bytes_ in compiled.items() if bytes_ is not None),
        *([] if compiled[CUDA] is None else [VolumeLink("lib64/libcuda.so", CUDA)]),
        VolumeFile("gpus", gpu_table(gpus, version).encode()),
        *([] if wiring is None else [VolumeFile("links", link_table(gpus, wiring).encode())]),
    )


def simulated_smi() -> bytes:
    """Return the simulated nvidia-smi: one script, of the texts in `mesos_gpu/gpu/smi` by their numbers."""
    return b"\n".join(path.read_bytes() for path in sorted(_SCRIPT.glob("*.sh")))


def gpu_table(gpus: Iterable[Gpu], version: str | None) -> str:
    """Return the table that the simulated nvidia-smi and NVML read; its form is told at the head of that script."""
    rows = (
        (gpu.minor, gpu.index, gpu.uuid, gpu.name, gpu.memory_mib, gpu.bus_id, version)
        for gpu in sorted(gpus, key=lambda gpu: gpu.index)
    )
    # An empty field would be lost: a shell takes several tabs for one.
    lines = ("\t".join("-" if value is None else str(value) for value in row) + "\n" for row in rows)
    return _TABLE_TITLE + "".join(lines)


def link_table(gpus: Sequence[Gpu], wiring: Wiring) -> str:
    """Return how the GPUs are connected, as the simulated nvidia-smi and NVML read it.

    Lines of two minors, NVML's level, and the NVLinks from one to the other; a minor twice: its NUMA node,
    and its NVLinks to switches.
    """
    rows: list[tuple[int, int, int, int]] = []
    for one, other in combinations_with_replacement(sorted(gpus, key=lambda gpu: gpu.index), 2):
        if one == other:
            row = wiring.numa_node(one.index), wiring.switch_links
        else:
            row = int(wiring.between(one.index, other.index).level), wiring.direct(one.index, other.index)
        rows.append((one.minor, other.minor, *row))
    return _LINKS_TITLE + "".join("\t".join(map(str, row)) + "\n" for row in rows)


def driver_tree(root: Path, version: str, capabilities: Collection[str]) -> tuple[Entry, ...]:
    """Return the files of the driver of that version, installed below `root`, which containers need.

    Programs are the first of their name in PATH; libraries are found as the loader finds them, in its cache, else in
    the usual folders. What is not installed is left out. Raises OSError when a file cannot be read.
    """
    found: dict[str, Entry] = {}
    for name in wanted_binaries(capabilities):
        program = _find_program(root, name)
        if program is not None:
            found[f"bin/{name}"] = VolumeFile(f"bin/{name}", program, 0o755)
    wanted = wanted_libraries(capabilities)
    for candidates in (_cached(root, wanted), _lying_around(root, wanted)):
        for name, path in candidates:
            for entry in _library(root, name, path, version):
                found.setdefault(entry.path, entry)
        if any(path.startswith("lib") for path in found):
            break
    else:
        _log.warning("no library of the NVIDIA driver %s was found below %s", version, root)
    for folder in ("lib", "lib64"):
        for name, target in LINKS:
            if f"{folder}/{Path(target).name}" in found:
                found.setdefault(f"{folder}/{name}", VolumeLink(f"{folder}/{name}", target))
    return tuple(found.values())


def _library(root: Path, name: str, path: str, version: str) -> Iterator[Entry]:
    """Yield a library and its links, when it belongs to the driver: the name it was found by, and its SONAME."""
    file = _resolve(root, path)
    facts = None if file is None else read_library(file)
    if file is None or facts is None or not is_drivers(file.name, facts, version):
        return
    folder = "lib64" if facts.bits == 64 else "lib"
    yield VolumeFile(f"{folder}/{file.name}", file, 0o755)
    for link in {name, facts.soname or name} - {file.name}:
        yield VolumeLink(f"{folder}/{link}", file.name)


def _cached(root: Path, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    try:
        cache = (root / "etc" / "ld.so.cache").read_bytes()
    except FileNotFoundError:
        return
    yield from ((name, path) for name, path in libraries(cache) if stem(name) in wanted)


def _lying_around(root: Path, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    for folder in LIBRARY_FOLDERS:
        here = root / folder.lstrip("/")
        if here.is_dir():
            names = sorted(path.name for path in here.iterdir())
            yield from ((name, f"{folder}/{name}") for name in names if ".so" in name and stem(name) in wanted)


def _find_program(root: Path, name: str) -> Path | None:
    for folder in f"{os.environ.get('PATH', '')}:{_PROGRAM_FOLDERS}".split(":"):
        if folder.startswith("/"):
            file = _resolve(root, f"{folder}/{name}")
            if file is not None and file.stat().st_mode & 0o111:
                return file
    return None


def _resolve(root: Path, path: str) -> Path | None:
    """Return the file that `path` leads to, with absolute links read from `root`; None when it leads to none."""
    file = root / path.lstrip("/")
    for _ in range(_MOST_LINKS):
        if not file.is_symlink():
            return file if file.is_file() else None
        target = str(file.readlink())
        file = root / target.lstrip("/") if target.startswith("/") else file.parent / target
    return None
