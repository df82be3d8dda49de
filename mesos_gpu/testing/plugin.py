"""The pytest plugin: the fixtures `mesos_box` and `mesos_box_factory`.

Loaded by pytest in every run of everybody who has this package, so it imports nothing before a test asks for a box.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mesos_gpu.testing.factory import BoxFactory


@pytest.fixture(scope="session")
def mesos_box_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxFactory]:
    """Makes Mesos boxes that live until the end of the run, for fixtures of a wider scope than one test.

    `box = mesos_box_factory(gpus=4, agents=2)`; `box.down()` ends one earlier.
    """
    from mesos_gpu.testing.factory import BoxFactory, Home

    home = Home(tmp_path_factory.mktemp("mesos-box"), pytest.skip)
    factory = BoxFactory(home)
    try:
        yield factory
        factory.close()
    finally:
        home.close()


@pytest.fixture
def mesos_box(mesos_box_factory: BoxFactory, request: pytest.FixtureRequest) -> Iterator[BoxFactory]:
    """Makes Mesos boxes for one test: `box = mesos_box(gpus=4, agents=2)`; they are gone when it ends.

    What their services logged is shown with a test that fails.
    """
    factory = type(mesos_box_factory)(mesos_box_factory.home)
    try:
        yield factory
        if request.config.getoption("capture") != "no":
            for box in factory.boxes:
                print(box.logs())
    finally:
        factory.close()
