"""Files of a task's sandbox: what there is, and copies of it here that are whole or not there.

Source: Mesos' endpoints /files/browse and /files/download.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from marathon_cli.clients.mesos import CHUNK, Mesos, RemoteFile, Sandbox, was_removed
from marathon_cli.connection.access import NoAnswer
from mesos_gpu.base.files import replacing
from mesos_gpu.errors import BadInput, Conflict, NotFound, ProtocolError, Refused, Unavailable

MAX_DEPTH = 32
"""Folders in folders; a link of a task's may lead round in a circle."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder; `path` is relative to the sandbox, `mtime` in seconds since 1970."""

    path: str
    mode: str
    links: int
    owner: str
    group: str
    size: int
    mtime: float

    @property
    def name(self) -> str:
        """Its last part."""
        return PurePosixPath(self.path).name

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder."""
        return self.mode.startswith("d")

    @property
    def is_file(self) -> bool:
        """Return whether it has bytes that can be copied; a pipe or a device has none."""
        return self.mode.startswith("-")


def inside(text: str) -> str:
    """Return a path in the sandbox, "" for the sandbox itself. Raises BadInput for one that leads out of it."""
    parts = [part for part in PurePosixPath(text.lstrip("/")).parts if part != "."]
    if ".." in parts:
        raise BadInput(f"{text!r} leads out of the sandbox")
    return "/".join(parts)


def browse(sandbox: Sandbox, path: str = "") -> list[Entry]:
    """Return what is in a folder, by name; for a file that one. Raises NotFound, Refused."""
    where = f"{sandbox.directory}/{path}" if path else sandbox.directory
    answer = sandbox.agent.ask("GET", "/files/browse", query={"path": where})
    if answer.ok:
        found = sandbox.agent.read(answer)
        if not isinstance(found, list):
            raise ProtocolError(f"{sandbox.agent.url} does not answer as a Mesos agent does: no list of files")
        return sorted((_entry(one, path) for one in found), key=lambda entry: entry.name)
    if path and answer.status_code == 400:
        parent, _, name = path.rpartition("/")
        alone = [entry for entry in browse(sandbox, parent) if entry.name == name and not entry.is_folder]
        if alone:
            return alone
    if answer.status_code in (400, 404):
        removed = was_removed(sandbox) if answer.status_code == 404 else None
        if removed is not None:
            raise NotFound(removed)
        raise NotFound(f"task {sandbox.task_id} has no {path or 'files any more'}{' in its sandbox' if path else ''}")
    raise Refused(
        f"{sandbox.agent.url} does not show {path or 'the sandbox'}: {answer.text.strip() or answer.reason}",
        status=answer.status_code,
    )


def walk(sandbox: Sandbox, path: str = "", depth: int = 0) -> Iterator[Entry]:
    """Yield what is below a path, folders before what is in them. Raises BadInput when it goes too deep."""
    if depth > MAX_DEPTH:
        raise BadInput(f"{path}: more than {MAX_DEPTH} folders deep, perhaps a link in a circle; name what you want")
    for entry in browse(sandbox, path):
        yield entry
        if entry.is_folder:
            yield from walk(sandbox, entry.path, depth + 1)


def chosen(sandbox: Sandbox, wanted: Sequence[str]) -> list[Entry]:
    """Return the files and folders that paths and patterns mean, all for none. Raises NotFound for one without any."""
    found: dict[str, Entry] = {}
    whole: list[Entry] | None = None
    for text in wanted or [""]:
        path = inside(text)
        if any(char in path for char in "*?["):
            whole = whole if whole is not None else list(walk(sandbox))
            folders = [entry.path for entry in whole if entry.is_folder and fnmatchcase(entry.path, path)]
            entries = [
                entry
                for entry in whole
                if fnmatchcase(entry.path, path) or any(entry.path.startswith(f"{folder}/") for folder in folders)
            ]
            if not entries:
                raise NotFound(f"nothing in the sandbox of task {sandbox.task_id} matches {text}")
        else:
            entries = list(walk(sandbox, path))
        found.update((entry.path, entry) for entry in entries)
    return list(found.values())


def check_target(target: Path, entries: Sequence[Entry], *, replace: bool) -> None:
    """Raise Conflict when a copy would take the place of something that is here."""
    for entry in entries:
        here = target / entry.path
        if not here.exists() and not here.is_symlink():
            continue
        if here.is_dir() != entry.is_folder:
            raise Conflict(f"{here} is in the way: it is {'a' if here.is_dir() else 'no'} folder here")
        if not entry.is_folder and not replace:
            raise Conflict(f"{here} is there already; --force replaces it")


def download(sandbox: Sandbox, entry: Entry, target: Path) -> int:
    """Copy one file to below `target`, with its mode and time; return its bytes. A copy is whole or not there at all.

    Raises NotFound when it is gone, Unavailable when the connection breaks or the disk is full.
    """

    here = target / entry.path
    query = {"path": f"{sandbox.directory}/{entry.path}"}
    written = 0
    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        with replacing(here, mode=_mode(entry.mode), durable=False) as file:
            with sandbox.agent.stream("GET", "/files/download", query=query, read_s=60.0) as answer:
                for piece in answer.pieces():
                    written += file.write(piece)
            file.flush()
            os.utime(file.fileno(), (entry.mtime, entry.mtime))
    except Refused as error:
        if error.status == 404:
            raise NotFound(f"{entry.path} is gone by now") from None
        raise
    except NoAnswer as error:
        raise Unavailable(f"{entry.path}: the connection to {sandbox.agent.url} broke ({error})") from None
    except OSError as error:
        raise Unavailable(f"{here} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return written


def _entry(found: Any, folder: str) -> Entry:
    try:
        name = PurePosixPath(str(found["path"])).name
        if name in ("", ".", "..") or "\0" in name:
            raise ValueError(name)
        return Entry(
            f"{folder}/{name}" if folder else name,
            str(found["mode"]),
            int(found.get("nlink", 1)),
            str(found.get("uid", "?")),
            str(found.get("gid", "?")),
            int(found["size"]),
            float(found["mtime"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ProtocolError(f"the agent lists something that is not a file: {str(found)[:100]}") from None


def _mode(shown: str) -> int:
    """Return the bits of `-rwxr-x---`, without set-id bits, and always readable for us."""
    bits = sum(1 << (8 - at) for at, char in enumerate(shown[1:10]) if char in "rwxst")
    return bits | 0o600


def as_json(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return entries as Mesos' /files/browse has them, with paths relative to the sandbox."""
    return [
        {
            "path": entry.path,
            "mode": entry.mode,
            "nlink": entry.links,
            "uid": entry.owner,
            "gid": entry.group,
            "size": entry.size,
            "mtime": entry.mtime,
        }
        for entry in entries
    ]


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
