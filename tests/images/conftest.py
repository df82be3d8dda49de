from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.images.registry import registry, shared_registry

__all__ = ["registry", "shared_registry", "small_disk"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 256 KiB; needs root."""
    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "small", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)
