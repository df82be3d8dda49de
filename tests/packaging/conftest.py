"""What is built once for the tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.building import built


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `./run wheels` makes, built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    built("make_wheels", folder)
    return folder
