"""A whole box for tests: real services, real containers, and nothing left behind afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.box.images import images_box, pulling, standing_registry
from tests.support.box.live import LiveBox, Standing, nothing_left
from tests.support.disk import disk

__all__ = ["box", "disk", "images_box", "new_box", "own_box", "pulling", "standing", "standing_registry"]


@pytest.fixture
def new_box(tmp_path: Path) -> Iterator[LiveBox]:
    """A box that is not up yet; whatever became of it, nothing of it is left afterwards."""
    box = LiveBox(tmp_path / "box")
    nodes = set(Path("/dev").glob("nvidia*"))
    with nothing_left(box):
        yield box
    assert set(Path("/dev").glob("nvidia*")) == nodes


@pytest.fixture
def own_box(new_box: LiveBox) -> LiveBox:
    """A box that is up, with 4 simulated GPUs, and this test's alone."""
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=4")
    return new_box


@pytest.fixture(scope="package")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    nodes = set(Path("/dev").glob("nvidia*"))
    made = Standing(tmp_path_factory.mktemp("standing"))
    yield made
    made.down()
    assert set(Path("/dev").glob("nvidia*")) == nodes


@pytest.fixture
def box(standing: Standing) -> Iterator[LiveBox]:
    """A box that is up, with 4 simulated GPUs. Others had it before and will have it: what runs on it is removed."""
    yield standing.box()
    standing.clean()
