"""Helpers of tests: in folders of their own, ended by their numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from marathon_cli.resident import place

PATIENCE_S = 60.0
FRONT = [sys.executable, "-c", "from marathon_cli.start import main; main()"]
PLAYER = [sys.executable, "-m", "tests.support.marathon_cli.resident_player"]
REPOSITORY = Path(__file__).parents[3]


def until(true: object, what: str = "") -> None:
    """Wait until a function says so."""
    end = time.monotonic() + PATIENCE_S
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.01)


@dataclass
class Residence:
    """A folder of helpers, and the environment that leads to it."""

    folder: Path
    env: dict[str, str]
    leaving: ExitStack = field(default_factory=ExitStack)

    @property
    def path(self) -> str:
        found = place.path_of(self.env)
        assert found is not None
        return found

    @property
    def socket(self) -> Path:
        return Path(self.path + place.SOCKET)

    def player(self, idle_s: float = 60, also: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """A helper that plays, ready."""
        env = {**os.environ, **{name: value for name, value in self.env.items() if name.startswith("LC")}}
        command = [*PLAYER, self.path, str(idle_s), *also]
        helper = subprocess.Popen(command, cwd=REPOSITORY, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
        self.leaving.callback(end, helper)
        until(lambda: self.socket.exists() or helper.poll() is not None, "the helper does not listen")
        assert helper.poll() is None
        return helper

    def front(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command as it is installed."""
        return subprocess.run(
            [*FRONT, "why", *words],
            env={**self.env, **more},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @contextmanager
    def begun(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Begin a command; it is killed at the end if it still runs."""
        process = subprocess.Popen(
            [*FRONT, "why", *words],
            env=self.env,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,  # the kernel does not stop who is in a group of orphans, as these tests' may be
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


DIRECTLY = "Usage: mesos-gpu why [OPTIONS] APP"
"""What `mesos-gpu why` says to the words of the player, when it is carried out directly."""
