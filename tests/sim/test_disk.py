"""What a power cut makes of names: what was removed may be there again, unless its folder was synced since."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.disk import Disk
from tests.sim.paces import PACES, Pacing
from tests.sim.world import World


def cut(root: Path, seed: int, begin: Callable[[Disk, Path], None]) -> set[str]:
    """Return what is there after a power cut."""
    world = World(seed, root, Pacing(PACES["dense"], seed))
    disk = Disk(world, root / "host")
    begin(disk, disk.root)
    disk.power_cut()
    world.loop.close()
    return {str(path.relative_to(disk.root)) for path in disk.root.rglob("*")}


def outcomes(tmp_path: Path, begin: Callable[[Disk, Path], None]) -> set[frozenset[str]]:
    """Return all that may come of it."""
    return {frozenset(cut(tmp_path / str(seed), seed, begin)) for seed in range(40)}


def kept(disk: Disk, path: Path, text: str = "text") -> None:
    """Make a file that is on the disk, with its name."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    for synced in (path, path.parent, disk.root):
        disk.synced(str(synced))


def test_a_file_that_was_removed_may_be_there_again(tmp_path: Path) -> None:
    def begin(disk: Disk, root: Path) -> None:
        kept(disk, root / "file")
        (root / "file").unlink()

    assert outcomes(tmp_path, begin) == {frozenset(), frozenset({"file"})}


def test_it_is_not_when_its_folder_was_synced_since(tmp_path: Path) -> None:
    def begin(disk: Disk, root: Path) -> None:
        kept(disk, root / "file")
        (root / "file").unlink()
        disk.synced(str(root))

    assert outcomes(tmp_path, begin) == {frozenset()}


def test_what_was_renamed_has_one_of_its_names(tmp_path: Path) -> None:
    def begin(disk: Disk, root: Path) -> None:
        kept(disk, root / "old")
        (root / "old").rename(root / "new")

    assert outcomes(tmp_path, begin) == {frozenset({"old"}), frozenset({"new"})}


def test_of_a_folder_that_was_removed_some_names_may_be_there_again(tmp_path: Path) -> None:
    def begin(disk: Disk, root: Path) -> None:
        kept(disk, root / "folder" / "file")
        (root / "folder" / "link").symlink_to("file")
        disk.synced(str(root / "folder"))
        for name in ("file", "link"):
            (root / "folder" / name).unlink()
        (root / "folder").rmdir()

    found = outcomes(tmp_path, begin)
    assert frozenset() in found
    assert frozenset({"folder"}) in found
    assert frozenset({"folder", "folder/file", "folder/link"}) in found
    assert all("folder" in names or not names for names in found)


def test_what_is_there_again_has_what_was_synced_of_it(tmp_path: Path) -> None:
    def begin(disk: Disk, root: Path) -> None:
        kept(disk, root / "file", "synced")
        (root / "file").unlink()

    for seed in range(40):
        root = tmp_path / str(seed)
        if cut(root, seed, begin):
            assert (root / "host" / "file").read_text() == "synced"


def test_another_disk_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    def begin(disk: Disk, root: Path) -> None:
        kept(disk, root / "folder" / "file")
        disk.replaced()

    assert outcomes(tmp_path, begin) == {frozenset()}


ROOT = Path(__file__).parents[2]
SAYS = """
import re, sys
from pathlib import Path
from tests.sim import pages
kept = [bytes(1000) for _ in range(20_000)]
pages.enlarge()
kept += [bytes(1000) for _ in range(20_000)]
begin, _ = pages.heap()
large = 0
for part in re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
    if part.splitlines()[0].endswith("[heap]"):
        large += int(re.search(r"AnonHugePages: +([0-9]+) kB", part)[1])
print(large, all(one == bytes(1000) for one in kept))
"""


def played(**more: str) -> str:
    environment = {**os.environ, **more}
    command = [sys.executable, "-c", SAYS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def given() -> bool:
    """Tell whether this kernel gives large pages to who asks for them."""
    switch = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return switch.exists() and re.search(r"\[(always|madvise)\]", switch.read_text()) is not None


@pytest.mark.skipif(not given(), reason="this kernel gives no large pages")
def test_the_heap_lies_in_large_pages() -> None:
    large_kib, whole = played(PYTHONMALLOC="malloc").split()
    assert whole == "True"
    assert int(large_kib) > 20_000  # some of 40 MB may not be had at once


def test_whose_objects_lie_elsewhere_loses_nothing() -> None:
    assert played(PYTHONMALLOC="pymalloc").split()[1] == "True"
