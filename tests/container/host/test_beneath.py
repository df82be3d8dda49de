"""Folders that a task changes while the agent, who is root, works in them."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mesos_gpu.agent.disk.sandbox import make_nested_sandbox, remove_sandbox
from mesos_gpu.container.host import beneath
from mesos_gpu.container.host.beneath import folder_at, make_folders, open_beneath
from mesos_gpu.container.host.users import HostUser, find_user
from mesos_gpu.container.life.sandbox import open_output, own_all, prepare_volumes
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.errors import MesosGpuError

TRIES = 300
ME = HostUser(os.geteuid(), os.getegid())


@pytest.fixture(params=["openat2", "folder by folder"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to look a path up: this kernel's own, and that of kernels which lack it."""
    monkeypatch.setattr(beneath._Kernel, "has_openat2", request.param == "openat2")
    return str(request.param)


@contextmanager
def swapping(place: Path, elsewhere: Path) -> Iterator[None]:
    """Have a folder and a link to `elsewhere` take turns at `place`, as fast as can be, as a sibling task may do."""
    folder, link, stop = place.with_name("the-folder"), place.with_name("the-link"), threading.Event()
    place.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)

    def swap() -> None:
        while not stop.is_set():
            for name, other in ((folder, link), (link, folder)):
                try:
                    place.rename(name)
                    other.rename(place)
                except OSError:
                    pass  # the agent was quicker

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("path", ["link", "link/inside", "a/up", "a/up/inside", "..", "a/../../elsewhere"])
def test_no_link_and_no_way_upwards_is_followed(tmp_path: Path, way: str, path: str) -> None:
    (tmp_path / "elsewhere" / "inside").mkdir(parents=True)
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "a" / "up").symlink_to("../../elsewhere")
    for flags in (beneath.FOLDER, os.O_PATH):
        with folder_at(tmp_path / "root") as root, pytest.raises(OSError) as refused:
            open_beneath(root, path, flags)
        assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV), way


def test_folders_are_made_and_those_that_are_there_stay_as_they_are(tmp_path: Path, way: str) -> None:
    (tmp_path / "old").mkdir(mode=0o700)
    with folder_at(tmp_path) as root:
        assert make_folders(root, "old/new/deep", ME, 0o750)
        assert not make_folders(root, "old/new", ME)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "old", tmp_path / "old/new/deep")]
    assert modes == [0o700, 0o750], way


@pytest.mark.root
def test_a_file_with_a_name_outside_is_not_given_away(tmp_path: Path) -> None:
    nobody = find_user("nobody")
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    (tmp_path / "shadow").touch()
    (sandbox / "mine").hardlink_to(tmp_path / "shadow")
    (sandbox / "one").touch()
    (sandbox / "two").hardlink_to(sandbox / "one")
    own_all(sandbox, nobody)
    assert (tmp_path / "shadow").stat().st_uid == os.geteuid()
    assert (sandbox / "one").stat().st_uid == nobody.uid


@pytest.mark.root
@pytest.mark.parametrize("what", ["a sandbox", "a volume", "output", "a gift", "a removal"])
def test_a_task_that_swaps_a_folder_for_a_link_gains_nothing(tmp_path: Path, way: str, what: str) -> None:
    """The agent makes, gives away and removes in `root/place`, while that is now a folder, now a link to the host's."""
    nobody = find_user("nobody")
    host, root = tmp_path / "host", tmp_path / "root"
    (host / "child").mkdir(parents=True)
    (host / "child" / "shadow").touch()
    (host / "shadow").touch()
    root.mkdir()
    before = {path: (path.stat().st_uid, path.stat().st_mode) for path in (host, *host.rglob("*"))}
    config = ContainerConfig(
        "p.c", root, ("true",), {}, "nobody", 100, 0, 0, volumes=(Volume("place/new/deep", "/mnt/x"),)
    )
    with swapping(root / "place", host):
        for number in range(TRIES):
            try:
                if what == "a sandbox":
                    shown = [(root / "place" / "seen" / str(number), root)]
                    make_nested_sandbox(root / "place" / f"new-{number}", root, shown, "nobody")
                elif what == "a volume":
                    prepare_volumes(config, nobody)
                elif what == "output":
                    os.close(open_output(root / "place" / f"out-{number}", nobody, root=root))
                elif what == "a gift":
                    own_all(root / "place" / "child", nobody, root=root)
                else:
                    remove_sandbox(tmp_path, root / "place" / "child")
            except (MesosGpuError, FileNotFoundError):
                pass  # refused, as it should be while the link is there
    assert {path: (path.stat().st_uid, path.stat().st_mode) for path in (host, *host.rglob("*"))} == before, way
