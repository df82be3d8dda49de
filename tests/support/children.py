"""The children of a process, as /proc tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the children of a process with what they were called."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                yield int(path.parent.name), (path.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()
