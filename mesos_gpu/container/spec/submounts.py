"""What is mounted below folders that a container in a user namespace is shown, told to the runtime one by one. Pure.

crun copies each folder before the user namespace is there, and leaves out what is mounted below it (1.8.1, also with
`rbind`); what its bundle names besides is mounted. runc copies all, and does it twice so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct


class Submount(Struct, frozen=True):
    """A mount at `path` below a folder; `flags` are those that it must keep: a user namespace may take none away."""

    path: str
    flags: tuple[str, ...]


def with_mounts(mounts: Sequence[dict[str, Any]], below: Mapping[str, Sequence[Submount]]) -> Iterator[dict[str, Any]]:
    """Yield the mounts of a bundle, behind each what is mounted below its source. Outermost ones come first."""
    for mount in mounts:
        yield mount
        for inner in below.get(mount.get("source", ""), ()):
            yield {
                "destination": f"{mount['destination'].rstrip('/')}/{inner.path}",
                "type": "bind",
                "source": f"{mount['source']}/{inner.path}",
                "options": ["rbind", *inner.flags],
            }
