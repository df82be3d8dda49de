"""From CDI files to what is added to a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mesos_gpu.agent.devices.cdi import CdiFiles, read_files
from mesos_gpu.errors import ContainerError
from mesos_gpu.isolator.plan import BindMount, DeviceRule, Hook
from tests.support.golden import Golden

NIC = "example.com/nic"


def written(folder: Path, edits: dict[str, Any], name: str = "nic.yaml") -> CdiFiles:
    folder.mkdir(exist_ok=True)
    spec = {"cdiVersion": "0.7.0", "kind": NIC, "devices": [{"name": "0", "containerEdits": edits}]}
    (folder / name).write_text(yaml.safe_dump(spec))
    return CdiFiles((folder,))


def test_nodes_have_the_numbers_of_the_host_unless_the_file_says_others(tmp_path: Path) -> None:
    null = Path("/dev/null").stat()
    edits = {
        "deviceNodes": [
            {"path": "/dev/a", "hostPath": "/dev/null"},
            {"path": "/dev/b", "type": "c", "major": 240, "fileMode": 0o640, "uid": 7, "gid": 8, "permissions": "mr"},
            {"path": "/dev/zero", "permissions": "none"},
        ]
    }
    plan = written(tmp_path, edits).plan([f"{NIC}=0"])
    first, second, third = plan.nodes
    assert (first.path, first.major, first.minor, first.mode) == ("/dev/a", 1, 3, null.st_mode & 0o7777)
    assert (second.major, second.minor, second.mode, second.uid, second.gid) == (240, 0, 0o640, 7, 8)
    assert (third.path, third.minor) == ("/dev/zero", 5)
    assert plan.rules == (DeviceRule("c", 1, 3, "rwm"), DeviceRule("c", 240, 0, "rm"))


def test_mounts_and_hooks_are_taken_over(tmp_path: Path) -> None:
    edits = {
        "mounts": [
            {"hostPath": "/h", "containerPath": "/c"},
            {"hostPath": "/r", "containerPath": "/d", "options": ["ro"]},
        ],
        "hooks": [{"hookName": "prestart", "path": "/bin/x", "args": ["x", "y"], "env": ["A=1"], "timeout": 9}],
    }
    plan = written(tmp_path, edits).plan([f"{NIC}=0"])
    assert plan.mounts == (BindMount("/h", "/c", False), BindMount("/r", "/d", True))
    assert plan.hooks == (Hook("prestart", "/bin/x", ("x", "y"), ("A=1",), 9),)


@pytest.mark.parametrize(
    "node",
    [
        {"path": "/dev/there-is-none"},
        {"path": "/dev/a", "type": "b", "major": 7, "minor": 1},
        {"path": "/dev/a", "hostPath": "/etc/passwd"},
        {"path": "/tmp/a", "hostPath": "/dev/null"},
    ],
)
def test_a_node_that_cannot_be_is_refused(tmp_path: Path, node: dict[str, Any], golden: Golden) -> None:
    with pytest.raises(ContainerError) as refused:
        written(tmp_path, {"deviceNodes": [node]}).plan([f"{NIC}=0"])
    assert str(refused.value) == golden


def test_the_later_folder_counts_and_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    written(tmp_path / "etc", {"env": ["A=1"]})
    written(tmp_path / "run", {"env": ["A=2"]})
    (tmp_path / "run" / "bad.json").write_text("{")
    (tmp_path / "run" / ".nic.json.aside").write_text("{")
    folders = (tmp_path / "etc", tmp_path / "run", tmp_path / "nowhere")
    assert CdiFiles(folders).plan([f"{NIC}=0"]).environment == {"A": "2"}
    (problem,) = read_files(folders).problems
    assert problem.startswith(f"{tmp_path}/run/bad.json: ")
