from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.container.cgroups import forerunner
from mesos_gpu.container.cgroups.forerunner import Forerunner, own_file

V1 = {"devices": Path("/c/devices"), "cpu": Path("/c/cpu,cpuacct"), "name=systemd": Path("/c/systemd")}


@pytest.mark.parametrize(
    ("lines", "mounts", "file"),
    [
        ("5:devices:/a/b\n", V1, "/c/devices/a/b/cgroup.procs"),
        ("2:net_cls:/x\n3:cpuacct,cpu:/\n", V1, "/c/cpu,cpuacct/cgroup.procs"),
        ("9:name=systemd:/user.slice\n", V1, "/c/systemd/user.slice/cgroup.procs"),
        ("0::/agent\n", {"": Path("/c")}, "/c/agent/cgroup.procs"),
        ("1:name=a:b:/odd:path\n", V1, None),
        ("5:devices:/../outside\n3:cpu:/in\n", V1, "/c/cpu,cpuacct/in/cgroup.procs"),
        ("0::/agent\n", V1, None),
        ("", V1, None),
    ],
)
def test_where_a_process_is_told_to_stay(lines: str, mounts: dict[str, Path], file: str | None) -> None:
    assert own_file(lines, mounts) == (None if file is None else Path(file))


def test_it_is_moved_to_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    procs = tmp_path / "tree" / "agent" / "cgroup.procs"
    procs.parent.mkdir(parents=True)
    procs.touch()
    own = tmp_path / "own"
    own.write_text("0::/agent\n")
    monkeypatch.setattr(forerunner, "OWN_CGROUPS", own)
    runner = Forerunner({"": tmp_path / "tree"})
    waiting = runner.run()
    assert waiting is not None
    waiting.result(timeout=60)
    assert procs.read_text() == "0"


def test_where_it_is_refused_it_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.write_text("0::/agent\n")
    monkeypatch.setattr(forerunner, "OWN_CGROUPS", own)
    runner = Forerunner({"": tmp_path / "nowhere"})
    waiting = runner.run()
    assert waiting is not None
    waiting.result(timeout=60)
    assert runner.run() is waiting
