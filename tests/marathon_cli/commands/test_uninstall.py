"""`uninstall` says what it removes and what is left to do, and asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from marathon_cli.commands.uninstall import how_to_remove
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


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("environment/pipx_metadata.json", "pipx uninstall mesos-gpu"),
        ("environment/uv-receipt.toml", "uv tool uninstall mesos-gpu"),
        ("run", "{clone}/run uninstall"),
        ("other", "{clone}/environment/bin/python -m pip uninstall mesos-gpu"),
    ],
)
def test_the_command_that_removes_the_program_depends_on_what_installed_it(
    tmp_path: Path, file: str, command: str
) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / file).touch()
    if file == "run":
        (tmp_path / "marathon_cli").mkdir()
    assert how_to_remove(tmp_path / "environment") == command.format(clone=tmp_path)


def test_the_debian_package_is_removed_by_apt() -> None:
    assert how_to_remove(Path("/usr/lib/mesos-gpu")) == "apt purge mesos-gpu"
