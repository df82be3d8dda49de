"""What was set up on a machine is found by what shows that it is ours, and undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mesos_gpu.doors.common.launchers import write_launcher
from mesos_gpu.doors.common.names import HOOK, RUNTIME
from mesos_gpu.local.installed import find_installed, remove
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
