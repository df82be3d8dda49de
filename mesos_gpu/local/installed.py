"""What the program has set up on this machine outside of its own installation, found so that it can be undone.

Only what shows that it is ours counts: a launcher that imports this package, a unit that starts one of our programs, a
CDI file that calls our hook. What cannot be undone by removing a file is told, and left to people.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mesos_gpu.doors.common.names import HOOK, RUNTIME
from mesos_gpu.errors import Unavailable

PREFIXES = ("usr/local/bin", "usr/bin")
LAUNCHERS = (HOOK, RUNTIME, "nvidia-docker", "nvidia-docker-plugin")
HOOKS_DIRS = ("etc/containers/oci/hooks.d", "usr/share/containers/oci/hooks.d")
SETTINGS = "etc/mesos-gpu/doors.json"
CDI_DIRS = ("etc/cdi", "var/run/cdi", "run/cdi")
UNITS_DIR = "etc/systemd/system"
DAEMON = "etc/docker/daemon.json"
COMPLETIONS = (
    ".config/fish/completions/mesos-gpu.fish",
    ".local/share/bash-completion/completions/mesos-gpu",
    ".zfunc/_mesos-gpu",
)
SHELL_FILES = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".config/fish/config.fish")
_LAUNCHES = "from mesos_gpu.doors."
_CDI_MARK = "mesos_gpu.doors.oci.hook"
_COMPLETES = "_MESOS_GPU_COMPLETE"
_STARTS = re.compile(r"^ExecStart=.*\bmesos-gpu(-(agent|master|marathon|device-plugin))?\b", re.M)
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing that was set up. `by_hand`: what a person does about it; None where its file is removed."""

    what: str
    path: Path
    by_hand: str | None = None
    unit: str | None = None
    """The systemd unit to be stopped and disabled first."""


def find_installed(root: Path, home: Path, prefixes: Sequence[str] = ()) -> list[Piece]:
    """Return all that is found below `root` and in a user's `home`; `prefixes` are further folders of launchers."""
    launchers = list(_launchers(root, prefixes))
    return [
        *launchers,
        *_hooks(root),
        *_settings(root),
        *_cdi_files(root),
        *_units(root),
        *_docker(root, launchers),
        *_completions(home),
    ]


def remove(piece: Piece, *, systemd: bool) -> None:
    """Undo one piece; a unit is stopped and disabled first, where systemd runs. Raises Unavailable."""
    if piece.unit is not None and systemd:
        done = subprocess.run(
            ["systemctl", "disable", "--now", piece.unit], capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise Unavailable(f"systemctl disable --now {piece.unit}: {done.stderr.strip()}")
    try:
        piece.path.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot remove {piece.path}: {error.strerror}") from None
    if piece.path.parent.name == "mesos-gpu":
        with suppress(OSError):  # a package's own settings may lie beside it
            piece.path.parent.rmdir()


def _launchers(root: Path, prefixes: Sequence[str]) -> Iterator[Piece]:
    folders = dict.fromkeys([*(root / prefix for prefix in PREFIXES), *map(Path, prefixes)])
    for path in (folder / name for folder in folders for name in LAUNCHERS):
        if _LAUNCHES in _text(path):
            yield Piece("program that an engine calls for GPUs", path)


def _hooks(root: Path) -> Iterator[Piece]:
    for path in (root / folder / "mesos-gpu.json" for folder in HOOKS_DIRS):
        if HOOK in _text(path):
            yield Piece("hook of podman", path)


def _settings(root: Path) -> Iterator[Piece]:
    if (root / SETTINGS).is_file():
        yield Piece("settings of these programs", root / SETTINGS)


def _cdi_files(root: Path) -> Iterator[Piece]:
    seen: set[Path] = set()
    for path in (path for folder in CDI_DIRS for path in sorted((root / folder).glob("*"))):
        if path.resolve() not in seen and path.suffix in (".json", ".yaml") and _CDI_MARK in _text(path):
            seen.add(path.resolve())
            yield Piece("CDI file of this machine's GPUs", path)


def _units(root: Path) -> Iterator[Piece]:
    for path in sorted((root / UNITS_DIR).glob("*.service")):
        if not path.is_symlink() and _STARTS.search(_text(path)):
            yield Piece("systemd unit", path, unit=path.name)


def _docker(root: Path, launchers: Iterable[Piece]) -> Iterator[Piece]:
    with suppress(ValueError, AttributeError):
        runtimes = json.loads(_text(root / DAEMON) or "{}").get("runtimes", {})
        ours = {str(piece.path) for piece in launchers}
        names = [name for name, one in runtimes.items() if isinstance(one, Mapping) and one.get("path") in ours]
        if names:
            yield Piece(
                "runtime of Docker", root / DAEMON, f"take {', '.join(names)} out of its runtimes and restart dockerd"
            )


def _completions(home: Path) -> Iterator[Piece]:
    for path in (home / name for name in COMPLETIONS):
        if _COMPLETES in _text(path):
            yield Piece("completion of a shell", path)
    for path in (home / name for name in SHELL_FILES):
        lines = [n for n, line in enumerate(_text(path).splitlines(), 1) if "mesos-gpu completion" in line]
        if lines:
            where = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
            yield Piece("completion of a shell", path, f"take {where} out")


def _text(path: Path) -> str:
    """Return how a file begins; nothing where there is none to be read."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
