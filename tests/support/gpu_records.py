"""What isolators leave in their folders of records."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.isolator.record_folder import LOCK


def records_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder of records, apart from the file that is its lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK)
