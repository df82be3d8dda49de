"""Helpers for the folders of records of isolators."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.isolator.record_folder import LOCK


def records_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder of records, except the lock file."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK)
