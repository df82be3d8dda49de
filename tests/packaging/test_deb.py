"""The Debian package in a fresh Debian: installed with apt, its services started as their units say, purged."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.building import built
from tests.support.ports import free_port

PACKAGES = "python3,ca-certificates"


class Debian:
    """A Debian in a folder; what runs in it sees its files, its own mounts and this machine's kernel."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *words: str) -> list[str]:
        # The mounts are in a namespace of their own, and gone with the last process in it.
        mounts = "".join(f"mount --rbind /{name} {self.root}/{name} && " for name in ("proc", "sys", "dev"))
        chroot = f"exec chroot {self.root} {shlex.join(words)}"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts + chroot]

    def run(self, *words: str) -> str:
        done = subprocess.run(self.command(*words), capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    @contextlib.contextmanager
    def unit(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a service by its unit, which has one command and one file of variables."""
        unit = (self.root / "lib" / "systemd" / "system" / f"{name}.service").read_text()
        (file,) = re.findall(r"^EnvironmentFile=(.*)$", unit, re.MULTILINE)
        (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        for folder in re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE):
            (self.root / "var" / "lib" / folder).mkdir(parents=True, exist_ok=True)
        started = subprocess.Popen(self.command("sh", "-c", f"set -a; . {file}; exec {command}"))
        try:
            yield started
        finally:
            # The agent ends its containers on SIGUSR1, as the package's prerm asks of it.
            started.send_signal(signal.SIGUSR1 if name == "mesos-gpu-agent" else signal.SIGTERM)
            try:
                started.wait(30)
            finally:
                started.kill()
                started.wait()


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    root = tmp_path_factory.mktemp("debian")
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert release
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release[1], str(root), _mirror()]
    done = subprocess.run(bootstrap, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    yield Debian(root)
    shutil.rmtree(root)


def _mirror() -> str:
    """The mirror that this machine's own apt reads; debootstrap has a default."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    texts = [path.read_text() for path in sources if path.exists()]
    found = re.findall(r"(?:^URIs:\s*|^deb\s+)(\S+/debian/?)(?:\s|$)", "\n".join(texts), re.MULTILINE)
    return found[0] if found else ""


@pytest.mark.root
@pytest.mark.timeout(600)
def test_the_package_runs_an_app_and_leaves_nothing_when_it_is_purged(
    dist: Path, debian: Debian, tmp_path: Path
) -> None:
    built("make_deb", dist)
    package = next(dist.glob("*.deb"))
    shutil.copy(package, debian.root / "root")
    before = _files(debian.root)
    debian.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", f"/root/{package.name}")
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
        _wait_for(f"{url}/v2/info")
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


def _wait_for(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")
