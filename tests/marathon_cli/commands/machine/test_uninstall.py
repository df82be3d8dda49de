"""`uninstall` says what it removes and what is left to do, and asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Run


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "etc/mesos-gpu").mkdir(parents=True)
    (tmp_path / "etc/mesos-gpu/doors.json").write_text("{}")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.bashrc").write_text('eval "$(mesos-gpu completion bash)"\n')
    return tmp_path


def test_nothing_is_removed_unless_somebody_says_so(run: Run, machine: Path, golden: Golden) -> None:
    for words, status in ((("--dry-run",), 0), ((), 1)):
        done = run("uninstall", "--root", str(machine), *words)
        assert done.exit_code == status
        assert done.output == golden
        assert (machine / "etc/mesos-gpu/doors.json").exists()


def test_what_was_set_up_is_removed_and_a_second_time_there_is_nothing(run: Run, machine: Path, golden: Golden) -> None:
    assert run("uninstall", "--root", str(machine), "--yes").exit_code == 0
    assert not (machine / "etc/mesos-gpu").exists()
    again = run("uninstall", "--root", str(machine), "--yes")
    assert (again.exit_code, again.output) == (0, golden)
