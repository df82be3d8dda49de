"""Which container has which numbers of an agent's pool, so that no two that live have the same. Pure.

As Kubernetes' user namespaces (KEP-127: 65536 numbers for each pod, of which none is another's) and podman's
`--userns=auto`. Whoever gets out of one container is then not only nobody on the host, but nobody in the others, too.
What is held is on record with each container, and nowhere else: so no range is lost or given twice when an agent dies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from mesos_gpu.container.spec.user_namespace import FEWEST, IdRange, Numbers, read_range
from mesos_gpu.errors import BadInput, ContainerError

_LINE = re.compile(r"([0-9]+):([0-9]+)")


class IdPool(Struct, frozen=True):
    """The host's numbers that containers' users may have, cut into ranges of `each`.

    What containers write to disk bears the numbers of the first range, which no container has: so a volume is the same
    to the next container, whatever its range is. Where there is room for one range alone all containers share it, on
    disk as well, as with Docker's `userns-remap`.
    """

    whole: IdRange
    each: int = FEWEST

    def __str__(self) -> str:
        return str(self.whole)

    def words(self) -> str:
        """Return how many containers have what, for the log."""
        if self.places is None:
            return f"all have the same numbers, {self.whole}; for each its own there must be {2 * self.each} or more"
        return f"{self.places} at a time, each with {self.each} numbers of its own of {self.whole}"

    @property
    def shared(self) -> bool:
        """Whether all containers have the same numbers."""
        return self.whole.count < 2 * self.each

    @property
    def disk(self) -> IdRange:
        """The numbers of files on disk."""
        return self.whole if self.shared else IdRange(self.whole.first, self.each)

    @property
    def places(self) -> int | None:
        """How many containers may have numbers at a time; None: any number, since they share them."""
        return None if self.shared else self.whole.count // self.each - 1

    def take(self, held: Iterable[IdRange]) -> Numbers:
        """Return the numbers of a new container, beside those `held` by others, of this pool or of an earlier one.

        The lowest free range is taken, so that numbers stay few. Raises ContainerError when none is left.
        """
        if self.places is None:
            return Numbers(self.whole, self.whole)
        others = sorted(set(held), key=lambda ids: ids.first)
        for place in range(1, self.places + 1):
            ids = IdRange(self.whole.first + place * self.each, self.each)
            if not any(ids.overlaps(other) for other in others):
                return Numbers(ids, self.disk)
        raise ContainerError(
            f"no range of user numbers is left for a user namespace: --userns_remap={self} has {self.places} of "
            f"{self.each}, and each is a running container's; give the agent more numbers, or wait until one ends"
        )


def cut(whole: IdRange, each: int) -> IdPool:
    """Return the pool of these numbers in ranges of `each`. Raises BadInput for what cannot be cut so."""
    if each < FEWEST or each % FEWEST:
        raise BadInput(f"{each} is not a multiple of {FEWEST}, so that containers had parts of the same 65536 numbers")
    if each > whole.count:
        raise BadInput(f"{each} numbers for each container are more than there are in {whole}")
    return IdPool(whole, each)


class Owner(Struct, frozen=True):
    """Whose lines of /etc/subuid or /etc/subgid count: by name, or by number where the host knows one."""

    name: str
    number: int | None = None


def subordinate(user: Owner, group: Owner, subuid: str, subgid: str) -> IdRange:
    """Return the numbers that /etc/subuid and /etc/subgid, of these texts, give to a user and a group; subuid(5).

    They must be the same, as Kubernetes asks for, too. Raises BadInput, with what to write there.
    """
    users, groups = _lines(user, subuid), _lines(group, subgid)
    for file, owner, lines in (("/etc/subuid", user, users), ("/etc/subgid", group, groups)):
        if len(lines) != 1:
            advice = f"write {user.name}:1879048192:16777216 into /etc/subuid, and {group.name}:... into /etc/subgid"
            raise BadInput(f"{file} has {len(lines) or 'no'} line{'s' * (len(lines) > 1)} for {owner.name}: {advice}")
    if users != groups:
        raise BadInput(
            f"{user.name} has {users[0]} in /etc/subuid, and {group.name} {groups[0]} in /etc/subgid: they must be the "
            "same, since the groups of a container have the numbers that its users have"
        )
    return read_range(users[0])


def check_others(ids: IdRange, owners: Sequence[Owner], subuid: str, subgid: str) -> None:
    """Raise BadInput where one of these numbers is subordinate to somebody else than `owners`; subuid(5).

    Such a user could enter the containers' numbers with newuidmap(1), read their files and signal their processes.
    """
    # Both files name users; the number of a group is no user's.
    own = {owner.name for owner in owners} | {str(owner.number) for owner in owners[:1]}
    for file, text in (("/etc/subuid", subuid), ("/etc/subgid", subgid)):
        for name, numbers in _entries(text):
            found = _LINE.fullmatch(numbers)
            if found is None or name in own:
                continue
            theirs = IdRange(int(found[1]), int(found[2]))
            if theirs.count and ids.overlaps(theirs):
                raise BadInput(
                    f"{ids} has numbers that {file} gives to {name} ({theirs}), who could act as the containers' "
                    "users: choose a range that no line of /etc/subuid and /etc/subgid has"
                )


def _lines(owner: Owner, text: str) -> list[str]:
    """Return `FIRST:COUNT` of each line that counts."""
    return [numbers for name, numbers in _entries(text) if name in (owner.name, str(owner.number)) and numbers]


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and `FIRST:COUNT` of each line."""
    for line in text.splitlines():
        name, _, numbers = line.strip().partition(":")
        yield name, numbers
