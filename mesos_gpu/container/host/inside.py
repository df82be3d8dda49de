"""Looking into, and making folders in, a root file system that somebody else made: no path leads out of it.

Nothing of the container may run yet: a link that changes between the look and the use would lead anywhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.errors import BadInput, ContainerError

MAX_LINKS = 40
MAX_ID = (1 << 32) - 2
"""The number after it means "as it is" to the kernel: setresuid(2)."""
MAX_ACCOUNTS = 1 << 20
"""Bytes of /etc/passwd or /etc/group that are read."""


def resolve(root: Path, path: str) -> Path:
    """Return where `path` leads in `root`, links being followed as if `root` were /. It need not exist.

    Raises ContainerError when it has too many links.
    """
    left, found, links = [part for part in reversed(path.split("/")) if part], root, 0
    while left:
        part = left.pop()
        if part == ".":
            continue
        if part == "..":
            found = found if found == root else found.parent
            continue
        step = found / part
        try:
            target = os.readlink(step)  # noqa: PTH115 - as text: a Path would lose what "a/" means
        except OSError:
            found = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise ContainerError(f"the image has too many links in {path}")
        if target.startswith("/"):
            found = root
        left.extend(part for part in reversed(target.split("/")) if part)
    return found


def make_folder(root: Path, path: str, owner: int = 0) -> None:
    """Make a folder of the image, with those above it, if it is not there; new ones are `owner`'s.

    Raises ContainerError when it cannot be.
    """
    place = resolve(root, path)
    try:
        new = [folder for folder in (place, *place.parents) if not folder.exists()]
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        for folder in new if owner else ():
            os.chown(folder, owner, owner, follow_symlinks=False)
    except OSError as error:
        raise ContainerError(f"{path} cannot be a folder in the image: {error.strerror}") from error


def find_image_user(root: Path, text: str) -> HostUser:
    """Return the numbers of an image's USER: `name`, `uid`, `name:group`, `uid:gid` and mixtures, from its own files.

    Raises BadInput for a name that its /etc/passwd or /etc/group does not have.
    """
    name, _, group = text.partition(":")
    accounts = list(_lines(root, "/etc/passwd", 7))
    account = next((line for line in accounts if line[0] == name), None)
    if account is None and name.isdecimal():
        account = next((line for line in accounts if line[2] == name), None)
    if account is None and not name.isdecimal():
        raise BadInput(f"the image runs as user {name!r}, whom its /etc/passwd does not have")
    uid = _number(account[2] if account is not None else name)
    groups = list(_lines(root, "/etc/group", 4))
    if group:
        return HostUser(uid, _group(groups, group))
    gid = _number(account[3]) if account is not None else 0
    mine = set() if account is None else {_number(line[2]) for line in groups if account[0] in line[3].split(",")}
    return HostUser(uid, gid, tuple(sorted(mine - {gid})))


def _group(groups: list[list[str]], name: str) -> int:
    found = next((line for line in groups if line[0] == name), None)
    if found is None and not name.isdecimal():
        raise BadInput(f"the image runs in group {name!r}, which its /etc/group does not have")
    return _number(found[2] if found is not None else name)


def _number(text: str) -> int:
    """Return the number of a user or group. Raises BadInput for one that no user can have."""
    if len(text) > len(str(MAX_ID)) or int(text) > MAX_ID:
        raise BadInput(f"the image runs as user or group {text[:20]}, and the largest there is is {MAX_ID}")
    return int(text)


def _lines(root: Path, path: str, fields: int) -> Iterator[list[str]]:
    """Yield the lines of an account file that have so many fields, numbers where they belong."""
    for line in _read(resolve(root, path)).splitlines():
        parts = line.split(":")
        if len(parts) == fields and parts[2].isdecimal() and (fields == 4 or parts[3].isdecimal()):
            yield parts


def _read(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return file.read(MAX_ACCOUNTS).decode(errors="replace")
