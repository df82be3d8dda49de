"""The wheels, installed as a user does: a fresh environment, a folder and an index."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path

import pytest

from mesos_gpu import __version__
from tests.packaging.pythons import pythons
from tests.support import places

EXAMPLE = places.EXAMPLES / "simple-gpu-test.json"
Run = Callable[..., str]
pytestmark = pytest.mark.timeout(600)  # the first test waits for the build of all wheels


def test_the_wheel_names_no_file_of_the_machine_that_built_it(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("mesos_gpu-*.whl"))) as wheel:
        metadata = message_from_bytes(wheel.read(f"mesos_gpu-{__version__}.dist-info/METADATA"))
        names = wheel.namelist()
    required = metadata.get_all("Requires-Dist") or []
    assert any(line.startswith("pymesos==") for line in required)
    assert [line for line in required if "file:" in line or "@" in line] == []
    assert metadata["License-Expression"] == "Apache-2.0"
    assert not [name for name in names if name.startswith(("tests/", "build/"))]


@pytest.mark.parametrize(
    "path",
    [
        "share/man/man1/mesos-gpu.1",
        "share/man/man8/mesos-gpu-agent.8",
        "share/bash-completion/completions/mesos-gpu.bash",
        "share/zsh/site-functions/_mesos-gpu",
        "share/fish/vendor_completions.d/mesos-gpu.fish",
        "share/mesos-gpu/systemd/mesos-gpu-master.service",
        "share/mesos-gpu/etc/agent.conf",
        "share/mesos-gpu/examples/simple-gpu-test.json",
    ],
)
def test_the_wheel_holds_what_a_user_looks_for(dist: Path, path: str) -> None:
    with zipfile.ZipFile(next(dist.glob("mesos_gpu-*.whl"))) as wheel:
        assert wheel.read(f"mesos_gpu-{__version__}.data/data/{path}")


def test_the_sdist_holds_all_that_it_takes_to_build_it_again(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(next(dist.glob("mesos_gpu-*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / f"mesos_gpu-{__version__}"
    assert (folder / "compat" / "http-parser" / "pyproject.toml").exists()
    for source in (places.ROOT / "native").rglob("*.[cht]*"):
        if "build" not in source.parts and "egg-info" not in str(source):
            assert (folder / source.relative_to(places.ROOT)).exists(), source
    again = tmp_path / "again"
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", again, folder], check=True, capture_output=True
    )
    with (
        zipfile.ZipFile(next(again.iterdir())) as rebuilt,
        zipfile.ZipFile(next(dist.glob("mesos_gpu-*.whl"))) as wheel,
    ):
        assert sorted(rebuilt.namelist()) == sorted(wheel.namelist())


def test_the_compiled_codec_is_a_wheel_of_its_own_and_its_sdist_compiles(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("mesos_gpu_codec-*.whl")
    assert "-cp310-abi3-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        (about,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = message_from_bytes(archive.read(about))
    assert names == ["mesos_gpu_codec.abi3.so"]
    assert metadata["License-Expression"] == "Apache-2.0"
    with zipfile.ZipFile(next(dist.glob("mesos_gpu-*.whl"))) as ours:
        required = message_from_bytes(ours.read(f"mesos_gpu-{__version__}.dist-info/METADATA"))
    (asked,) = [line for line in required.get_all("Requires-Dist") or [] if line.startswith("mesos-gpu-codec")]
    assert asked == f'mesos-gpu-codec=={metadata["Version"]}; extra == "codec"'
    (sdist,) = dist.glob("mesos_gpu_codec-*.tar.gz")
    again = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, sdist]
    subprocess.run(again, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]


@pytest.mark.parametrize("version", sorted(pythons()))
def test_one_wheel_of_the_codec_serves_every_python(version: str, dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("mesos_gpu_codec-*.whl")
    python = pythons()[version]
    subprocess.run([python, "-m", "venv", "--without-pip", tmp_path / "environment"], check=True)
    inside = tmp_path / "environment" / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        inside,
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-index",
    ]
    subprocess.run([*pip, wheel], check=True)
    program = """
from mesos_gpu_codec import Table
table = Table()
table.fill([(1, "value", "string", False, True, None)])
print(table.decode(b"\\n\\x01t"), table.encode({"value": "t"}))
"""
    done = subprocess.run([inside, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("{'value': 't'} b'\\n\\x01t'\n", "")


@pytest.fixture
def run(dist: Path, tmp_path: Path) -> Run:
    """Run a program of a fresh environment in which only the wheel was requested. test_install.py has each Python."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MESOS", "MARATHON"))}
    clean["HOME"] = str(tmp_path)

    def called(program: str, *words: str | Path, **variables: str) -> str:
        command = [environment / "bin" / program, *words]
        done = subprocess.run(command, env=clean | variables, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{program} {words}: {done.stdout}{done.stderr}"
        return done.stdout

    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "-q"]
    pip += ["--disable-pip-version-check", "--no-compile", "--find-links", str(dist), f"mesos-gpu=={__version__}"]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return called


@pytest.mark.root
def test_what_pip_installed_runs_an_app_on_a_gpu(run: Run, tmp_path: Path) -> None:
    assert "HttpParser" in run("python", "-c", "import pymesos.process; print(pymesos.process.HttpParser)")
    assert run("mesos-gpu", "--version").strip().endswith(__version__)
    box = str(tmp_path / "box")
    ports = ("--master_port=0", "--agent_port=0", "--marathon_port=0")
    run("mesos-gpu", "up", "--detach", *ports, "--gpu_driver=simulated", MESOS_GPU_WORK_DIR=box)
    try:
        run("mesos-gpu", "app", "add", EXAMPLE, "--wait", MESOS_GPU_WORK_DIR=box)
        assert "TASK_RUNNING" in run("mesos-gpu", "task", "list", MESOS_GPU_WORK_DIR=box)
    finally:
        run("mesos-gpu", "down", MESOS_GPU_WORK_DIR=box)
