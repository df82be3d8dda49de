"""The libraries of simulated GPUs: compiled once, of the C texts beside this module, where `cc` is there."""

from __future__ import annotations

import hashlib
import logging
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mesos_gpu.base.files import write_whole

_log = logging.getLogger(__name__)

NVML, CUDA, USE = "libnvidia-ml.so.1", "libcuda.so.1", "nvidia-smi-use"
SOURCES: Mapping[str, tuple[str, ...]] = {
    NVML: ("connection.c", "nvml.c", "settings.c", "places.c", "mig.c", "limits.c"),
    CUDA: ("connection.c", "cuda.c", "cuda_memory.c", "cuda_work.c"),
    USE: ("connection.c", "use.c"),
}
"""Each library is one text made of these; so is the program that nvidia-smi asks."""
_UNSEEN = {
    NVML: "gpustat, nvitop and their like will not see the simulated GPUs",
    CUDA: "programs that use CUDA's driver API will not run on the simulated GPUs",
    USE: "the simulated nvidia-smi will show all GPUs idle",
}
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    NVML: ("-shared", "-fPIC", f"-Wl,-soname,{NVML}"),
    CUDA: ("-shared", "-fPIC", f"-Wl,-soname,{CUDA}", "-fvisibility=hidden"),
    # It has to run in images of any C library; where this machine has none to link, in those of this one.
    USE: ("-static", "-w"),
}
_FOR_ALL = ("-O2",)
_LIBRARIES = ("-ldl", "-lpthread")
_LONGEST_S = 60.0
_KEPT = Path(__file__).parent / "__pycache__"


def simulated_library(name: str = NVML, kept: Path = _KEPT) -> bytes | None:
    """Return a library; None where no C compiler is in PATH or it fails, and then the log says so.

    What was compiled is kept in the folder `kept`, under a name made of its text and of this machine's processor, as
    Python keeps what it compiles; where that cannot be written, the next call compiles again.
    """
    # importlib.resources would bring zipfile into every agent.
    source = b"\n".join(Path(__file__).with_name(text).read_bytes() for text in SOURCES[name])
    options = [*_FOR_ALL, *_OPTIONS[name]]
    mark = hashlib.sha256(b"\0".join([source, *map(str.encode, options), platform.machine().encode()])).hexdigest()
    place = kept / f"{name.partition('.')[0]}-{mark[:16]}.so"
    try:
        return place.read_bytes()
    except OSError:
        pass
    try:
        compiled = _compile(source, options)
    except (OSError, subprocess.SubprocessError) as error:
        _log.info("%s: no %s: %s", _UNSEEN[name], name, error)
        return None
    _keep(compiled, place)
    return compiled


def _compile(source: bytes, options: list[str]) -> bytes:
    """Return what the C compiler makes of a text. Raises OSError without one, SubprocessError when it fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("there is no C compiler `cc` in PATH")
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, "library.c"), Path(folder, "library.so")
        text.write_bytes(source)
        words = [compiler, "-o", str(made), str(text), *options, *_LIBRARIES]
        subprocess.run(words, check=True, capture_output=True, timeout=_LONGEST_S)
        return made.read_bytes()


def _keep(library: bytes, place: Path) -> None:
    try:
        write_whole(place, library, durable=False, folder_mode=0o755)
    except OSError as error:
        _log.debug("%s is not kept: %s", place, error)
