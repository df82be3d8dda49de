"""The script that ./run puts in the place of pip's: the same program, sooner."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.marathon_cli.residence import DIRECTLY, REPOSITORY, Residence
from tools.quick_start import text

pytestmark = pytest.mark.slow
Program = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def program(residence: Residence) -> Program:
    folder = residence.folder / "b c"
    folder.mkdir()
    script = folder / "mesos-gpu"
    script.write_text(text(Path(sys.executable), REPOSITORY))
    script.chmod(0o755)

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = {**residence.env, **more}
        return subprocess.run(
            [script, *words], env=env, cwd="/", capture_output=True, text=True, timeout=60, check=False
        )

    return run


def test_without_a_helper_it_is_the_program(program: Program) -> None:
    assert DIRECTLY in program("why", "exit", "7").stderr
    assert program("--version", PYTHONDONTWRITEBYTECODE="1").stdout.startswith("mesos-gpu, version")
    found = json.loads(program("config", "keys", "-o", "json").stdout)
    assert "resident" in [key["key"] for key in found]


def test_python_hears_what_variables_tell_it(program: Program) -> None:
    done = program("--version", PYTHONVERBOSE="1")
    assert "import 'site'" in done.stderr
    assert done.stdout.startswith("mesos-gpu, version")


def test_the_processes_of_a_pool_do_not_begin_the_program_again(program: Program, tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("arrival_s,duration_s,gpus\n" + "".join(f"{n},5,1\n" for n in range(1000)))
    done = program("replay", str(trace), "--machines=2x4", "--processes=2", "-o", "name", MESOS_GPU_RESIDENT="0")
    assert (done.returncode, done.stdout.split()) == (0, ["first_fit", "capacity"]), done.stderr


def test_with_a_helper_it_hands_itself_over(program: Program, residence: Residence) -> None:
    # A helper is an installation's: its package and the folder of its interpreter.
    residence.player()
    assert program("why", "exit", "7").returncode == 7
    assert program("why", "say", "ünï").stderr == "ünï\n"


@pytest.mark.parametrize("path", ['/a"b/python', "/a$b/python", "/a`b/python", "/a'b/python"])
def test_a_path_that_a_shell_would_read_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a script"):
        text(Path(path), REPOSITORY)
