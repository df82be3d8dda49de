"""The tree of groups: who is in whom, and who waits for whom.

Source: Marathon state/RootGroup.scala (dependency graph), raml/GroupConversion.scala.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.definitions.app_ids import parent_id
from mesos_gpu.marathon.definitions.runspec import RunSpec

ROOT = "/"
FIRST_VERSION = "1970-01-01T00:00:00.000Z"
"""The version of a tree that nothing has been put into yet."""


class Group(Struct, frozen=True):
    """What is said of a group itself; the apps in it are found by their ids."""

    id: str
    dependencies: tuple[str, ...] = ()
    enforce_role: bool = False


class Root(Struct, frozen=True):
    """One version of the tree: its groups. Its apps are, of each app, the newest version that is not newer."""

    version: str = FIRST_VERSION
    groups: Mapping[str, Group] = field(default_factory=dict)


def within(item_id: str, group_id: str) -> bool:
    """Return whether an id lies in a group, at any depth. A group does not lie in itself."""
    return item_id != group_id and item_id.startswith(group_id.rstrip("/") + "/")


def ancestors(item_id: str) -> tuple[str, ...]:
    """Return the groups that an id lies in, the nearest first, without the root."""
    found = []
    while (item_id := parent_id(item_id)) != ROOT:
        found.append(item_id)
    return tuple(found)


def all_groups(said: Mapping[str, Group], app_ids: Iterable[str]) -> dict[str, Group]:
    """Return every group but the root: those that were put, and those that ids of apps and groups imply."""
    groups = dict(said)
    for parents in dict.fromkeys(parent_id(item_id) for item_id in (*app_ids, *said)):
        for group_id in (parents, *ancestors(parents)):
            if group_id != ROOT:
                groups.setdefault(group_id, Group(group_id))
    groups.pop(ROOT, None)
    return groups


def is_top_level(group_id: str) -> bool:
    """Return whether a group lies directly in the root."""
    return group_id != ROOT and group_id.count("/") == 1


def enforced(groups: Mapping[str, Group]) -> frozenset[str]:
    """Return the names of the top-level groups whose apps must have the group's role."""
    return frozenset(group.id.strip("/") for group in groups.values() if group.enforce_role)


def conflicts(app_ids: Collection[str], groups: Mapping[str, Group]) -> list[Problem]:
    """Return a problem for every id that names an app and a group."""
    sentence = "Groups and Applications may not have the same identifier"
    return [
        Problem("/", f"{sentence}: {app_id}", f"{app_id} is an app and a group", "choose another id")
        for app_id in sorted(app_ids)
        if app_id in groups
    ]


def needs(apps: Mapping[str, RunSpec], groups: Mapping[str, Group]) -> dict[str, frozenset[str]]:
    """Return the apps that each app waits for: what it names itself, and what the groups that it lies in name.

    A group that is named stands for every app in it. What is not there is not waited for.
    """
    named: dict[str, set[str]] = {}
    for app_id, spec in apps.items():
        inherited = (groups[group_id].dependencies for group_id in ancestors(app_id) if group_id in groups)
        if wanted := {*spec.document["dependencies"], *(item for listed in inherited for item in listed)}:
            named[app_id] = wanted
    found: dict[str, frozenset[str]] = {}
    for app_id, wanted in named.items():
        there = {item for item in wanted if item in apps}
        for group_id in wanted - there:
            there.update(other for other in apps if within(other, group_id))
        if there:
            found[app_id] = frozenset(there - ({app_id} - wanted))
    return found


def depths(apps: Mapping[str, RunSpec], groups: Mapping[str, Group]) -> dict[str, int]:
    """Return how many others, one after another, must be there before each app; apps that wait for none are left out.

    Raises InvalidApp when apps wait for one another in a circle.
    """
    waits = needs(apps, groups)
    found: dict[str, int] = {}
    open_count = Counter({app_id: len(others) for app_id, others in waits.items()})
    waited_for: dict[str, list[str]] = {}
    for app_id, others in waits.items():
        for other in others:
            waited_for.setdefault(other, []).append(app_id)
    settled = [app_id for app_id in waited_for if app_id not in waits]
    while settled:
        done = settled.pop()
        for app_id in waited_for.get(done, ()):
            found[app_id] = max(found.get(app_id, 0), found.get(done, 0) + 1)
            open_count[app_id] -= 1
            if open_count[app_id] == 0:
                settled.append(app_id)
    circle = sorted(app_id for app_id, left in open_count.items() if left > 0)
    if circle:
        sentence = "Dependency graph has cyclic dependencies."
        raise InvalidApp([Problem("/", sentence, f"{sentence} {', '.join(circle)} wait for one another", None)])
    return found
