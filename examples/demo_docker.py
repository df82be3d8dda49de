"""Docker and Mesos on the same GPUs: an app and `docker run --gpus` compete for four of them, and the book is shown.

`./run demo-docker` runs this, as root: with a Docker Engine of its own (its data, socket and mounts are in one folder,
which is removed at the end) and a box with four simulated GPUs.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from demo import bring_up, leave, put_away, show

IMAGE = "demo:latest"
OPTIONS = ("--network=none", "--ulimit=nofile=1024:1024", "--security-opt=seccomp=unconfined")


class Engine:
    """A dockerd that finds the hook of this installation under the name that it looks for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cgroup = f"mesos-gpu-demo-{os.getpid()}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        flags = [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/pid"]
        flags += [f"--host=unix://{self.folder}/s", "--bridge=none", "--iptables=false", "--ip-masq=false"]
        flags += ["--ip-forward=false", "--storage-driver=vfs", "--exec-opt=native.cgroupdriver=cgroupfs"]
        command = ["unshare", "-m", "--propagation", "private", "dockerd", *flags, f"--cgroup-parent={self.cgroup}"]
        path = f"{self.folder}/bin:{os.environ['PATH']}:/usr/sbin:/sbin"
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PATH": path}, start_new_session=True
            )
        for _ in range(600):
            if self.docker("version", quiet=True).returncode == 0:
                break
            if self.process.poll() is not None:
                raise SystemExit((self.folder / "log").read_text()[-2000:])
            time.sleep(0.1)
        subprocess.run([*self.command, "import", "-", IMAGE], input=image(), stdout=subprocess.DEVNULL, check=True)

    @property
    def command(self) -> list[str]:
        return ["docker", "-H", f"unix://{self.folder}/s"]

    def docker(self, *words: str, quiet: bool = False) -> subprocess.CompletedProcess[bytes]:
        where = subprocess.DEVNULL if quiet else None
        return subprocess.run([*self.command, *words], stdout=where, stderr=where)

    def run(self, name: str, gpus: str) -> int:
        """Start a container as a person would; return the status."""
        print(f"\n$ docker run -d --name {name} --gpus {gpus} {IMAGE} sleep 600", flush=True)
        words = ["run", "-d", "--name", name, *OPTIONS, f"--gpus={gpus}", IMAGE, "sleep", "600"]
        return self.docker(*words).returncode

    def stop(self) -> None:
        if self.process is not None:
            found = subprocess.run([*self.command, "ps", "-aq"], stdout=subprocess.PIPE, text=True)
            if found.stdout.split():
                self.docker("rm", "-f", *found.stdout.split(), quiet=True)
            self.process.terminate()
            self.process.wait()
        for top in (*Path("/sys/fs/cgroup").glob(f"*/{self.cgroup}"), Path("/sys/fs/cgroup") / self.cgroup):
            for folder in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            if top.is_dir():
                top.rmdir()


def image() -> bytes:
    """Return a root with nothing but busybox in it."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for folder in ("bin", "dev", "proc", "sys", "etc", "usr", "usr/bin", "usr/local"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        program = Path(shutil.which("busybox") or "/bin/busybox")
        archive.add(program, "bin/busybox")
        for name in ("sh", "ls", "sleep", "grep", "cat", "dd", "date"):
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return written.getvalue()


def until_held(by: str, gpus: int) -> None:
    """Wait until the book shows so many GPUs in these hands."""
    for _ in range(300):
        listed = subprocess.run(show_quietly("gpu", "list", "-o", "json"), stdout=subprocess.PIPE, text=True)
        if listed.returncode == 0 and listed.stdout.count(by) >= gpus:
            return
        time.sleep(0.1)
    raise SystemExit(f"{by} has no {gpus} GPUs after half a minute")


def show_quietly(*words: str) -> list[str]:
    """Return a command without printing it."""
    return [str(Path(sys.executable).with_name("mesos-gpu")), *words]


def book() -> None:
    """Show who holds which GPU."""
    subprocess.run(show("gpu", "list"), check=True)


def compete(engine: Engine, folder: Path) -> int:
    """Let an app and containers take GPUs of four, and show what each gets."""
    app = {
        "id": "/training",
        "cmd": "while true; do nvidia-smi -L; sleep 60; done",
        "cpus": 0.1,
        "mem": 64,
        "disk": 0,
        "gpus": 2,
    }
    (folder / "training.json").write_text(json.dumps(app))
    bring_up("--master_port=0", "--agent_port=0", "--marathon_port=0", "--simulated_gpus=4")
    subprocess.run(
        show("door", "install", "docker", f"--prefix={folder}/bin", f"--settings={folder}/doors.json"), check=True
    )
    engine.start()
    subprocess.run(show("app", "add", f"{folder}/training.json", "--wait"), check=True)
    if engine.run("one", "1"):
        return 1
    until_held("docker", 1)
    book()
    print("\nTwo are Mesos', one is Docker's: two more are not to be had, and Docker says who has what.")
    if engine.run("greedy", "2") == 0:
        return 1
    print("\nIn the container is its GPU and no other:", flush=True)
    engine.docker("exec", "one", "nvidia-smi", "-L")
    subprocess.run(show("app", "remove", "training", "--wait"), check=True)
    print("\nThe app is gone, and its GPUs are anybody's again:", flush=True)
    engine.docker("rm", "-f", "greedy", quiet=True)
    if engine.run("three", "3"):
        return 1
    until_held("three", 3)
    book()
    return 0


def main() -> int:
    """Run the demo; return the exit status."""
    if os.geteuid() != 0:
        print("demo-docker starts a Docker Engine, and so needs root", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-demo-") as name:
        folder, work_dir = Path(name), f"{name}/box"
        os.environ["MESOS_GPU_WORK_DIR"] = work_dir
        os.environ.pop("MARATHON_URL", None)
        engine = Engine(folder)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, leave)
        try:
            return compete(engine, folder)
        except subprocess.CalledProcessError as error:
            return int(error.returncode)
        except KeyboardInterrupt:
            return 130
        finally:
            engine.stop()
            put_away(work_dir)


if __name__ == "__main__":
    sys.exit(main())
