"""Files of a task's sandbox: what there is, and copies of it here that are whole or not there.

Source: Mesos' endpoints /files/browse and /files/download.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from marathon_cli.clients.mesos import Sandbox, was_removed
from marathon_cli.connection.access import NoAnswer
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
        descriptor, made = tempfile.mkstemp(dir=here.parent, prefix=f".{here.name}-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                with sandbox.agent.stream("GET", "/files/download", query=query, read_s=60.0) as answer:
                    for piece in answer.pieces():
                        written += file.write(piece)
                os.fchmod(file.fileno(), _mode(entry.mode))
            os.utime(made, (entry.mtime, entry.mtime))
            Path(made).replace(here)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(made).unlink()
            raise
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
