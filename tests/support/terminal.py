"""A terminal for tests: a program runs on it, keys are typed, and what it says is waited for."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 60.0


class Terminal:
    """A pseudo terminal; `run` starts a program on it, `said` is all that it wrote."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.said = b""
        self.resize(24, 80)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.theirs)

    @contextmanager
    def run(self, argv: Sequence[str], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program as the owner of the terminal; it is ended at the end if it still runs."""
        process = subprocess.Popen(
            # Not preexec_fn, which forks this process with all its threads.
            ["setsid", "--ctty", *argv],
            env=env,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def type(self, data: bytes) -> None:
        os.write(self.ours, data)

    def until(self, text: bytes, again: bytes = b"") -> None:
        """Read until a text was said; `again` is typed every second, for programs that are not ready for it yet."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.said:
            assert time.monotonic() < end, (text, self.said)
            if select.select([self.ours], [], [], 1.0)[0]:
                self.said += os.read(self.ours, 65536)
            elif again:
                self.type(again)

    def drain(self) -> bytes:
        """Return what is there and was not read yet, and all before."""
        while select.select([self.ours], [], [], 0)[0]:
            self.said += os.read(self.ours, 65536)
        return self.said

    def end(self, process: subprocess.Popen[bytes], again: bytes = b"") -> int:
        """Wait for a program's end, reading what it says meanwhile; return its status.

        `again` is typed every second: a shell that starts a program just then loses a Ctrl-C.
        """
        end = time.monotonic() + PATIENCE_S
        typed = time.monotonic()
        while process.poll() is None:
            assert time.monotonic() < end, self.said
            if again and time.monotonic() > typed + 1:
                self.type(again)
                typed = time.monotonic()
            if select.select([self.ours], [], [], 0.05)[0]:
                self.said += os.read(self.ours, 65536)
        self.drain()
        return process.returncode

    def window_changed(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGWINCH)

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


@contextmanager
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    try:
        yield made
    finally:
        made.close()
