"""The host's users, as processes carry them."""

from __future__ import annotations

import os
import pwd

from msgspec import Struct

from mesos_gpu.errors import BadInput


class HostUser(Struct, frozen=True):
    """Numbers of one user: primary group in `gid`, all others in `groups`."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


Extent = tuple[int, int, int]
"""A line of /proc/PID/uid_map: the first number inside, that on the host, and how many; user_namespaces(7)."""


class IdMap(Struct, frozen=True):
    """Who the owners on disk are in a mount; those that are not listed are nobody, and what they own is not changed."""

    uids: tuple[Extent, ...]
    gids: tuple[Extent, ...]


def find_user(name: str | None) -> HostUser:
    """Return the host's user `name`; None is the agent's own. Raises BadInput for a name the host does not know."""
    if name is None:
        return HostUser(os.geteuid(), os.getegid(), tuple(sorted(set(os.getgroups()) - {os.getegid()})))
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise BadInput(f"this host has no user {name!r}, so nothing can run as it") from None
    groups = os.getgrouplist(name, entry.pw_gid)
    return HostUser(entry.pw_uid, entry.pw_gid, tuple(sorted(set(groups) - {entry.pw_gid})))
