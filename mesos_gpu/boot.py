"""This run of the machine, by the name that its kernel gives it."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id() -> str:
    """Return the kernel's name for this boot of the machine: another after each (proc(5), random)."""
    return _BOOT_ID.read_text(encoding="ascii").strip()
