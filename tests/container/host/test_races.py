"""Races against what we do in folders that tasks can change, by the hundred thousand.

Each of them is the heart of a published escape: a path that was looked at is another one when it is used. A try is one
call of ours while a program swaps a folder for a link to the host's some hundred thousand times a second. In CI 135 000
tries, ten times as many with HYPOTHESIS_PROFILE=deep. Sources: CVE-2021-30465, CVE-2025-31133, CVE-2025-52565,
CVE-2025-52881 (opencontainers/runc), CVE-2024-0132, CVE-2025-23359, CVE-2025-23267 (NVIDIA/nvidia-container-toolkit).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mesos_gpu.agent.disk.sandbox import make_nested_sandbox
from mesos_gpu.container.host import beneath
from mesos_gpu.container.host.beneath import folder_at, open_beneath
from mesos_gpu.container.host.sources import Source, _open
from mesos_gpu.container.host.users import find_user
from mesos_gpu.container.life.sandbox import open_output, own_all, prepare_volumes
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.doors.oci import injection
from mesos_gpu.errors import MesosGpuError
from mesos_gpu.process.files import Place
from tests.support.container.races import Arena, compiled
from tests.support.histories import examples

pytestmark = [pytest.mark.root, pytest.mark.slow]

NOBODY = find_user("nobody")
PATIENCE_S = 60.0
Try = Callable[[Arena, int], None]
"""One try, which raises what refuses it, or AssertionError when it came out at the host."""


@pytest.fixture(scope="module")
def swapper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("swapper"))


@pytest.fixture
def arena(tmp_path: Path, swapper: Path) -> Arena:
    return Arena(tmp_path, swapper)


def _closed(arena: Arena, descriptor: int) -> None:
    try:
        assert not arena.is_outside(descriptor), "the host's was opened"
    finally:
        os.close(descriptor)


def look_up(arena: Arena, number: int) -> None:
    path = ("place/child", "place", "place/child/deep", "place/child/../child")[number % 4]
    with folder_at(arena.root) as root:
        _closed(arena, open_beneath(root, path))


def look_up_a_file(arena: Arena, number: int) -> None:
    with folder_at(arena.root) as root:
        _closed(arena, open_beneath(root, "data", os.O_RDONLY))


def source_of_a_volume(arena: Arena, number: int) -> None:
    """What is mounted is what was opened here."""
    _closed(arena, _open(Source(arena.place / "child", arena.root)))


def source_file_of_a_volume(arena: Arena, number: int) -> None:
    _closed(arena, _open(Source(arena.data, arena.root)))


def output(arena: Arena, number: int) -> None:
    _closed(arena, open_output(arena.place / ("out", f"new-{number % 50}")[number % 2], NOBODY, root=arena.root))


def gift(arena: Arena, number: int) -> None:
    own_all(arena.place / "child", NOBODY, root=arena.root)


def gift_of_files(arena: Arena, number: int) -> None:
    own_all(arena.root, NOBODY)


def folders_of_a_volume(arena: Arena, number: int) -> None:
    volume = Volume(f"place/new-{number % 50}/deep", "/mnt/x")
    prepare_volumes(ContainerConfig("p.c", arena.root, ("true",), {}, "nobody", 100, 0, 0, volumes=(volume,)), NOBODY)


def nested_sandbox(arena: Arena, number: int) -> None:
    make_nested_sandbox(arena.place / f"nested-{number}", arena.root, (), "nobody")


def read_over_http(arena: Arena, number: int) -> None:
    place = Place(("/sandbox/place/shadow", "/sandbox/data")[number % 2], "/sandbox", str(arena.root))
    data = place.read(0, None)[1]
    assert b"host" not in data, "a file of the host was read"


def place_of_the_driver(arena: Arena, number: int) -> None:
    """The OCI hook's look-ups, where a link leads to what is in the container's root."""
    root = os.open(arena.root, injection._FOLDER)
    try:
        with ExitStack() as closing:
            found = injection._folder(root, ("place/child", "place", "place/child/deep")[number % 3], closing)
            assert not arena.is_outside(found), "the driver's files would cover the host's"
    finally:
        os.close(root)


REFUSALS = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EXDEV, errno.EPERM, errno.EEXIST)
BOTH = ("openat2", "folder by folder")
RACES: tuple[tuple[Try, tuple[str, ...], int], ...] = (
    (look_up, BOTH, 15_000),
    (look_up_a_file, BOTH, 10_000),
    (source_of_a_volume, BOTH, 10_000),
    (source_file_of_a_volume, BOTH, 10_000),
    (output, BOTH, 5_000),
    (folders_of_a_volume, BOTH, 2_500),
    (gift, BOTH, 1_500),
    (gift_of_files, BOTH, 1_000),
    (nested_sandbox, BOTH, 1_000),
    (read_over_http, ("its own",), 10_000),
    (place_of_the_driver, ("openat2",), 13_000),
)
"""Each with the ways that it looks paths up, the kernel's own and that of kernels which lack it, and its tries."""
FILES = (look_up_a_file, source_file_of_a_volume, gift_of_files)


def test_there_are_as_many_tries_as_the_page_of_walls_says() -> None:
    assert sum(len(ways) * tries for _, ways, tries in RACES) == 135_000


@pytest.mark.parametrize(
    ("attempt", "way", "tries"),
    [pytest.param(a, way, tries, id=f"{a.__name__}-{way}") for a, ways, tries in RACES for way in ways],
)
def test_no_race_leads_to_the_host(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, attempt: Try, way: str, tries: int
) -> None:
    monkeypatch.setattr(beneath._Kernel, "has_openat2", way != "folder by folder")
    taken = arena.data if attempt in FILES else arena.place
    never_refused = attempt in (gift_of_files, place_of_the_driver)
    came_in, refused, number = 0, 0, 0
    end = time.monotonic() + PATIENCE_S
    with arena.swapping(taken, taken.with_name(f"other-{taken.name}")):
        # A busy machine may give the attacker no turn for a while: it is a race only when both were met.
        while number < _scaled(tries) or (not (came_in and (refused or never_refused)) and time.monotonic() < end):
            number += 1
            try:
                attempt(arena, number)
                came_in += 1
            except MesosGpuError:
                refused += 1
            except OSError as error:
                if error.errno not in REFUSALS:
                    raise
                refused += 1
    assert arena.look() == arena.before
    assert came_in, "the folder was never there: this was no race"
    assert refused or never_refused, "the link was never there: this was no race"
    assert arena.turns > 10, "nothing was swapped: this was no race"


def _scaled(tries: int) -> int:
    """Return how many tries the profile wants: 135 000 are all of CI's, 1 350 000 all of `deep`."""
    return max(1, min(examples(tries), 10 * tries))


def test_who_looks_first_and_opens_then_is_led_astray(arena: Arena) -> None:
    """The same race against code that is written as it should not be: it is lost, so it is a race."""
    with arena.swapping(arena.place, arena.root / "other-place"):
        for _ in range(1_000_000):
            if arena.place.is_symlink():
                continue
            try:
                descriptor = os.open(arena.place / "child", os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            lost = arena.is_outside(descriptor)
            os.close(descriptor)
            if lost:
                return
    pytest.fail(f"a million tries and {arena.turns} turns, and the host was never opened")
