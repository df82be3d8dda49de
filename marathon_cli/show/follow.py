"""Shows log files of tasks: once, or on and on until their tasks have ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from marathon_cli.clients.mesos import CHUNK, Mesos, RemoteFile, Sandbox, was_removed
from mesos_gpu.errors import NotFound, Unavailable

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 1.0
SILENCE_S = 60.0
"""How long an agent may be silent (it is being restarted) before following it is given up."""

_CONTROL = re.compile(rb"(\x1b\[[0-9;:]{0,64}m)|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
"""Colours (SGR), and what a terminal obeys but tab, newline, return and backspace. Source: ECMA-48 5.2, 8.3.117."""
_BEGUN = re.compile(rb"(\x1b(\[[0-9;:]{0,64})?|\xc2)\Z")
"""The beginning of one of these at the end of a piece."""


@dataclass(slots=True)
class Log:
    """One file of one task's sandbox."""

    sandbox: Sandbox
    file: RemoteFile
    name: str = "stdout"
    """What the file is called, below the sandbox."""
    quiet_s: float = 0.0
    silent_s: float = 0.0
    gone_s: float = 0.0
    """For how long no agent that the master knows has had the task; a new master knows its agents little by little."""

    @classmethod
    def of(cls, sandbox: Sandbox, name: str, lines: int | None) -> Log:
        """Open the file `name`, at its last `lines` lines, or at its start for None."""
        file = RemoteFile(sandbox.agent, f"{sandbox.directory}/{name}")
        if lines is not None:
            file.skip_to_last(lines)
        return cls(sandbox, file, name)

    def removed(self) -> str | None:
        """Return in words that the agent has removed the files of a task that has ended, None when it has not."""
        return was_removed(self.sandbox) if self.sandbox.ended and self.file.size() is None else None


def still_there(logs: Sequence[Log], say: Callable[[str], None]) -> list[Log]:
    """Return the logs whose sandboxes were not removed, saying which were. Raises NotFound when all were."""
    words = [log.removed() for log in logs]
    kept = [log for log, removed in zip(logs, words, strict=True) if removed is None]
    gone = [removed for removed in words if removed is not None]
    if gone and not kept:
        raise NotFound(gone[0])
    for removed in gone:
        say(removed)
    return kept


class Printer:
    """Writes pieces of logs; with several logs each change from one to another has a headline."""

    def __init__(self, out: BinaryIO, *, headlines: bool) -> None:
        self._out, self._headlines = out, headlines
        self._last: str | None = None
        self._harmless = out.isatty()
        self._held: dict[str, bytes] = {}

    def write(self, log: Log, data: bytes) -> None:
        """Write `data` of `log` at once; to a terminal without what would steer it, but for colours."""
        if self._harmless:
            whole = self._held.pop(log.sandbox.task_id, b"") + data
            if (begun := _BEGUN.search(whole)) is not None:
                self._held[log.sandbox.task_id], whole = begun[0], whole[: begun.start()]
            data = _CONTROL.sub(lambda found: found[1] or b"", whole)
        if self._headlines and log.sandbox.task_id != self._last:
            gap = "" if self._last is None else "\n"
            self._out.write(f"{gap}==> {log.sandbox.task_id} <==\n".encode())
            self._last = log.sandbox.task_id
        self._out.write(data)
        self._out.flush()


class Split(Printer):
    """Writes what is in files called stderr to `err`, where there is one, and all else to `out`."""

    def __init__(self, out: BinaryIO, err: BinaryIO | None, *, headlines: bool) -> None:
        super().__init__(out, headlines=headlines)
        self._err = None if err is None else Printer(err, headlines=headlines)

    def write(self, log: Log, data: bytes) -> None:
        """Write `data` of `log` at once."""
        if self._err is not None and log.name == "stderr":
            if data:
                self._err.write(log, data)
        else:
            super().write(log, data)


def show(logs: Sequence[Log], printer: Printer) -> list[Log]:
    """Write what the logs have now, up to the size they have when it begins; return those whose file is not there."""
    missing = []
    for log in logs:
        end = log.file.size()
        if end is None:
            missing.append(log)
            continue
        printer.write(log, b"")
        while log.file.offset < end and (data := log.file.next()):
            printer.write(log, data)
    return missing


def follow(
    logs: Sequence[Log],
    printer: Printer,
    mesos: Mesos,
    *,
    sleep: Callable[[float], None],
    say: Callable[[str], None],
    known_ended: Callable[[str], bool] = lambda _: False,
) -> None:
    """Write what the logs have and get, until every task has ended and its file has been read to the end.

    `known_ended` tells whether somebody has said already that a task has ended; else its agent is asked. A file that is
    not there yet is waited for; an agent that does not answer has SILENCE_S to come back.
    """
    pause_s = FIRST_PAUSE_S
    live = list(logs)
    while live:
        got = 0
        for log in tuple(live):
            count = _pump(log, printer, pause_s)
            got += count
            if count == 0 and known_ended(log.sandbox.task_id):
                log.sandbox = replace(log.sandbox, ended=True)
            if count == 0 and _has_ended(log, mesos, pause_s, say):
                # What the task wrote last may have come after the last look at the file.
                while _pump(log, printer, pause_s):
                    pass
                live.remove(log)
        if got < CHUNK and live:
            pause_s = FIRST_PAUSE_S if got else min(2 * pause_s, LONGEST_PAUSE_S)
            sleep(pause_s)


def _pump(log: Log, printer: Printer, pause_s: float) -> int:
    """Write what one log has got; return how many bytes. An agent's silence counts as none, for a while."""
    try:
        data = log.file.next()
    except Unavailable:
        log.silent_s += pause_s
        if log.silent_s > SILENCE_S:
            raise
        return 0
    log.silent_s = 0.0
    if data:
        log.quiet_s = 0.0
        printer.write(log, data)
    return len(data)


def _has_ended(log: Log, mesos: Mesos, pause_s: float, say: Callable[[str], None]) -> bool:
    """Return whether the task of a log without news has ended; the agent is asked once a second."""
    if log.sandbox.ended:
        return True
    log.quiet_s += pause_s
    if log.quiet_s < LONGEST_PAUSE_S:
        return False
    log.quiet_s = 0.0
    try:
        now = mesos.sandbox(log.sandbox.task_id)
    except Unavailable:
        return False
    except NotFound:
        log.gone_s += LONGEST_PAUSE_S
        if log.gone_s <= SILENCE_S:
            return False
        say(f"task {log.sandbox.task_id} is gone")
        return True
    log.gone_s = 0.0
    if now.ended:
        say(f"task {log.sandbox.task_id} has ended: {now.state or 'its state is not known'}")
    return now.ended
