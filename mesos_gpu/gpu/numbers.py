"""Which major numbers this kernel has given to which drivers: /proc/devices."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.errors import DeviceError

PROC_DEVICES = Path("/proc/devices")


def character_majors(text: str) -> dict[str, int]:
    """Return major numbers by driver name from the text of /proc/devices; block devices are another space of numbers.

    A driver may own several majors (`tty`, `/dev/tty`); the names are whole, the first line of a name wins.
    """
    majors: dict[str, int] = {}
    of_characters = False
    for line in text.splitlines():
        if line.endswith(":"):
            of_characters = line == "Character devices:"
            continue
        major, _, name = line.strip().partition(" ")
        if of_characters and major.isdigit() and name:
            majors.setdefault(name, int(major))
    return majors


def read_character_majors(path: Path = PROC_DEVICES) -> dict[str, int]:
    """Return `character_majors` of the file at `path`. Raises DeviceError when it cannot be read."""
    try:
        return character_majors(path.read_text(encoding="ascii", errors="replace"))
    except OSError as error:
        raise DeviceError(f"cannot read {path}: {error.strerror}") from error
