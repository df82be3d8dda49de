"""One browser and one box for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.box.live import LiveBox, leftovers
from tests.support.ui.browser import NewReader, Reader, running


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with running() as found:
        yield found


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    """A box with two machines of 2 simulated GPUs each."""
    box = LiveBox(tmp_path_factory.mktemp("page") / "box")
    nodes = set(Path("/dev").glob("nvidia*"))
    box.up("--gpu_driver=simulated", "--simulated_gpus=2", "--agents=2")
    yield box
    done = box.cli("down")
    assert done.returncode == 0, f"{done.stderr}\n{box.logs()}"
    assert leftovers(box.work_dir) == []
    assert set(Path("/dev").glob("nvidia*")) == nodes


@pytest.fixture
def new_reader(browser: Browser, site: LiveBox) -> Iterator[NewReader]:
    readers: list[Reader] = []

    def make(**wishes: Any) -> Reader:
        readers.append(Reader.of(browser, site.status()["marathon"]["url"], **wishes))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


@pytest.fixture
def reader(new_reader: NewReader) -> Reader:
    return new_reader()
