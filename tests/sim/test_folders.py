"""What histories keep on disk goes with them, however they end."""

from __future__ import annotations

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
