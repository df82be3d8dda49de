"""Programs of ours as processes of a test, each with the flags that an operator would give it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.mesos.resource import Document

PATIENCE_S = 60.0


class Service:
    """One of our programs, as a process."""

    def __init__(self, folder: Path, module: str, *flags: str) -> None:
        folder.mkdir(exist_ok=True)
        self.ready, self.log = folder / "ready.json", folder / "log"
        self._command = [sys.executable, "-m", module, "--port=0", f"--ready_file={self.ready}", *flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=dict(os.environ))
        until(self.ready.exists, self.log)

    @property
    def url(self) -> str:
        return str(json.loads(self.ready.read_text())["url"])

    def state(self) -> Document:
        with urllib.request.urlopen(f"{self.url}/state", timeout=30) as answer:
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

        def start(name: str, module: str, *flags: str) -> Service:
            service = Service(tmp_path / name, module, *flags)
            # An agent ends its tasks at that, a master itself.
            stack.callback(service.end, signal.SIGUSR1 if name == "agent" else signal.SIGTERM)
            return service

        yield start
