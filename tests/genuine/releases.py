"""Genuine Mesos, as released: libmesos from PyPI's `mesos.scheduler`, made ready to run here, and kept for next time.

The package is a Python 2.7 extension with the whole of libmesos in it. Neither that Python nor the libraries of its day
are needed: `host.c` loads it, and what it misses is made here: OpenSSL 1.0 and libevent 2.0 with the OpenSSL 3 and
libevent 2.1 that there are, curl with functions that do nothing (nothing is fetched).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

RELEASES = (
    *("1.4.3", "1.5.2", "1.5.3", "1.6.2", "1.7.0", "1.7.1", "1.7.2", "1.7.3", "1.8.0", "1.8.1"),
    *("1.9.0", "1.10.0", "1.11.0"),
)
"""What PyPI has, but for 1.6.1, which was built against other libraries than Debian's; nothing else was packaged."""
LINES = ("1.4.3", "1.5.3", "1.6.2", "1.7.3", "1.8.1", "1.9.0", "1.10.0", "1.11.0")
"""The last of each line."""
USUAL = ("1.4.3", "1.7.3", "1.11.0") if "THOROUGH" in os.environ else ("1.4.3", "1.11.0")
"""The oldest, in `./run test thorough` the last one built on the system's libevent, and the newest."""
WANTED = os.environ.get("MESOS_RELEASES", "")
CHOSEN = {"": USUAL, "lines": LINES, "all": RELEASES}.get(WANTED) or tuple(WANTED.split(","))
"""What this run is about."""

NOT_FOR_THIS_MACHINE = "PyPI has Mesos for Linux on x86_64 alone"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mesos-gpu" / "genuine-mesos"
HOST, STAND_IN = (Path(__file__).with_name(name) for name in ("host.c", "stand_in.c"))
# The last pip that takes versions such as 1.11.0.linux-x86_64.
PIP = "pip==24.0"
_ANSWERS = {"SSL_library_init": 1, "CRYPTO_num_locks": 41}
"""What the stand-ins return where they have nobody to ask, and 0 would not do."""
_NAMES_NOW = {
    "SSLv23_method": "TLS_method",
    "SSL_get_peer_certificate": "SSL_get1_peer_certificate",
    "SSL_state": "SSL_get_state",
    **{f"sk_{name}": f"OPENSSL_sk_{name}" for name in ("new_null", "num", "pop_free", "push", "value")},
}
"""What functions of OpenSSL 1.0 are called in OpenSSL 3; others have kept their names or do nothing now."""
_LIBRARIES = {"OPENSSL": ("libssl.so.1.0.0", "libcrypto.so.1.0.0"), "CURL": ("libcurl.so.4",)}


class Missing(Exception):
    """This machine cannot run a genuine master, for the reason given."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release, ready to run: `command` with `environment` is a master, once flags are added to the latter."""

    version: str
    library: Path
    stand_ins: Path
    host: Path

    @property
    def command(self) -> list[str]:
        """Return argv; the master runs until its standard input ends."""
        return [str(self.host), str(self.library)]

    @property
    def environment(self) -> dict[str, str]:
        """Return what its loader needs."""
        return {"LD_LIBRARY_PATH": str(self.stand_ins), "PATH": os.environ["PATH"]}

    def at_least(self, *version: int) -> bool:
        """Return whether this is that release or a later one."""
        return numbers(self.version) >= version


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, to be compared."""
    return tuple(int(part) for part in version.split("."))


def since(*version: int) -> list[str]:
    """Return the chosen releases that are of this one or later, for the fixture `release`."""
    return [one for one in CHOSEN if numbers(one) >= version]


def open_release(version: str) -> Release:
    """Return this release, downloaded and built where it was not yet. Raises Missing."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Missing(f"{NOT_FOR_THIS_MACHINE}, not for {platform.system()} on {platform.machine()}")
    for tool in ("gcc", "nm", "ldd"):
        if shutil.which(tool) is None:
            raise Missing(f"needs {tool}, to make what loads Mesos' library")
    folder = CACHE / version
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # test runs of several work trees share the cache
        fcntl.flock(lock, fcntl.LOCK_EX)
        library = folder / "_scheduler.so"
        if not library.exists():
            _download(version, library)
        recipe = hashlib.sha256(HOST.read_bytes() + STAND_IN.read_bytes() + Path(__file__).read_bytes()).hexdigest()[
            :12
        ]
        built = folder / recipe
        if not built.exists():
            _build(library, built)
    missing = re.findall(r"^\s*(\S+) => not found", _said("ldd", str(library), LD_LIBRARY_PATH=str(built)), re.M)
    if missing:
        raise Missing(f"needs {' '.join(missing)}; Debian: libsvn1 libevent-openssl-2.1-7 libevent-pthreads-2.1-7")
    return Release(version, library, built, built / "host")


def _download(version: str, library: Path) -> None:
    """Put the library there. Raises Missing.

    The package has nothing to build it with, so pip fails, and leaves what it unpacked.
    """
    pip = CACHE / PIP
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not pip.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as new:
                _pip(None, "install", "--target", f"{new}/pip", PIP)
                Path(new, "pip").rename(pip)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        said = _pip(pip, "download", "--no-deps", "--no-clean", f"mesos.scheduler==={version}.linux-x86_64", tmp=folder)
        found = list(Path(folder).rglob("_scheduler.so"))
        if not found:
            raise Missing(f"pip cannot download Mesos {version}: {said.strip().splitlines()[-1]}")
        found[0].rename(library)


def _pip(code: Path | None, *words: str, tmp: str | None = None) -> str:
    environment = dict(os.environ)
    if code is not None:
        environment["PYTHONPATH"] = str(code)
    if tmp is not None:
        environment["TMPDIR"] = tmp
    command = [sys.executable, "-m", "pip", *words, "--disable-pip-version-check", "--no-cache-dir"]
    done = subprocess.run(command, env=environment, cwd=tmp, capture_output=True, text=True, check=False)
    if code is None and done.returncode:
        raise Missing(f"pip cannot install {PIP}: {done.stderr.strip()}")
    return done.stderr or done.stdout


def _build(library: Path, folder: Path) -> None:
    """Compile the host and the stand-ins into a new folder."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as new:
        _gcc("-rdynamic", "-o", f"{new}/host", str(HOST), "-ldl")
        wanted: dict[str, set[str]] = defaultdict(set)
        for name, version in re.findall(r" U (\w+)@((?:OPENSSL|CURL)\w[\w.]*)", _said("nm", "-D", str(library))):
            wanted[version].add(name)
        for origin, files in _LIBRARIES.items():
            nodes = {version: names for version, names in wanted.items() if version.startswith(origin)}
            for file in files if nodes else ():  # one built elsewhere does with the library that there is
                _stand_in(Path(new, file), nodes)
        for file in ("libevent", "libevent_openssl", "libevent_pthreads"):
            if file in _said("ldd", str(library)):
                words = (f"-Wl,-soname,{file}-2.0.so.5", "-Wl,--no-as-needed", f"-l:{file}-2.1.so.7")
                _gcc("-shared", "-o", f"{new}/{file}-2.0.so.5", *words)
        Path(new).rename(folder)
        Path(new).mkdir()  # for who removes it


def _stand_in(file: Path, nodes: dict[str, set[str]]) -> None:
    """Make a library under the version names that the loader looks for.

    Its functions are OpenSSL's of today; one that there is none for returns 0.
    """
    names = sorted({name for names in nodes.values() for name in names})
    code = STAND_IN.read_text()
    for name in names:
        code += f'STAND_IN({name}, "{_NAMES_NOW.get(name, name)}", {_ANSWERS.get(name, 0)})\n'
    versions = "".join(
        f"{node} {{ global: {' '.join(f'{n};' for n in sorted(has))} }};\n" for node, has in nodes.items()
    )
    source, script = file.with_suffix(".c"), file.with_suffix(".map")
    source.write_text(code)
    script.write_text(versions)
    words = ("-shared", "-fPIC", "-w", "-o", str(file), str(source))
    _gcc(*words, f"-Wl,-soname,{file.name},--version-script={script}", "-ldl")


def _gcc(*words: str) -> None:
    done = subprocess.run(["gcc", "-O1", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"gcc cannot build what loads Mesos' library: {done.stderr.strip()}")


def _said(*words: str, **environment: str) -> str:
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    return done.stdout


def cannot(reason: str) -> NoReturn:
    """Skip in words. A build server has all that is needed: there it is a failure, unless Mesos is not for its kind."""
    if os.environ.get("CI") and NOT_FOR_THIS_MACHINE not in reason:
        pytest.fail(reason)
    pytest.skip(reason)
