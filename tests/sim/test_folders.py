"""What histories keep on disk goes with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sim import folders
from tests.sim.folders import own_folder, sweep

ROOT = Path(__file__).parents[2]
HOLDS = """
import sys, time
from pathlib import Path
from tests.sim.folders import own_folder
with own_folder(Path(sys.argv[1])) as folder:
    (folder / "file").write_text("")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have none of the folders be young."""
    monkeypatch.setattr(folders, "_now", lambda: time.time() + 2 * folders.YOUNG_S)


def test_a_folder_is_gone_when_its_maker_is_done(tmp_path: Path) -> None:
    with own_folder(tmp_path) as folder:
        assert sweep(tmp_path) == []
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_has_left_is_swept_and_no_other(tmp_path: Path) -> None:
    made = subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert made.stdout is not None
        folder = Path(made.stdout.readline().strip())
        assert sweep(tmp_path) == []
    finally:
        made.kill()
        made.communicate()
    (tmp_path / "another").mkdir()
    assert sweep(tmp_path) == [folder]
    assert [entry.name for entry in tmp_path.iterdir()] == ["another"]


def test_what_is_young_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_now", time.time)
    (tmp_path / f"{folders.PREFIX}x").mkdir()
    assert sweep(tmp_path) == []


def _owned(pid: int) -> list[Path]:
    """Return the folders that a process holds open."""
    held = [entry.readlink() for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return [path for path in held if path.name.startswith(folders.PREFIX)]


def test_a_hunt_that_is_ended_leaves_no_folder_and_no_process() -> None:
    command = [sys.executable, "-m", "tests.sim", "--seed", "1", "--seeds", "9", "--jobs", "1", "--log"]
    hunt = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert hunt.stdout is not None
    with hunt.stdout:
        next(line for line in hunt.stdout if "process master" in line)
        made = _owned(hunt.pid)
        hunt.send_signal(signal.SIGTERM)
        # It ends when the last of them has let go of it.
        hunt.stdout.read()
    assert hunt.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.killpg(hunt.pid, 0)
    assert made
    assert not any(folder.exists() for folder in made)
