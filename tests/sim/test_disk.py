"""What a power cut makes of names: what was removed may be there again, unless its folder was synced since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
