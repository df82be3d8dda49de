"""Folders that strangers filled are removed, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.agent.disk.removal import ASIDE, Remover, folder_in, left_aside, put_aside

NOBODY = 65534
RUN = "slaves/a/frameworks/f/executors/e/runs/1"


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    (tmp_path / RUN).mkdir(parents=True)
    return tmp_path / RUN


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that everybody reaches: those of pytest are root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="mesos-gpu-removal-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def remove(root: Path, path: str = RUN) -> OSError | None:
    return Remover(threading.Event()).remove(put_aside(root, path))


def test_its_name_is_free_at_once_and_then_it_is_gone_with_all_that_is_in_it(tmp_path: Path, sandbox: Path) -> None:
    (sandbox / "a" / "b").mkdir(parents=True)
    (sandbox / "a" / "b" / "file").write_text("x")
    os.mkfifo(sandbox / "pipe")
    (sandbox.parent / "latest").symlink_to("1")
    aside = put_aside(tmp_path, RUN)
    assert list(sandbox.parent.iterdir()) == []
    assert left_aside(tmp_path) == [aside]
    assert aside.parent.stat().st_mode & 0o777 == 0o700
    assert Remover(threading.Event()).remove(aside) is None
    assert left_aside(tmp_path) == []


def test_the_link_to_another_run_stays(tmp_path: Path, sandbox: Path) -> None:
    (sandbox.parent / "latest").symlink_to("2")
    put_aside(tmp_path, RUN)
    assert (sandbox.parent / "latest").readlink() == Path("2")


def test_links_are_removed_and_not_followed(tmp_path: Path, sandbox: Path) -> None:
    treasure = tmp_path / "volumes"
    treasure.mkdir()
    (treasure / "data").write_text("precious")
    (sandbox / "volume").symlink_to(treasure)
    (sandbox / "data").symlink_to(treasure / "data")
    (sandbox / "broken").symlink_to("/nowhere")
    os.link(treasure / "data", sandbox / "same")
    assert remove(tmp_path) is None
    assert (treasure / "data").read_text() == "precious"


def test_a_link_on_the_way_or_in_its_place_is_refused(tmp_path: Path, sandbox: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "containers" / "x").mkdir(parents=True)
    (sandbox / "containers").symlink_to(elsewhere / "containers")
    with pytest.raises(OSError, match="containers"):
        put_aside(tmp_path, f"{RUN}/containers/x")
    with pytest.raises(NotADirectoryError):
        put_aside(tmp_path, f"{RUN}/containers")
    with pytest.raises(OSError, match="containers"), folder_in(tmp_path, f"{RUN}/containers"):
        pass
    assert (elsewhere / "containers" / "x").is_dir()


def test_no_depth_is_too_deep(tmp_path: Path, sandbox: Path) -> None:
    at = os.open(sandbox, os.O_RDONLY)
    for _ in range(60):  # longer than any path may be
        os.mkdir("d" * 100, dir_fd=at)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    assert remove(tmp_path) is None
    assert left_aside(tmp_path) == []


def test_one_that_was_stopped_is_found_by_the_next_process(tmp_path: Path, sandbox: Path) -> None:
    (sandbox / "file").touch()
    stop = threading.Event()
    stop.set()
    assert isinstance(Remover(stop).remove(put_aside(tmp_path, RUN)), InterruptedError)
    (rest,) = left_aside(tmp_path)
    assert Remover(threading.Event()).remove(rest) is None
    assert list((tmp_path / "slaves" / ASIDE).iterdir()) == []


@pytest.mark.root
def test_who_is_not_root_gets_rid_of_what_its_tasks_locked(outside: Path) -> None:
    os.seteuid(NOBODY)
    try:
        locked = outside / RUN / "locked"
        (locked / "inner").mkdir(parents=True)
        (locked / "inner" / "file").touch()
        for folder in (locked / "inner", locked, locked.parent):
            folder.chmod(0o500 if folder == locked.parent else 0)
        assert remove(outside) is None
        assert left_aside(outside) == []
    finally:
        os.seteuid(0)


@pytest.mark.root
def test_mounts_are_not_entered_and_all_else_goes(tmp_path: Path, sandbox: Path) -> None:
    volume = tmp_path / "volumes" / "v"
    volume.mkdir(parents=True)
    (volume / "data").write_text("precious")
    (sandbox / "deep" / "mount").mkdir(parents=True)
    (sandbox / "deep" / "file").touch()
    (sandbox / "z").touch()
    subprocess.run(["mount", "--bind", volume, sandbox / "deep" / "mount"], check=True)
    aside = put_aside(tmp_path, RUN)
    problem = Remover(threading.Event()).remove(aside)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    (target,) = [line.split()[4] for line in mounts if str(tmp_path) in line]
    subprocess.run(["umount", target], check=True)
    assert problem is not None
    assert (volume / "data").read_text() == "precious"
    kept = [path for path in (tmp_path / "slaves" / ASIDE).rglob("*") if not path.is_dir()]
    assert kept == [], "files beside the mount are gone"
