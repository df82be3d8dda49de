"""The owner's end of the fork server: one process of boxes per test run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mesos_gpu import errors
from mesos_gpu.base.linux.sockets import LineConnection
from mesos_gpu.errors import MesosGpuError, Unavailable
from mesos_gpu.testing.plan import Program, fork_server_command

READY_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 180.0


class ForkServerClient:
    """Starts the fork server and asks it to do things. Its methods may be called from any thread, one at a time."""

    def __init__(self, log_file: Path) -> None:
        """Start the process; it loads its modules while this one continues. Its own words go to `log_file`."""
        self.log_file = log_file
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        ours.settimeout(_ANSWER_TIMEOUT_S)
        self._channel = LineConnection(ours)
        with theirs, log_file.open("ab") as log:
            self._process = subprocess.Popen(
                fork_server_command(theirs.fileno(), os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                # Ctrl-C in the terminal is for the tests, which then close this.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Return the fork server's process id."""
        return self._process.pid

    def start(self, box: Path, program: Program) -> int:
        """Start a service and return its pid."""
        return int(self._ask(box, do="start", program=asdict(program)))

    def start_again(self, box: Path, name: str) -> int:
        """Start a service as it was, on the port that it had; return its pid. Raises Conflict when it runs."""
        return int(self._ask(box, do="start again", name=name))

    def until_ready(self, box: Path, name: str) -> dict[str, Any]:
        """Return what a service says of itself once it can be used. Raises Unavailable with its last words."""
        ready: dict[str, Any] = self._ask(box, do="ready", name=name, timeout_s=READY_TIMEOUT_S)
        return ready

    def signal(self, box: Path, name: str, number: int) -> None:
        """Send a service a signal; nothing happens when it has ended."""
        self._ask(box, do="signal", name=name, number=int(number))

    def wait(self, box: Path, name: str, timeout_s: float = READY_TIMEOUT_S) -> int | None:
        """Return a service's exit status (minus the signal that ended it), None when it still runs after so long."""
        status: int | None = self._ask(box, do="wait", name=name, timeout_s=timeout_s)
        return status

    def end(self, box: Path) -> list[str]:
        """End everything of a box; return what could not be taken away."""
        left: list[str] = self._ask(box, do="end")
        return left

    def close(self) -> None:
        """End what is left of all boxes, and the process."""
        self._channel.close()
        self._process.wait(_ANSWER_TIMEOUT_S)

    def _ask(self, box: Path, **request: Any) -> Any:
        with self._lock:
            try:
                line = self._channel.ask(json.dumps({"box": str(box), **request}).encode())
            except OSError as error:
                raise Unavailable(f"the process that runs the boxes: {error}; {self._last_words()}") from None
        answer = json.loads(line)
        if "error" in answer:
            kind = getattr(errors, answer["error"], MesosGpuError)
            raise kind(answer["message"])
        return answer["ok"]

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"its log is {self.log_file}"
