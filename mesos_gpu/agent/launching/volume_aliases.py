"""A persistent volume of a task, shown at a second place: what a host path within the sandbox may lead to. Pure.

A persistent volume is mounted in the sandbox, `data`, and an image's program wants it at `/data`: a volume of the host
path `data` shows it there. Mesos binds the sandbox with what is mounted in it (filesystem/linux before
volume/sandbox_path); an OCI runtime binds from the host, where that mount is not, so the volume's own folder is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from mesos_gpu.container.spec.config import Volume


def shown(volumes: Iterable[Volume], persistent: Sequence[Volume]) -> tuple[Volume, ...]:
    """Return the volumes; one whose source is a persistent volume's place in the sandbox shows that volume."""
    folders = {_parts(v.destination): v for v in persistent if not v.destination.startswith("/")}
    found = []
    for volume in volumes:
        kept = None if volume.source.startswith("/") else folders.get(_parts(volume.source))
        if kept is not None:
            volume = replace(volume, source=kept.source, read_only=volume.read_only or kept.read_only)
        found.append(volume)
    return tuple(found)


def problem(volumes: Iterable[Volume], persistent: Iterable[Volume]) -> str | None:
    """Return why volumes cannot be shown: a folder within a persistent volume is its owner's to link anywhere."""
    places = [volume.destination for volume in persistent if not volume.destination.startswith("/")]
    for volume in volumes:
        source = () if volume.source.startswith("/") else _parts(volume.source)
        for place in places:
            if len(source) > len(_parts(place)) and source[: len(_parts(place))] == _parts(place):
                return (
                    f"The volume at {volume.destination}: {volume.source} lies within the persistent volume {place}, "
                    "which can be shown elsewhere as a whole only"
                )
    return None


def _parts(path: str) -> tuple[str, ...]:
    """Return the names on a path, without `.` and with `..` led back."""
    found: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return tuple(found)
