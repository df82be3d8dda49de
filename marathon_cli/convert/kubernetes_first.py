"""Containers that a pod runs before the others: first steps of the command where they can be, else noted. Pure.

A task has one image. What runs before in the same image can be the first step of its command; what needs another image
cannot. One that stays (a sidecar, restartPolicy Always) is a container like the others. Source: the Kubernetes
documentation of init containers and of sidecars.
"""

from __future__ import annotations

from collections.abc import Sequence

from marathon_cli.convert.kubernetes_container import read_container
from marathon_cli.convert.kubernetes_volumes import Volumes
from marathon_cli.convert.model import Container, Mount, Notes
from marathon_cli.convert.shell import join
from marathon_cli.convert.source import Section

_OTHERWISE = "put what it does into the image or into the command, `fetch` its files, or run it as a job before"


def read_first(items: Sequence[Section], containers: list[Container], volumes: Volumes, notes: Notes) -> None:
    """Make the `initContainers` of a pod part of its `containers`; what cannot be, is noted. Raises BadInput."""
    mains = list(containers)
    for item in items:
        stays = item.text("restartPolicy") == "Always"
        first = read_container(item, volumes, notes)
        if stays:
            notes.check(first.at, f"{first.name} starts together with the others, not before them")
            containers.append(first)
            continue
        why = _obstacle(first, mains)
        if why is not None:
            notes.lost(item.place, f"{first.name}, which runs before the others: {why}")
            continue
        _join(first, mains[0], notes)


def _obstacle(first: Container, mains: Sequence[Container]) -> str | None:
    """Return why a container cannot be the first step of the command of the only other one."""
    if len(mains) != 1:
        return f"the containers of a pod start together; {_OTHERWISE}"
    (main,) = mains
    if first.image != main.image:
        return f"its image {first.image} is not that of {main.name}, and a task has one image; {_OTHERWISE}"
    if not first.entrypoint:
        return "the program of its image is not known here; name it (command), then it can be the command's first step"
    if not main.entrypoint:
        return f"the program of {main.name}'s image is not known here; name it (command), then this can run before it"
    if first.user not in (None, main.user):
        return f"it runs as {first.user}, and a task's command runs as one user"
    return None


def _join(first: Container, main: Container, notes: Notes) -> None:
    """Let `main` run what `first` runs before its own program."""
    for mount in first.mounts:
        if not any(_same(mount, other) for other in main.mounts):
            if any(mount.path == other.path for other in main.mounts):
                notes.lost(mount.at, f"{main.name} has another volume at {mount.path}")
            else:
                main.mounts.append(mount)
    own = [f"{name}={value}" for name, value in first.env.items() if main.env.get(name) != value]
    line = join([*(["env", *own] if own else []), *(first.entrypoint or []), *first.args])
    main.before += [*first.before, f"(cd {join([first.workdir])} && {line})" if first.workdir else line]
    for name, more in (("gpus", first.gpus), ("cpus", first.cpus), ("mem_mib", first.mem_mib)):
        least = getattr(main, name)
        if more is not None and least is not None and more > least:
            setattr(main, name, more)
    notes.check(first.at, f"the first step of {main.name}'s command, in its container and each time that it starts")


def _same(one: Mount, other: Mount) -> bool:
    return (one.path, one.host, one.empty) == (other.path, other.host, other.empty)
