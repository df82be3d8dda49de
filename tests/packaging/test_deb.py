"""The Debian package in a fresh Debian: installed with apt, its services started as their units say, purged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.packaging.debian import Debian, wait_for
from tests.support.ports import free_port


@pytest.mark.root
@pytest.mark.timeout(600)
def test_the_package_runs_an_app_and_leaves_nothing_when_it_is_purged(package: Path, debian: Debian) -> None:
    shutil.copy(package, debian.root / "root")
    before = _files(debian.root)
    debian.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", f"/root/{package.name}")
    ask = "from mesos_gpu.native import TABLE; print(TABLE)"
    assert "mesos_gpu_codec" in debian.run("/usr/lib/mesos-gpu/bin/python3", "-c", ask)
    master, agent, marathon = free_port(), free_port(), free_port()
    _set(debian, "master", MESOS_PORT=master)
    _set(debian, "agent", MESOS_PORT=agent, MESOS_MASTER=f"127.0.0.1:{master}", MESOS_GPU_DRIVER="simulated")
    _set(debian, "marathon", MARATHON_HTTP_PORT=marathon, MARATHON_MASTER=f"127.0.0.1:{master}")
    url = f"http://127.0.0.1:{marathon}"
    with (
        debian.unit("mesos-gpu-master"),
        debian.unit("mesos-gpu-agent"),
        debian.unit("mesos-gpu-marathon"),
    ):
        wait_for(f"{url}/v2/info")
        app = "/usr/share/doc/mesos-gpu/examples/simple-gpu-test.json"
        debian.run("mesos-gpu", "--marathon-url", url, "app", "add", app, "--wait")
        assert "TASK_RUNNING" in debian.run("mesos-gpu", "--marathon-url", url, "task", "list")
    debian.run("apt-get", "purge", "-y", "-qq", "mesos-gpu")
    assert sorted(path for path in _files(debian.root) - before if "mesos-gpu" in path) == []


def _set(debian: Debian, service: str, **variables: object) -> None:
    path = debian.root / "etc" / "mesos-gpu" / f"{service}.conf"
    path.write_text(path.read_text() + "".join(f"{name}={value}\n" for name, value in variables.items()))


def _files(root: Path) -> set[str]:
    folders = (root / name for name in ("etc", "lib/systemd", "usr", "var/lib"))
    kept = (path for folder in folders for path in folder.rglob("*"))
    # dpkg's own notes go with the package; those that it keeps of purged ones are not ours.
    return {str(path.relative_to(root)) for path in kept}
