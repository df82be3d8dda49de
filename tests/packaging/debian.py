"""A Debian in a folder, of the release of this machine."""

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

PACKAGES = "python3,ca-certificates"


class Debian:
    """A Debian in a folder; what runs in it sees its files, its own mounts and this machine's kernel."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *words: str) -> list[str]:
        # The mounts are in a namespace of their own, and gone with the last process in it. The Debian is its root:
        # programs that join the namespace, such as those that crun executes in a container, begin at the root.
        root = shlex.quote(str(self.root))
        mounts = "".join(f"mount --rbind /{name} {root}/{name} && " for name in ("proc", "sys", "dev"))
        enter = f"mount --bind {root} {root} && {mounts}cd {root} && pivot_root . mnt && umount -l /mnt && cd /"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{enter} && exec {shlex.join(words)}"]

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


def bootstrapped(root: Path) -> Debian:
    """Put a Debian into a folder."""
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert release
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release[1], str(root), _mirror()]
    done = subprocess.run(bootstrap, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    return Debian(root)


def _mirror() -> str:
    """The mirror that this machine's own apt reads; debootstrap has a default."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    texts = [path.read_text() for path in sources if path.exists()]
    found = re.findall(r"(?:^URIs:\s*|^deb\s+)(\S+/debian/?)(?:\s|$)", "\n".join(texts), re.MULTILINE)
    return found[0] if found else ""


def wait_for(url: str) -> None:
    """Wait until something answers there."""
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")
