"""Programs of ours as processes of a test, each with the flags that an operator would give it."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.mesos.resource import Document

PATIENCE_S = 60.0


class Service:
    """One of our programs, as a process."""

    def __init__(self, folder: Path, module: str, *flags: str, variables: Mapping[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        self.ready, self.log = folder / "ready.json", folder / "log"
        port = "http_port" if "marathon" in module else "port"
        self._command = [sys.executable, "-m", module, f"--{port}=0", f"--ready_file={self.ready}", *flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env={**os.environ, **variables})

    def until_ready(self) -> None:
        until(self.ready.exists, self.log)

    @property
    def url(self) -> str:
        return str(json.loads(self.ready.read_text())["url"])

    def state(self, client: ssl.SSLContext | None = None) -> Document:
        with urllib.request.urlopen(f"{self.url}/state", timeout=30, context=client) as answer:
            return json.load(answer)  # type: ignore[no-any-return]

    def end(self, number: signal.Signals) -> None:
        """Send a signal and wait for the end; nothing happens when it has ended."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)


def until(holds: Callable[[], Any], log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts programs of ours; what runs at the end of the test is told to go."""
    with ExitStack() as stack:

        def start(
            name: str, module: str, *flags: str, variables: Mapping[str, str] | None = None, ready: bool = True
        ) -> Service:
            service = Service(tmp_path / name, module, *flags, variables=variables or {})
            # An agent ends its tasks at that, a master itself.
            stack.callback(service.end, signal.SIGUSR1 if name == "agent" else signal.SIGTERM)
            if ready:
                service.until_ready()
            return service

        yield start
