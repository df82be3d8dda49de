"""A genuine master as a process, on a free port of 127.0.0.1."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mesos_gpu.mesos.resource import Document
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


@dataclass(frozen=True, slots=True)
class MasterTls:
    """A master behind TLS: its variables LIBPROCESS_SSL_..., and what its tests ask it with."""

    variables: Mapping[str, str]
    client: ssl.SSLContext


class GenuineMaster:
    """One address and one work_dir; `release` may be another at the next `start`, as in an upgrade."""

    def __init__(self, release: Release, folder: Path, tls: MasterTls | None = None, **flags: str) -> None:
        """`flags` are the master's, without dashes. It leads by itself: contending by ZooKeeper it cannot."""
        folder.mkdir(parents=True)
        self.release, self.folder, self._flags, self._tls = release, folder, {**FLAGS, **flags}, tls
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT, as --master takes it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{self.address}"

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
            **(self._tls.variables if self._tls else {}),
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

    def state(self) -> Document:
        """Return its /state. Raises OSError while it does not lead."""
        context = self._tls.client if self._tls else None
        with urllib.request.urlopen(f"{self.url}/state", timeout=5, context=context) as answer:
            return json.load(answer)  # type: ignore[no-any-return]

    def _leads(self) -> bool:
        # 503 while it recovers its registry.
        try:
            return bool(self.state())
        except OSError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
