"""The mounts that a thread sees: /proc/thread-self/mountinfo, of which proc(5) gives the format."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""How mountinfo writes blanks and backslashes in a path."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount: where it is, what it is, the options of its file system, and its own flags.

    `root` is the part of its file system that is mounted; `number` is the kernel's id, as in /proc/PID/fdinfo.
    """

    path: str
    kind: str
    options: tuple[str, ...]
    shared: bool
    flags: tuple[str, ...] = field(default=(), compare=False)
    number: str = field(default="", compare=False)
    root: str = field(default="/", compare=False)


def read_mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts that a mountinfo file lists, decoded as latin-1, in the order they were made."""
    mounts = []
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        fields, (kind, _, options) = head.split(), tail.split(" ", 2)
        shared = any(field.startswith("shared:") for field in fields[6:])
        mounts.append(
            Mount(
                _unescaped(fields[4]),
                kind,
                tuple(options.split(",")),
                shared,
                flags=tuple(fields[5].split(",")),
                number=fields[0],
                root=_unescaped(fields[3]),
            )
        )
    return tuple(mounts)


def current_mounts() -> tuple[Mount, ...]:
    """Return this thread's mounts, in the order they were made."""
    return read_mounts(Path("/proc/thread-self/mountinfo").read_text("latin-1"))


def _unescaped(path: str) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), path.encode("latin-1")))
