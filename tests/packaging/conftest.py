"""What is built once for the tests of this room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.building import built
from tests.packaging.debian import Debian, bootstrapped


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `./run wheels` makes, built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    built("make_wheels", folder)
    return folder


@pytest.fixture(scope="session")
def package(dist: Path) -> Path:
    """The Debian package of this tree."""
    built("make_deb", dist)
    return next(dist.glob("*.deb"))


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """A fresh Debian; a test leaves nothing of ours in it."""
    root = tmp_path_factory.mktemp("debian")
    yield bootstrapped(root)
    shutil.rmtree(root)
