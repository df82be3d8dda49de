"""Genuine masters for this room, and boxes around them.

The suite runs each test on the oldest and the newest release, `./run test thorough` on one more, and
`./run test any-mesos` (MESOS_RELEASES=all) on every one that PyPI has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing.client import ForkServerClient
from tests.genuine.box import GenuineBox, MakeBox
from tests.genuine.frameworks import Framework, MakeFramework
from tests.genuine.python2_packages import PESOS, PROGRAMS, installed, python2
from tests.genuine.releases import CHOSEN, RELEASES, Missing, Release, cannot, open_release
from tests.support.zookeeper import zookeeper

__all__ = ["zookeeper"]


@pytest.fixture(scope="module", params=CHOSEN, ids=lambda version: f"mesos-{version}")
def release(request: pytest.FixtureRequest) -> Release:
    """Each chosen release in turn; those `since` one, where a test says so."""
    return opened(request.param)


@pytest.fixture(scope="module")
def newest() -> Release:
    """The newest release, for what does not depend on which it is."""
    return opened(RELEASES[-1])


@pytest.fixture
def releases() -> Callable[[str], Release]:
    """Any release, by its version."""
    return opened


def opened(version: str) -> Release:
    try:
        return open_release(version)
    except Missing as missing:
        cannot(str(missing))


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerClient]:
    client = ForkServerClient(tmp_path_factory.mktemp("genuine") / "fork-server.log")
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def make_box(nursery: ForkServerClient, tmp_path: Path) -> Iterator[MakeBox]:
    """Makes boxes under a release, with the wishes of BoxWishes; all of them end with the test."""
    boxes: list[GenuineBox] = []

    def make(release: Release, **wishes: Any) -> GenuineBox:
        boxes.append(GenuineBox(nursery, tmp_path / f"box{len(boxes)}", release, **wishes))
        return boxes[-1]

    try:
        yield make
    finally:
        while boxes:
            boxes.pop().down()


@pytest.fixture
def make_framework(tmp_path: Path) -> Iterator[MakeFramework]:
    """Makes programs with drivers of a release of Mesos, or of pesos; all of them end with the test."""
    made: list[Framework] = []

    def make(kind: str, **variables: str) -> Framework:
        try:
            release = None if kind == "pesos" else open_release(kind)
            made.append(Framework(release, tmp_path / "framework.log", variables))
        except Missing as missing:
            cannot(str(missing))
        return made[-1]

    yield make
    for framework in made:
        framework.close()


@pytest.fixture(scope="session")
def pesos_command() -> Document:
    """Return the CommandInfo of an executor over pesos."""
    try:
        program, packages = python2(), installed(*PESOS)
    except Missing as missing:
        cannot(str(missing))
    variables = {"PYTHONPATH": str(packages), "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    shown = [{"name": name, "value": value} for name, value in variables.items()]
    return {"value": f"exec {program} {PROGRAMS / 'executor.py'}", "environment": {"variables": shown}}
