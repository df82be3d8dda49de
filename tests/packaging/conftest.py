"""What is built once for the tests of this room."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.building import built, committed
from tests.packaging.debian import Debian, bootstrapped
from tests.support import places


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `./run wheels` makes, built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    built("make_wheels", folder)
    return folder


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone of this tree, with its changes that are not committed."""
    tree = tmp_path_factory.mktemp("source") / "mesos-gpu"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=places.ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if (places.ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(places.ROOT / name, tree / name)
    return committed(tree)


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
