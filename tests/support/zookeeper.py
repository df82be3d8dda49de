"""A real ZooKeeper for tests: Debian's, on a free port of 127.0.0.1, with a data folder of its own.

Import the fixture `zookeeper` in a conftest.py (one server for the session), or use `RealZooKeeper` as a context
manager where a test stops and starts it.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

JAR = "/usr/share/java/zookeeper.jar"  # its manifest names what else it needs
JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # small, and quick to start
PATIENCE = 60.0


class RealZooKeeper:
    """Started on entering, ended on leaving; `hosts` is what a `zk://` URL has between its slashes.

    It keeps its port and its data from one `start` to the next, so a test can take it away for a while.
    """

    def __init__(self, folder: Path, *, tick_ms: int = 500) -> None:
        # Sessions may last from 2 to 20 ticks: short ones let a test see an expiry without waiting long.
        self.folder, self._tick_ms = folder, tick_ms
        self._process: subprocess.Popen[str] | None = None
        self._drain: threading.Thread | None = None
        self.port = _free_port()

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        """`zk://` URL of a node, as `--master` and `--zk` take it."""
        return f"zk://{self.hosts}/{path.strip('/')}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "zoo.cfg"
        config.write_text(
            f"tickTime={self._tick_ms}\ndataDir={self.folder / 'data'}\n"
            f"clientPort={self.port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "maxClientCnxns=0\n4lw.commands.whitelist=ruok\n"
        )
        self._process = subprocess.Popen(
            ["java", *JVM, "-cp", JAR, "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said: list[str] = []
        self._drain = threading.Thread(target=_read, args=(self._process, said))
        self._drain.start()
        deadline = time.monotonic() + PATIENCE
        while not (self._answers() and self._takes_sessions()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError("ZooKeeper did not start: " + "".join(said))
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def _takes_sessions(self) -> bool:
        # One that is just starting may take a request for a session and never answer it. A client waits as long as the
        # session would last before it asks again, which is longer than a test wants to wait.
        client = KazooClient(self.hosts, timeout=1.0)
        try:
            client.start(timeout=2.0)
        except KazooTimeoutError:
            return False
        finally:
            client.stop()
            client.close()
        return True

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert self._drain is not None
        self._drain.join()
        assert process.stdout is not None
        process.stdout.close()

    def pause(self) -> None:
        """Let it neither answer nor end, until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def end_session(self, client_id: object) -> None:
        """End a client's session as an expiry would: a second connection of the same session may close it."""
        thief = KazooClient(self.hosts, client_id=client_id)
        thief.start()
        thief.stop()
        thief.close()

    def __enter__(self) -> RealZooKeeper:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _read(process: subprocess.Popen[str], said: list[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        del said[:-40]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealZooKeeper]:
    with RealZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
