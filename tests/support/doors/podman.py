"""Podman with a store and mounts of the tests' own: nothing of it is left at the end."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.doors.engine import root_archive

IMAGE = "localhost/doors-test:latest"
RUN = ("--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--security-opt=seccomp=unconfined")


class Podman:
    """One store. `cdi` is what podman has at /run/cdi; of the machine's folders `own` it has copies of its own."""

    def __init__(self, own: Sequence[Path] = ()) -> None:
        folder = Path(tempfile.mkdtemp(prefix="podman-"))  # --runroot has 50 characters at most
        self.folder, self.cdi = folder, folder / "cdi"
        self._own = {path: folder / "own" / str(at) for at, path in enumerate(own)}
        for path, copy in self._own.items():
            shutil.copytree(path, copy, symlinks=True)
        self.cdi.mkdir(parents=True)
        self._conf = folder / "containers.conf"
        self.configure("")
        self.cgroup = f"/mesos-test-podman-{folder.name}"

    def __call__(self, *words: str, check: bool = True, data: bytes | None = None) -> subprocess.CompletedProcess[str]:
        store = [f"--root={self.folder}/root", f"--runroot={self.folder}/run", f"--tmpdir={self.folder}/tmp"]
        flags = [*store, "--storage-driver=vfs", "--runtime=runc", "--cgroup-manager=cgroupfs", "--events-backend=none"]
        return self.beside("env", f"CONTAINERS_CONF={self._conf}", "podman", *flags, *words, check=check, data=data)

    def beside(self, *words: str, check: bool = True, data: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program that sees what podman sees: mounts of its own, with our folders in the machine's places."""
        inside = 'mount -t tmpfs none /run/cdi 2>/dev/null || { mkdir -p /run/cdi; }; mount --bind "$0" /run/cdi; '
        inside += "".join(f'mount --bind "{copy}" "{path}"; ' for path, copy in self._own.items())
        command = ["unshare", "-m", "sh", "-c", f'{inside} exec "$@"', str(self.cdi), *words]
        done = subprocess.run(command, capture_output=True, input=data, timeout=60)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert not check or done.returncode == 0, f"{' '.join(words)}: {err}{out}"
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def configure(self, text: str) -> None:
        """Give it a containers.conf of its own."""
        self._conf.write_text(text)

    def start(self, name: str, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        words = ("run", "-d", "--name", name, f"--cgroup-parent={self.cgroup}", *RUN, *options, IMAGE, "sleep", "600")
        return self(*words, check=check)

    def make_image(self) -> None:
        self("import", "-", IMAGE, data=root_archive())

    def stop(self) -> None:
        self("rm", "-fa", "-t", "0", check=False)
        began = time.monotonic()
        while self._cgroups_stay() and time.monotonic() - began < 10:  # conmon is about to end
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            Path("/run/cdi").rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)
        left = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*{self.cgroup}")]
        left += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.folder) in line]
        assert left == [], left

    def _cgroups_stay(self) -> list[Path]:
        """Remove the cgroups; return those that somebody is in still."""
        tops = [path for path in Path("/sys/fs/cgroup").glob(f"*{self.cgroup}") if not path.parent.is_symlink()]
        for top in [*tops, Path(f"/sys/fs/cgroup{self.cgroup}")]:
            for folder in sorted((path for path in (top, *top.rglob("*")) if path.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return [top for top in tops if top.exists()]
