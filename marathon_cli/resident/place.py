"""Where a user's helpers listen: a folder that nobody else may enter, and a socket there for each installation.

It is on every command's path, and imports only what Python has read anyway.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LONGEST = 100
"""A socket's path has at most 107 bytes. Source: unix(7)."""
SOCKET, LOCK, CALLED = ".socket", ".lock", ".called"


def folder(environ: Mapping[str, str]) -> str | None:
    """Return the folder of our helpers, made where it is not there; None where there is no safe place for one.

    Root's is below /run; others' below XDG_RUNTIME_DIR, which the system empties when they log out, else in ~/.cache.
    It is used only when it is a folder of our own that nobody else may enter.
    """
    uid = os.geteuid()
    if uid != os.getuid():
        return None
    if uid == 0:
        tried = ["/run/mesos-gpu-resident"]
    else:
        tried = [f"{base}/mesos-gpu-resident" for base in (environ.get("XDG_RUNTIME_DIR"), _cache(environ)) if base]
    if named := environ.get("MESOS_GPU_RESIDENT_DIR"):
        tried = [named]
    return next((path for path in tried if path.startswith("/") and _is_ours(path, uid)), None)


def _cache(environ: Mapping[str, str]) -> str | None:
    if base := environ.get("XDG_CACHE_HOME"):
        return base
    home = environ.get("HOME")
    return f"{home}/.cache" if home else None


def _is_ours(path: str, uid: int) -> bool:
    try:
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            os.makedirs(path, 0o700)
            found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077


def name() -> str | None:
    """Return the name of this installation's helper: by its interpreter's folder, its package and Python's version.

    None when one of them cannot be told.
    """
    try:
        package, python = os.stat(PACKAGE), os.stat(os.path.dirname(sys.executable))
    except OSError:
        return None
    numbers = (package.st_dev, package.st_ino, python.st_dev, python.st_ino, sys.hexversion)
    return "-".join(f"{number:x}" for number in numbers)


def path_of(environ: Mapping[str, str]) -> str | None:
    """Return the path of our helper's files without their suffix; None where there can be none."""
    where, called = folder(environ), name()
    if where is None or called is None or len(f"{where}/{called}{SOCKET}") > _LONGEST:
        return None
    return f"{where}/{called}"


def is_our_socket(path: str) -> bool:
    """Whether a socket of ours is there."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()
