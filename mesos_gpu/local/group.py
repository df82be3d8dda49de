"""Who is in a Unix group, as this machine says."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import sys
from dataclasses import replace
from pathlib import Path

from mesos_gpu.errors import BadInput
from mesos_gpu.local.credentials import OWNERS
from mesos_gpu.local.members import may_be_member
from mesos_gpu.local.plan import UpOptions

log = logging.getLogger(__name__)


def with_members(options: UpOptions) -> UpOptions:
    """Return the options with the members of their group. Raises BadInput where a box could not let them in."""
    if options.group is None:
        return options
    closed = _closed(options.work_dir)
    if closed is not None:
        raise BadInput(
            f"--group: its members cannot reach {options.work_dir}, as {closed} is closed to them; leave --work_dir out"
        )
    if (program := _closed(Path(sys.executable).resolve())) is not None:
        log.warning("pods of the group's members cannot run: %s, where Python lies, is closed to them", program)
    return replace(options, members=members_of(options.group))


def members_of(group: str) -> dict[str, int]:
    """Return the members of a group by name, with the users' numbers. Raises BadInput when there are none."""
    try:
        members = members_now(group)
    except KeyError:
        raise BadInput(f"--group: this machine has no group {group!r}; `groupadd {group}` makes one") from None
    if not members:
        raise BadInput(f"--group: {group} has no members; `usermod -aG {group} USER` makes one")
    return members


def members_now(group: str) -> dict[str, int]:
    """Return the same at this moment, also when there are none. Raises KeyError without such a group."""
    found = grp.getgrnam(group)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    users = [user for user in pwd.getpwall() if user.pw_gid == found.gr_gid or user.pw_name in found.gr_mem]
    # One number is one user, whatever names it has.
    return {
        user.pw_name: user.pw_uid
        for user in sorted(users, key=lambda user: user.pw_name)
        if user.pw_uid not in (0, os.geteuid()) and may_be_member(user.pw_name, owner, OWNERS)
    }


def _closed(path: Path) -> Path | None:
    """Return the folder above a path that others cannot go through, None when there is none."""
    return next((one for one in reversed(path.parents) if one.exists() and not one.stat().st_mode & 0o001), None)
