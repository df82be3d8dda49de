"""A genuine master as a process, on a free port of 127.0.0.1."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from tests.genuine.releases import Release

PATIENCE_S = 60.0
FLAGS = {
    "hostname": "127.0.0.1",
    "num_slaves": "0",
    "registry": "replicated_log",
    "allocation_interval": "100ms",
    "agent_reregister_timeout": "10mins",
}
"""Its own agents would need a whole installation; offers should not keep tests waiting."""


class GenuineMaster:
    """One address and one work_dir; `release` may be another at the next `start`, as in an upgrade."""

    def __init__(self, release: Release, folder: Path, **flags: str) -> None:
        """`flags` are the master's, without dashes. It leads by itself: contending by ZooKeeper it cannot."""
        folder.mkdir(parents=True)
        self.release, self.folder, self._flags = release, folder, {**FLAGS, **flags}
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT, as --master takes it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def runs(self) -> bool:
        """Return whether it was started, and not ended by us."""
        return self._process is not None

    def start(self, **flags: str) -> GenuineMaster:
        """Start it and wait until it leads; `flags` are for this start alone."""
        assert self._process is None, "it runs already"
        wanted = {**self._flags, "work_dir": str(self.folder), **flags}
        environment = {
            **self.release.environment,
            **{f"MESOS_{flag.upper()}": value for flag, value in wanted.items()},
            "LIBPROCESS_IP": "127.0.0.1",
            "LIBPROCESS_PORT": str(self.port),
            "LIBPROCESS_NUM_WORKER_THREADS": "4",
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.release.command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        end = time.monotonic() + PATIENCE_S
        while not self._leads():
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise AssertionError(f"Mesos {self.release.version} did not start:\n{self.last_words()}")
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """End it as kill -9 does; nothing happens when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-40:])

    def _leads(self) -> bool:
        # 503 while it recovers its registry.
        try:
            with urllib.request.urlopen(f"{self.url}/state", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
