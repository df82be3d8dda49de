"""Whether a command's process is like the helper's, as far as a child cannot be made so. Pure.

A child of the helper has its user and groups, capabilities, namespaces and root, the session that the kernel books for
the auditors, and the limits of its security module. Where a command has others, it is carried out by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from marathon_cli.resident.choice import LOADER

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts")
_STATUS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
"""Lines of /proc/PID/status. Source: proc(5)."""


def status_lines(text: str) -> dict[str, str]:
    """Return the lines of /proc/PID/status by their names."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def who(status: Mapping[str, str]) -> dict[str, str]:
    """Return who a process is and what it may do, from the lines of its status."""
    return {name: " ".join(status.get(name, "").split()) for name in _STATUS}


def unlike(ours: Mapping[str, object], theirs: Mapping[str, object]) -> str | None:
    """Return the name of the first thing in which two processes differ; None when they are alike."""
    return next((name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)), None)


def loaded_with(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables that count before a child of the helper begins."""
    starts = tuple(start.encode() for start in LOADER)
    return {name: value for name, value in environ.items() if name.startswith(starts)}


def signal_set(mask: str) -> frozenset[int]:
    """Return the numbers of the signals in a mask of /proc/PID/status, such as SigIgn."""
    bits = int(mask or "0", 16)
    return frozenset(number + 1 for number in range(bits.bit_length()) if bits >> number & 1)
