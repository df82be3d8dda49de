"""`./run` installs into one environment, in steps that neither forget nor repeat what another has done."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.golden import Golden
from tests.support.places import ROOT

PYTHON = """#!/bin/sh
# A Python that makes environments of itself and writes down what it is asked for.
case "$1 $2" in
    "-c "*) exit ;;
    "tools/make_codec.py "*) [ ! -e no-compiler ] || { echo "no C compiler is here" >&2; exit 1; } ;;
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && : >"$3/bin/pip" && chmod +x "$3/bin/pip"
        touch "$3/bin/mesos-gpu" "$3/bin/mesos-gpu-agent" "$3/bin/cgpu-smi" ;;
    "-m pip")
        case "$*" in
            *" -r "*) echo "Collecting numpy==2" && echo "  Downloading numpy-2.whl (18.2 MB)" ;;
        esac
        [ ! -e no-network ] || exit 1 ;;
esac
echo "$*" | sed "s#$PWD/##g" >>asked
"""
FILES = ("run", "setup.py", "pyproject.toml", "requirements.lock", "requirements-dev.lock")


class Clone:
    """The files that `./run` looks at, where nothing is installed yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled = 0
        """How often the codec was, of what `installed` has looked at."""
        for name in FILES:
            shutil.copy(ROOT / name, folder)
        (folder / "compat" / "http-parser").mkdir(parents=True)
        shutil.copy(ROOT / "compat/http-parser/pyproject.toml", folder / "compat/http-parser")
        shutil.copytree(ROOT / "native", folder / "native")
        (folder / "tools").mkdir()
        shutil.copy(ROOT / "tools/make_codec.py", folder / "tools")
        self.python = folder / "its-python"
        self.python.write_text(PYTHON)
        self.python.chmod(0o755)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHON": str(self.python), **variables}
        return subprocess.run(
            ["./run", *words], cwd=self.folder, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    def installed(self) -> list[str]:
        """Return what pip was asked to install since the last time, by lock file or extras."""
        asked = self.folder / "asked"
        lines = asked.read_text().splitlines() if asked.exists() else []
        asked.unlink(missing_ok=True)
        self.compiled += lines.count("tools/make_codec.py")
        return [line.split()[-1] for line in lines if line.startswith("-m pip")]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


RUNNING = ["requirements.lock", "."]
TESTING = ["requirements-dev.lock", ".[dev]"]


@pytest.mark.root
def test_a_demo_installs_what_running_needs_and_tests_add_the_rest(clone: Clone) -> None:
    first = clone.run("demo")
    assert (first.returncode, clone.installed()) == (0, RUNNING), first.stderr
    assert "requirements.lock" in first.stderr
    assert (clone.run("demo").returncode, clone.installed()) == (0, [])
    assert (clone.run("test", "fast").returncode, clone.installed()) == (0, TESTING)
    assert (clone.run("test", "fast").returncode, clone.installed()) == (0, [])


@pytest.mark.root
def test_a_demo_after_tests_installs_nothing_and_tests_lose_nothing(clone: Clone) -> None:
    assert (clone.run("test", "fast").returncode, clone.installed()) == (0, TESTING)
    assert (clone.run("demo").returncode, clone.installed()) == (0, [])
    assert (clone.run("test", "fast").returncode, clone.installed()) == (0, [])


@pytest.mark.root
def test_what_running_needs_is_installed_anew_when_its_versions_change_and_so_is_what_tests_need(clone: Clone) -> None:
    clone.run("test", "fast")
    clone.installed()
    with (clone.folder / "requirements.lock").open("a") as lock:
        lock.write("# other versions\n")
    assert (clone.run("demo").returncode, clone.installed()) == (0, RUNNING)
    assert (clone.run("test", "fast").returncode, clone.installed()) == (0, TESTING)


@pytest.mark.root
def test_the_codec_is_compiled_once_and_anew_when_it_changes(clone: Clone) -> None:
    for words, compiled in ((["demo"], 1), (["demo"], 1), (["test", "fast"], 1), (["demo"], 1)):
        assert clone.run(*words).returncode == 0
        clone.installed()
        assert clone.compiled == compiled
    (clone.folder / "native" / "flags.txt").write_text("-O3\n")
    clone.run("demo")
    clone.run("demo")
    assert (clone.installed(), clone.compiled) == ([], 2)


@pytest.mark.root
def test_where_the_codec_cannot_be_compiled_it_is_said_once_and_nothing_fails(clone: Clone) -> None:
    (clone.folder / "no-compiler").touch()
    first, again = clone.run("demo"), clone.run("demo")
    assert (first.returncode, "C compiler" in first.stderr) == (0, True), first.stderr
    assert (again.returncode, again.stderr) == (0, "")
    (clone.folder / "no-compiler").unlink()
    clone.run("demo")
    clone.run("demo")
    clone.installed()
    assert clone.compiled == 1


@pytest.mark.root
def test_an_installation_that_failed_is_said_and_begun_again(clone: Clone) -> None:
    (clone.folder / "no-network").touch()
    failed = clone.run("demo")
    assert failed.returncode == 1
    assert "requirements.lock" in failed.stderr
    (clone.folder / "no-network").unlink()
    clone.installed()
    assert (clone.run("demo").returncode, clone.installed()) == (0, RUNNING)


@pytest.mark.root
def test_who_is_not_root_and_has_no_sudo_is_told_before_anything_is_installed(clone: Clone, golden: Golden) -> None:
    clone.folder.chmod(0o777)
    for parent in clone.folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    (clone.folder / "bin").mkdir()
    for name in ("id", "dirname", "sh", "uname"):
        (clone.folder / "bin" / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "env",
            f"PATH={clone.folder}/bin",
            "./run",
            "demo",
        ],
        cwd=clone.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, golden)
    assert not (clone.folder / ".venv").exists()


@pytest.mark.root
def test_install_links_the_programs_and_uninstall_removes_those_links_only(clone: Clone, tmp_path: Path) -> None:
    programs = tmp_path / "prefix" / "bin"
    programs.mkdir(parents=True)
    (programs / "other").symlink_to("/bin/sh")
    prefix = str(programs.parent)
    for _ in range(2):
        done = clone.run("install", PREFIX=prefix)
        assert done.returncode == 0, done.stderr
    assert clone.installed() == RUNNING
    linked = {path.name: path.readlink() for path in programs.iterdir()}
    ours = {name: clone.folder / ".venv/bin" / name for name in ("mesos-gpu", "mesos-gpu-agent", "cgpu-smi")}
    assert linked == ours | {"other": Path("/bin/sh")}
    assert clone.run("uninstall", PREFIX=prefix).returncode == 0
    assert [path.name for path in programs.iterdir()] == ["other"]
    assert clone.run("uninstall", PREFIX=prefix).returncode == 1


@pytest.mark.root
def test_install_replaces_no_program_of_another_installation(clone: Clone, tmp_path: Path) -> None:
    programs = tmp_path / "prefix" / "bin"
    programs.mkdir(parents=True)
    (programs / "mesos-gpu").write_text("another")
    done = clone.run("install", PREFIX=str(programs.parent))
    assert (done.returncode, f"{programs}/mesos-gpu" in done.stderr) == (1, True)
    assert [path.name for path in programs.iterdir()] == ["mesos-gpu"]
    assert clone.run("install", PREFIX=str(tmp_path / "nowhere")).returncode == 1
