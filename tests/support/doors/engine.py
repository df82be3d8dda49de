"""A Docker Engine of the tests' own: its data, socket, mounts and cgroups, and nothing of it is left at the end."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mesos_gpu.doors.common.launchers import write_launcher
from mesos_gpu.doors.common.names import HOOK, RUNTIME

APPLETS = ("sh", "ls", "cat", "sleep", "echo", "env", "grep", "dd", "stat", "true", "date", "head", "sed", "test", "id")
IMAGE = "doors-test:latest"
RUN = ("--network", "none", "--ulimit", "nofile=1024:1024", "--security-opt", "seccomp=unconfined")
PATIENCE_S = 60.0
PLUGINS = Path("/run/docker/plugins")


def root_archive(extra: Sequence[tuple[tarfile.TarInfo, bytes]] = ()) -> bytes:
    """Return a root with busybox in it, and what is added; what is added may stand in the place of a folder."""
    names = {entry.name for entry, _ in extra}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for folder in ("bin", "dev", "proc", "sys", "etc", "tmp", "usr", "usr/bin", "usr/local", "usr/lib"):
            if not names.isdisjoint((folder, folder.partition("/")[0])):
                continue
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        busybox = tarfile.TarInfo("bin/busybox")
        data = Path("/bin/busybox").read_bytes()
        busybox.size, busybox.mode = len(data), 0o755
        archive.addfile(busybox, io.BytesIO(data))
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        for entry, content in extra:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


class Engine:
    """One dockerd. `path` is a folder that is first on its PATH; `settings` is where hooks learn of the agent."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.settings = folder, folder / "bin", folder / "doors.json"
        self.plugins = folder / "plugins"
        self.path.mkdir(parents=True)
        self.plugins.mkdir()
        write_launcher(self.path, HOOK, "mesos_gpu.doors.oci.hook", settings=str(self.settings))
        runtime = write_launcher(self.path, RUNTIME, "mesos_gpu.doors.oci.runtime", settings=str(self.settings))
        self._runtime = f"--add-runtime=nvidia={runtime}"
        self.cgroup = f"mesos-test-docker-{os.getpid()}"
        self.socket = folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        log = (self.folder / "log").open("ab")
        # Its plugins are those of this folder, in its own mounts.
        PLUGINS.mkdir(parents=True, exist_ok=True)
        mounted = f'mount --bind "$0" {PLUGINS} && exec "$@"'
        command = ["unshare", "-m", "--propagation", "private", "sh", "-c", mounted, str(self.plugins)]
        command += ["dockerd", f"--data-root={self.folder}/data"]
        command += [f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/pid", f"--host=unix://{self.socket}"]
        command += ["--bridge=none", "--iptables=false", "--ip-masq=false", "--ip-forward=false"]
        command += [
            self._runtime,
            "--storage-driver=vfs",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            f"--cgroup-parent={self.cgroup}",
        ]
        environment = {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}:/usr/sbin:/sbin"}
        self._process = subprocess.Popen([*command, *flags], stdout=log, stderr=log, env=environment)
        log.close()
        self.until(lambda: self.docker("version", check=False).returncode == 0)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def until(self, true: object) -> None:
        began = time.monotonic()
        while not true():  # type: ignore[operator]
            assert self._process is None or self._process.poll() is None, self.log()
            assert time.monotonic() - began < PATIENCE_S, self.log()
            time.sleep(0.05)

    def docker(
        self, *words: str, check: bool = True, environ: Mapping[str, str] | None = None, data: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["docker", "-H", f"unix://{self.socket}", *words],
            capture_output=True,
            env={**os.environ, **(environ or {})},
            input=data,
            timeout=PATIENCE_S,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert not check or done.returncode == 0, f"docker {' '.join(words)}: {err}{out}\n{self.log()[-3000:]}"
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def run(self, *words: str, check: bool = True, image: str = IMAGE) -> subprocess.CompletedProcess[str]:
        """Run a container to its end; words before `--` are options, those behind it the command."""
        at = words.index("--")
        return self.docker("run", "--rm", *RUN, *words[:at], image, *words[at + 1 :], check=check)

    def make_image(self, name: str = IMAGE, extra: Sequence[tuple[tarfile.TarInfo, bytes]] = (), *env: str) -> None:
        changes = [word for one in env for word in ("--change", f"ENV {one}")]
        self.docker("import", *changes, "-", name, data=root_archive(extra))

    def kill(self) -> None:
        """End the daemon at once; containers run on."""
        assert self._process is not None
        below = int((self.folder / "exec/containerd/containerd.pid").read_text())
        for pid in (int((self.folder / "pid").read_text()), below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        self._process = None
        self.until(lambda: not Path(f"/proc/{below}").exists())
        for name in ("pid", "exec/containerd/containerd.pid"):
            (self.folder / name).unlink(missing_ok=True)

    def stop(self) -> None:
        """Remove every container and end the daemon; nothing of it is left."""
        process = self._process
        if process is not None and process.poll() is None:
            ids = self.docker("ps", "-aq", check=False).stdout.split()
            if ids:
                self.docker("rm", "-f", *ids, check=False)
            process.terminate()
            process.wait(PATIENCE_S)
        else:  # a test went wrong: what it left must not stay
            for left in (pid for pid in Path("/proc").glob("[0-9]*") if str(self.folder).encode() in _command(pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(left.name), signal.SIGKILL)
        for hierarchy in (*Path("/sys/fs/cgroup").iterdir(), Path("/sys/fs/cgroup")):
            ours = hierarchy / self.cgroup
            if ours.is_dir() and not ours.is_symlink():
                for below in sorted((p for p in ours.rglob("*") if p.is_dir()), reverse=True):
                    with contextlib.suppress(OSError):
                        below.rmdir()
                with contextlib.suppress(OSError):
                    ours.rmdir()
        left = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.folder) in line]
        left += [
            pid.name
            for pid in Path("/proc").glob("[0-9]*")
            if str(self.folder).encode() in _command(pid) and pid.name != str(os.getpid())
        ]
        left += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{self.cgroup}")]
        assert left == [], left
        shutil.rmtree(self.folder)
        for folder in (PLUGINS, PLUGINS.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@contextlib.contextmanager
def an_engine(folder: Path, *flags: str) -> Iterator[Engine]:
    engine = Engine(folder)
    try:
        engine.start(*flags)
        engine.make_image()
        yield engine
    finally:
        engine.stop()
