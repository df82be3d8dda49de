"""The image of packaging/Containerfile, built on a Debian of our own: each service runs in a container of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.debian import Debian, wait_for
from tests.support import places
from tests.support.ports import free_port

IMAGE = "localhost/mesos-gpu:test"
BASE = "localhost/debian:test"
# Limits within those of this machine, whose own may be lower than what podman would set.
RUN = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--security-opt=seccomp=unconfined")
BESIDE_THE_MACHINE = ("--privileged", "--pid=host", "--cgroupns=host")
"""What an agent is given to start containers of its own (docs/start/install.md)."""


class Engine:
    """Podman with a store of its own in a folder; what was started is ended, last first."""

    def __init__(self, folder: Path) -> None:
        store = [f"--root={folder}/root", f"--runroot={folder}/run", f"--tmpdir={folder}/tmp", "--storage-driver=vfs"]
        how = ["--runtime=runc", "--cgroup-manager=cgroupfs", "--events-backend=none"]
        self._command = ["podman", *store, *how]
        self._started: list[str] = []

    def __call__(self, *words: str, stdin: int | None = None) -> str:
        done = subprocess.run([*self._command, *words], stdin=stdin, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"podman {words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, name: str, *words: str, given: tuple[str, ...] = ()) -> None:
        self._started.append(name)
        self("run", "--detach", "--name", name, "--network=host", *RUN, *given, IMAGE, *words)

    def end(self) -> None:
        for name in reversed(self._started):
            # An agent ends its containers on SIGUSR1.
            subprocess.run([*self._command, "kill", "--signal=USR1", name], capture_output=True, timeout=60)
            subprocess.run([*self._command, "wait", name], capture_output=True, timeout=60)
            subprocess.run([*self._command, "rm", "--force", "--volumes", name], capture_output=True, timeout=60)


@pytest.fixture
def engine(tmp_path: Path, debian: Debian, package: Path) -> Iterator[Engine]:
    """An engine that has the image."""
    # Podman takes no long path for what runs.
    store = Path(tempfile.mkdtemp(prefix="image-", dir="/tmp"))
    made = Engine(store)
    with subprocess.Popen(["tar", "-C", debian.root, "-c", "."], stdout=subprocess.PIPE) as archive:
        assert archive.stdout is not None
        made("import", "-", BASE, stdin=archive.stdout.fileno())
    context = tmp_path / "context"
    context.mkdir()
    shutil.copy(package, context)
    file = f"--file={places.ROOT / 'packaging' / 'Containerfile'}"
    how = ("--isolation=chroot", "--network=host", "--layers=false", f"--build-arg=BASE={BASE}")
    made("build", *how, file, f"--tag={IMAGE}", str(context))
    try:
        yield made
    finally:
        made.end()
        made("system", "reset", "--force")
        shutil.rmtree(store, ignore_errors=True)


@pytest.mark.root
@pytest.mark.timeout(600)
def test_each_service_runs_in_a_container_of_the_image_and_a_task_beside_them(engine: Engine) -> None:
    master, agent, marathon = free_port(), free_port(), free_port()
    at, kept = f"127.0.0.1:{master}", "/var/lib/mesos-gpu"
    engine.start("master", "mesos-gpu-master", f"--port={master}", f"--work_dir={kept}/master")
    wait_for(f"http://{at}/health")
    words = (f"--http_port={marathon}", f"--master={at}", f"--store_path={kept}/marathon.db")
    engine.start("marathon", "mesos-gpu-marathon", *words)
    words = (f"--port={agent}", f"--master={at}", f"--work_dir={kept}/agent", "--gpu_driver=simulated")
    engine.start("agent", "mesos-gpu-agent", *words, given=BESIDE_THE_MACHINE)
    url = f"http://127.0.0.1:{marathon}"
    wait_for(f"{url}/v2/info")
    said = engine(
        "exec", "marathon", "mesos-gpu", "--marathon-url", url, "run", "--timeout=60", "--", "nvidia-smi", "-L"
    )
    assert said.startswith("GPU 0: Simulated GPU")
    assert engine("run", "--rm", "--network=host", *RUN, IMAGE).startswith("Usage: mesos-gpu")
