"""What was set up on a machine is found by what shows that it is ours, and undone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mesos_gpu.doors.common.launchers import write_launcher
from mesos_gpu.doors.common.names import HOOK, RUNTIME
from mesos_gpu.local.installed import find_installed, remove
from mesos_gpu.local.plan import program
from mesos_gpu.testing.plan import fork_server_command
from tests.support.golden import Golden


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine where all was set up, and others' things lie beside ours."""
    write_launcher(tmp_path / "usr/local/bin", HOOK, "mesos_gpu.doors.oci.hook")
    write_launcher(tmp_path / "opt/bin", RUNTIME, "mesos_gpu.doors.oci.runtime")
    runtimes = {"nvidia": {"path": str(tmp_path / "opt/bin" / RUNTIME)}, "kata": {"path": "/usr/bin/kata"}}
    texts = {
        "usr/bin/nvidia-docker": "#!/bin/sh\nexec docker\n",
        "etc/containers/oci/hooks.d/mesos-gpu.json": json.dumps({"hook": {"path": f"/usr/local/bin/{HOOK}"}}),
        "etc/mesos-gpu/doors.json": "{}",
        "etc/cdi/mesos-gpu.yaml": "args: [-m, mesos_gpu.doors.oci.hook]\n",
        "etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\n",
        "etc/systemd/system/gpu.service": "[Service]\nExecStart=/usr/bin/mesos-gpu-agent --master=m:5050\n",
        "etc/systemd/system/other.service": "[Service]\nExecStart=/usr/bin/other --why=mesos\n",
        "etc/docker/daemon.json": json.dumps({"runtimes": runtimes}),
        "home/.zfunc/_mesos-gpu": "_MESOS_GPU_COMPLETE=zsh_complete\n",
        "home/.bashrc": 'alias ls=ls\neval "$(mesos-gpu completion bash)"\n',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def find(machine: Path) -> dict[str, str | None]:
    found = find_installed(machine, machine / "home", [str(machine / "opt/bin")])
    return {str(piece.path.relative_to(machine)): piece.by_hand for piece in found}


def test_what_is_ours_is_found_and_what_is_not_is_left(machine: Path, golden: Golden) -> None:
    assert find(machine) == {
        f"usr/local/bin/{HOOK}": None,
        f"opt/bin/{RUNTIME}": None,
        "etc/containers/oci/hooks.d/mesos-gpu.json": None,
        "etc/mesos-gpu/doors.json": None,
        "etc/cdi/mesos-gpu.yaml": None,
        "etc/systemd/system/gpu.service": None,
        "etc/docker/daemon.json": golden,
        "home/.zfunc/_mesos-gpu": None,
        "home/.bashrc": golden,
    }


def test_what_was_set_up_is_gone_and_the_rest_is_there(machine: Path, golden: Golden) -> None:
    for piece in find_installed(machine, machine / "home", [str(machine / "opt/bin")]):
        if piece.by_hand is None:
            remove(piece, systemd=False)
    assert find(machine) == {"home/.bashrc": golden}
    assert not (machine / "etc/mesos-gpu").exists()
    for other in ("usr/bin/nvidia-docker", "etc/cdi/nvidia.yaml", "etc/systemd/system/other.service"):
        assert (machine / other).exists()


def test_a_damaged_daemon_json_hides_nothing(machine: Path) -> None:
    for text in ("{", "[]", '{"runtimes": 1}'):
        (machine / "etc/docker/daemon.json").write_text(text)
        assert "etc/docker/daemon.json" not in find(machine)
        assert "home/.bashrc" in find(machine)


TRAP = "import pathlib; pathlib.Path('trapped').touch()\n"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([*program("mesos_gpu.master.service"), "--version"], id="this Python"),
        pytest.param([*program("mesos_gpu.master.service", (3, 10)), "--version"], id="3.10"),
        pytest.param([*program("mesos_gpu.local"), "{}", "0"], id="supervisor"),
        pytest.param(fork_server_command(0, 0), id="boxes of tests"),
    ],
)
def test_nothing_of_the_present_folder_runs(command: list[str], tmp_path: Path) -> None:
    for name in ("json", "asyncio", "logging", "runpy"):
        (tmp_path / f"{name}.py").write_text(TRAP)
    (tmp_path / "mesos_gpu").mkdir()
    (tmp_path / "mesos_gpu" / "__init__.py").write_text(TRAP)
    subprocess.run([sys.executable, "-c", "import json"], cwd=tmp_path, check=True)
    assert (tmp_path / "trapped").exists(), "the trap does not work"
    (tmp_path / "trapped").unlink()
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert not (tmp_path / "trapped").exists(), done.stderr
    if "--version" in command:
        assert done.returncode == 0, done.stderr
