"""Thaws everybody when the one who freezes is gone, or hangs: a process of its own, made by fork."""

from __future__ import annotations

import os
import select
import signal

from mesos_gpu.sharing.freezer import FrozenRecord

SILENCE_S = 1.0
"""A turner that has said nothing for so long hangs."""


class Watchdog:
    """The watchdog as its turner sees it. `beat` tells it that all is well."""

    def __init__(self, record: FrozenRecord) -> None:
        self._record = record
        self.pid, self._pipe = _start(record)

    def beat(self) -> bool:
        """Say that all is well; return False when the watchdog had ended: all are thawed then, and it is restarted."""
        try:
            os.write(self._pipe, b".")
        except BlockingIOError:
            return True  # it has not read yet what was said
        except OSError:
            self._record.thaw_all()
            os.close(self._pipe)
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass
            self.pid, self._pipe = _start(self._record)
            return False
        return True

    def close(self) -> None:
        """Let it end, which thaws everybody, and wait for that."""
        os.close(self._pipe)
        os.waitpid(self.pid, 0)


def _start(record: FrozenRecord) -> tuple[int, int]:
    """Fork a watchdog; return its pid and where to write."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(writer)
            _watch(reader, record)
        finally:
            os._exit(0)
    os.close(reader)
    os.set_blocking(writer, False)
    return pid, writer


def _watch(reader: int, record: FrozenRecord) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # who ends the agent's processes ends the turner; then it is needed most
    os.closerange(0, reader)
    os.closerange(reader + 1, 1024)
    while True:
        ready, _, _ = select.select([reader], [], [], SILENCE_S)
        if not ready:
            record.thaw_all()
        elif not os.read(reader, 4096):
            record.thaw_all()
            return
