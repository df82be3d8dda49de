"""User namespaces of containers: which numbers their users have on the host, and whose files are whose. Pure.

As Docker's `userns-remap`: user n of a container is the host's user `first + n`, who owns nothing and may do nothing
there. Mounts map owners (mount_setattr(2), MOUNT_ATTR_IDMAP): what a task's own user owns on disk is his in the
container, too, and an image's layers are those of the container's users. No other number of the host is ever written to
disk: with it a container's root could leave a program there that is set-user-ID of the host's root. Which range a
container has is `id_pool`'s to say.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from mesos_gpu.container.host.users import Extent, HostUser, IdMap
from mesos_gpu.errors import BadInput

LAST_ID = (1 << 32) - 2
"""The largest number that a user can have; the one above it means nobody at all."""
FEWEST = 65536
"""Kubernetes' and Docker's least, too: `nobody`, 65534, and every number that images use must be among them."""


class IdRange(Struct, frozen=True):
    """The host's numbers, of users and of groups, that containers' users have: `count` from `first` on."""

    first: int
    count: int

    def __str__(self) -> str:
        return f"{self.first}:{self.count}"

    def __contains__(self, number: object) -> bool:
        """Return whether one of the host's users or groups lies in the range."""
        return isinstance(number, int) and self.first <= number < self.first + self.count

    def overlaps(self, other: IdRange) -> bool:
        """Return whether a number lies in both."""
        return self.first < other.first + other.count and other.first < self.first + self.count

    def document(self) -> dict[str, Any]:
        """Return the part of `linux` of an OCI bundle that says so."""
        extent = {"containerID": 0, "hostID": self.first, "size": self.count}
        return {"uidMappings": [extent], "gidMappings": [dict(extent)]}

    def check_user(self, user: HostUser) -> None:
        """Raise BadInput for a user who can be nobody in a container."""
        for what, number in (("user", user.uid), ("group", user.gid), *(("group", group) for group in user.groups)):
            if number >= self.count:
                raise BadInput(
                    f"the {what} {number} has no number in a user namespace of {self.count} "
                    f"(--userns_remap={self}): give each container at least {number + 1} (--userns_remap_size)"
                )


class Numbers(Struct, frozen=True):
    """A container's numbers: `running` are those of its users on the host, `disk` those that its files bear."""

    running: IdRange
    disk: IdRange


def read_range(text: str) -> IdRange:
    """Return the range that `FIRST:COUNT` names, as a line of /etc/subuid does after the name. Raises BadInput."""
    found = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", text)
    if found is None:
        raise BadInput(f"{text!r} is not FIRST:COUNT, such as 1879048192:16777216")
    first, count = int(found[1]), int(found[2])
    if count < FEWEST:
        raise BadInput(f"{count} numbers are too few: images use those up to {FEWEST - 1}, so {FEWEST} are needed")
    if first < FEWEST:
        raise BadInput(f"{first} is too low: the numbers below {FEWEST} are those of the host's own users")
    if first + count - 1 > LAST_ID:
        raise BadInput(f"{first + count - 1} is beyond the largest number of a user, {LAST_ID}")
    return IdRange(first, count)


def everyone(ids: IdRange) -> IdMap:
    """Return the map by which each owner on disk is the container's user of that number."""
    extent = ((0, ids.first, ids.count),)
    return IdMap(extent, extent)


def own(user: HostUser, ids: Numbers) -> IdMap | None:
    """Return the map by which all in a task's own folder is its users', as `on_disk` has them; None: none is needed."""
    users, groups = _kept(user, ids.running)
    if not users and ids.disk == ids.running:
        return None
    return IdMap(
        _same(users, ids.running) + _rest(users, ids),
        _same(groups, ids.running) + _rest(groups, ids),
    )


def on_the_host(user: HostUser, ids: Numbers) -> IdMap | None:
    """Return the map by which a container sees a folder of the host's; None: none is needed.

    What is the task's user's is his there, what others in the container write is theirs as in `own`, and all else has
    the owner that it has, whose number is nobody's in the container. Without a number the kernel would let nobody
    change it: not even who may write to it as everybody may (a /scratch of mode 1777).
    """
    found = own(user, ids)
    if found is None:
        return None
    return IdMap(found.uids + _others(found.uids, ids), found.gids + _others(found.gids, ids))


def on_disk(who: HostUser, user: HostUser, ids: Numbers) -> HostUser:
    """Return as whom one of a container's users is written to disk; `user` is whom the task runs as on this host."""
    users, groups = _kept(user, ids.running)
    uid = who.uid if who.uid in users else ids.disk.first + who.uid
    return HostUser(uid, who.gid if who.gid in groups else ids.disk.first + who.gid)


MOST_GROUPS = 100
"""The kernel takes 340 lines of a map, and each number takes three at most."""


def _kept(user: HostUser, ids: IdRange) -> tuple[list[int], list[int]]:
    """Return the numbers of a user, and of his groups, that are the same on disk; root's are not."""
    if not 0 < user.uid < ids.count:
        return [], []
    groups = dict.fromkeys(number for number in (user.gid, *user.groups) if 0 < number < ids.count)
    return [user.uid], sorted(list(groups)[:MOST_GROUPS])


def _same(numbers: Collection[int], ids: IdRange) -> tuple[Extent, ...]:
    return tuple((number, ids.first + number, 1) for number in numbers)


def _rest(numbers: Collection[int], ids: Numbers) -> tuple[Extent, ...]:
    """Return the lines for all others, who have their numbers in `disk`; `numbers` are sorted."""
    found, start = [], 0
    for number in (*numbers, ids.running.count):
        found.append((ids.disk.first + start, ids.running.first + start, number - start))
        start = number + 1
    return tuple(extent for extent in found if extent[2])


def _others(mapped: Collection[Extent], ids: Numbers) -> tuple[Extent, ...]:
    """Return the lines for whoever is not `mapped`, as himself: the host's numbers but for those of containers."""
    ranges = [(one.first, one.count) for one in (ids.disk, ids.running)]
    found, start = [], 0
    for first, count in sorted([*ranges, *((inside, count) for inside, _, count in mapped), (LAST_ID + 1, 0)]):
        found.append((start, start, first - start))
        start = max(start, first + count)
    return tuple(extent for extent in found if extent[2] > 0)


class UserView(Struct, frozen=True):
    """A container's user namespace: its numbers, where its root is found, and where its devices.

    A runtime looks the root up as the container's root, who is nobody on the host; so no folder on the way may be
    closed to others. `joined` is the namespace of the container that it is nested in, None for one of its own. On the
    host's files its sandbox is mounted with the folder `around` it, that of the container that it is nested in.
    """

    ids: IdRange
    devices: str
    joined: str | None = None
    around: str | None = None

    def namespace(self) -> dict[str, str]:
        """Return it as a runtime's configuration lists it."""
        return {"type": "user"} if self.joined is None else {"type": "user", "path": self.joined}
