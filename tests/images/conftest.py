from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mesos_gpu.images.store import ImageStore
from tests.support.images.registry import RealRegistry
from tests.support.images.store import Watched, opened


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


@pytest.fixture(scope="session")
def shared_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """One registry for many tests; give images names of their own."""
    with RealRegistry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RealRegistry]:
    """A registry for one test, which may stop it and damage its storage."""
    with RealRegistry(tmp_path / "registry") as registry:
        yield registry


@pytest.fixture
def archives(tmp_path: Path) -> Watched:
    (tmp_path / "archives").mkdir()
    return Watched(tmp_path / "archives")


@pytest.fixture
async def store(tmp_path: Path, archives: Watched) -> AsyncIterator[ImageStore]:
    async with opened(tmp_path / "store", archives) as store:
        yield store
