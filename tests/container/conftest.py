"""Real containers for tests, in cgroups and folders of the test's own, and a check that nothing of them is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from mesos_gpu.container import Containerizer
from tests.support.container.box import Box


@pytest.fixture
def make_box(tmp_path: Path) -> Iterator[Callable[[], Box]]:
    """Boxes without a containerizer yet; each is looked at for leftovers at the end."""
    boxes: list[Box] = []

    def make() -> Box:
        boxes.append(Box(tmp_path / f"box{len(boxes)}"))
        return boxes[-1]

    yield make
    assert [left for box in boxes for left in box.leftovers()] == []


@pytest.fixture
async def box(make_box: Callable[[], Box]) -> AsyncIterator[Box]:
    """A box that is closed at the end, whatever the test did."""
    box = make_box()
    yield box
    await box.close()


@pytest.fixture
async def containerizer(box: Box) -> Containerizer:
    """A containerizer with four fake GPUs."""
    return await box.open()
