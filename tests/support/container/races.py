"""A folder that an attacker's process swaps for a link to the host's, as fast as can be, while we work in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SOURCE = Path(__file__).with_name("swapper.c")
Seen = dict[str, tuple[int, int, int, int, bytes]]


def compiled(folder: Path) -> Path:
    """Return the attacker's program, which needs no other file."""
    program = folder / "swapper"
    subprocess.run([shutil.which("cc") or "cc", "-O2", "-static", "-o", program, SOURCE], check=True)
    return program


class Arena:
    """`root` is ours and a task may change all in it; `host` is the host's, with files that root alone may touch.

    In `root`, `place` is a folder or a link to `host`, `data` a file or a link to one of the host's.
    """

    def __init__(self, folder: Path, swapper: Path) -> None:
        self.host, self.root, self.swapper = folder / "host", folder / "root", swapper
        self.place, self.data = self.root / "place", self.root / "data"
        for around in (self.host, self.place):
            (around / "child" / "deep").mkdir(parents=True)
            for name in ("shadow", "child/shadow", "out"):
                (around / name).write_text(f"of {around.name}")
                (around / name).chmod(0o600)
        self.data.write_text("of the task")
        (self.root / "other-place").symlink_to(self.host)
        (self.root / "other-data").symlink_to(self.host / "shadow")
        self.before = self.look()
        self.turns = 0
        self._outside = {(path.stat().st_dev, path.stat().st_ino) for path in (self.host, *self.host.rglob("*"))}

    def look(self) -> Seen:
        """Return all that there is of the host's: who owns it, and what is in it."""
        found = {}
        for path in (self.host, *sorted(self.host.rglob("*"))):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_uid, status.st_gid, status.st_mode, status.st_nlink, content)
        return found

    def is_outside(self, descriptor: int) -> bool:
        """Return whether what was opened is the host's."""
        status = os.fstat(descriptor)
        return (status.st_dev, status.st_ino) in self._outside

    @contextmanager
    def swapping(self, one: Path, other: Path) -> Iterator[None]:
        """Have two names take turns; `turns` says afterwards how often they did."""
        process = subprocess.Popen(
            [self.swapper, one, other], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            said, wrong = process.communicate(timeout=60)
        assert not wrong, wrong[:300]
        self.turns = int(said)
