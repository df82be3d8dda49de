"""How much of the disk a container's sandbox takes, and whether that is more than it was given: Mesos' disk/du.

Source: Mesos src/slave/containerizer/mesos/isolators/posix/disk.cpp.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from mesos_gpu.container.host.beneath import FOLDER, open_beneath

BLOCK = 512
"""What st_blocks counts; stat(2)."""
LONG_PATH = 2000
"""A path of more bytes is opened and gone on from: with one more name (255) it is well below PATH_MAX, 4096."""


class DiskRules(Struct, frozen=True):
    """How often sandboxes are measured, and whether a container above its quota is ended or only shown."""

    interval_s: float = 15.0
    enforce: bool = False


def used_bytes(folder: Path) -> int:
    """Return what `du` says of a folder: the blocks of all in it, a file with several names once, links not followed.

    What goes while it is looked at does not count. However deep a task makes its folders, all is found: no path is
    longer than the kernel takes (PATH_MAX), since folders far down are opened, and gone on from.
    """
    total, seen = folder.lstat().st_blocks * BLOCK, set[tuple[int, int]]()
    opened = [(os.open(folder, FOLDER), [""])]
    try:
        while opened:
            around, paths = opened[-1]
            if not paths:
                os.close(opened.pop()[0])
                continue
            path = paths.pop()
            try:
                at = open_beneath(around, path)
            except OSError:
                continue
            if len(os.fsencode(path)) > LONG_PATH:
                opened.append((at, [""]))
                continue
            try:
                with os.scandir(at) as listing:
                    total += sum(_sizes(listing, path, paths, seen))
            except OSError:
                continue
            finally:
                os.close(at)
    finally:
        for around, _ in opened:
            os.close(around)
    return total


def _sizes(
    listing: Iterable[os.DirEntry[str]], path: str, folders: list[str], seen: set[tuple[int, int]]
) -> Iterator[int]:
    """Yield what each of a folder takes that is not among those `seen`, and note the folders in it."""
    for entry in listing:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode):
            folders.append(f"{path}/{entry.name}" if path else entry.name)
        elif found.st_nlink > 1:
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
        yield found.st_blocks * BLOCK


class OverQuota(Struct, frozen=True):
    """What was found that ends a container, in bytes."""

    used: int
    limit: int


async def watch_disk(
    folder: Path, limit_bytes: Callable[[], int], rules: DiskRules, note: Callable[[int], None]
) -> OverQuota:
    """Measure again and again, telling `note`; return what is more than the limit of that moment."""
    while True:
        used = await asyncio.to_thread(used_bytes, folder)
        note(used)
        limit = limit_bytes()
        if rules.enforce and used > limit:
            return OverQuota(used, limit)
        await asyncio.sleep(rules.interval_s)


def size_text(number: int) -> str:
    """Return bytes as Mesos prints them: in the largest unit that loses nothing."""
    for unit, name in ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if number and number % unit == 0:
            return f"{number // unit}{name}"
    return f"{number}B"


def over_quota(found: OverQuota) -> str:
    """Return what is said of a container that was ended for its disk."""
    return f"Disk usage ({size_text(found.used)}) exceeds quota ({size_text(found.limit)})"
