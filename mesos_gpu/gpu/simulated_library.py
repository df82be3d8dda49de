"""The libnvidia-ml.so.1 of simulated GPUs: compiled once, of the C text beside this module, where `cc` is there."""

from __future__ import annotations

import hashlib
import logging
import platform
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

_log = logging.getLogger(__name__)

NAME = "libnvidia-ml.so.1"
_OPTIONS = ("-O2", "-shared", "-fPIC", f"-Wl,-soname,{NAME}", "-ldl")
_LONGEST_S = 60.0
_KEPT = Path(__file__).parent / "__pycache__"


_SOURCES = ("simulated_nvml.c", "simulated_mig.c")


def simulated_library(kept: Path = _KEPT) -> bytes | None:
    """Return the library; None where no C compiler is in PATH or it fails, and then the log says so.

    What was compiled is kept in the folder `kept`, under a name made of its text and of this machine's processor, as
    Python keeps what it compiles; where that cannot be written, the next call compiles again.
    """
    texts = resources.files("mesos_gpu.gpu")
    source = b"\n".join(texts.joinpath(name).read_bytes() for name in _SOURCES)
    mark = hashlib.sha256(b"\0".join([source, *map(str.encode, _OPTIONS), platform.machine().encode()])).hexdigest()
    place = kept / f"libnvidia-ml-{mark[:16]}.so"
    try:
        return place.read_bytes()
    except OSError:
        pass
    try:
        compiled = _compile(source)
    except (OSError, subprocess.SubprocessError) as error:
        _log.info("gpustat, nvitop and their like will not see the simulated GPUs: no %s: %s", NAME, error)
        return None
    _keep(compiled, place)
    return compiled


def _compile(source: bytes) -> bytes:
    """Return what the C compiler makes of a text. Raises OSError without one, SubprocessError when it fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("there is no C compiler `cc` in PATH")
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, "nvml.c"), Path(folder, NAME)
        text.write_bytes(source)
        subprocess.run([compiler, "-o", made, text, *_OPTIONS], check=True, capture_output=True, timeout=_LONGEST_S)
        return made.read_bytes()


def _keep(library: bytes, place: Path) -> None:
    try:
        place.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.") as aside:
            aside.write(library)
            aside.flush()
            place.unlink(missing_ok=True)
            place.hardlink_to(aside.name)
    except OSError as error:
        _log.debug("%s is not kept: %s", place, error)
