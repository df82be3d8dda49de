"""Values in JSON files that outlive a process: how they are written and read, and what damage to one means.

`Record` is one value in one file; `Records` is a folder with one file for each name. Both replace a file whole, and
validate what they read by its type. Other content is a DamagedRecord. The caller decides whether to stop, which is
right where a guess could give one GPU to two containers, or to continue without the value.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from mesos_gpu.base import files
from mesos_gpu.errors import DamagedRecord, Unavailable

T = TypeVar("T")
FOLDER_MODE = 0o700
SUFFIX = ".json"
_DAMAGE = (ValueError, RecursionError)  # msgspec's errors, and bytes that are not UTF-8, are ValueErrors


class Record(Generic[T]):
    """A value in the JSON file `path`, which only its owner can read unless `mode` is given; creates missing folders.

    Error messages say that the file should contain `what`, and give `advice` on what to do. If not `durable`, the value
    outlives the process, but not the machine.
    """

    def __init__(
        self,
        path: Path,
        kind: type[T],
        *,
        what: str,
        advice: str,
        mode: int = files.PRIVATE,
        durable: bool = True,
        indented: bool = False,
    ) -> None:
        self.path = path
        self._kind, self._what, self._advice = kind, what, advice
        self._mode, self._durable, self._indented = mode, durable, indented

    def load(self) -> T | None:
        """Return the value, None if there is no file. Raises DamagedRecord, and Unavailable if it cannot be read."""
        try:
            return decoded(self.path, msgspec.json.Decoder(self._kind), self._what, self._advice)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"cannot read {self._what} from {self.path}: {error.strerror}") from error

    def save(self, value: T) -> None:
        """Replace the value. Raises Unavailable if it cannot be written; then the previous value is still in place."""
        data = msgspec.json.encode(value)
        if self._indented:
            data = msgspec.json.format(data)
        try:
            files.write_whole(self.path, data, mode=self._mode, durable=self._durable, folder_mode=FOLDER_MODE)
        except OSError as error:
            raise Unavailable(f"cannot write {self._what} to {self.path}: {error.strerror}") from error

    def forget(self) -> None:
        """Remove the file; nothing happens if there is none. Raises Unavailable."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot remove {self.path}: {error.strerror}") from error


class Records(Generic[T]):
    """One value for each name in a folder: NAME.json. `name_of` returns the name that a value says of itself.

    `file_name` makes a file name of a name, for names that contain other characters. Methods raise OSError: whoever
    owns the records knows what to say about a disk that fails. `what` and `advice` are those of `Record`.
    """

    def __init__(
        self,
        folder: Path,
        kind: type[T],
        name_of: Callable[[T], str],
        *,
        what: str,
        advice: str,
        durable: bool = True,
        file_name: Callable[[str], str] = str,
    ) -> None:
        self.folder = folder
        self._name_of, self._file_name, self._durable = name_of, file_name, durable
        self._what, self._advice = what, advice
        self._encoder, self._decoder = msgspec.json.Encoder(), msgspec.json.Decoder(kind)

    def path(self, name: str) -> Path:
        """Return the file of a name."""
        return self.folder / f"{self._file_name(name)}{SUFFIX}"

    def save(self, value: T) -> None:
        """Replace the value with this name. Raises OSError; then the previous value is still in place."""
        path = self.path(self._name_of(value))
        files.write_whole(path, self._encoder.encode(value), durable=self._durable, folder_mode=FOLDER_MODE)

    def forget(self, name: str) -> None:
        """Remove the value with this name; nothing happens if there is none. Raises OSError."""
        self.path(name).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        """Return whether there is a file with this name, damaged or not."""
        return self.path(name).exists()

    def load(self) -> tuple[dict[str, T], list[DamagedRecord]]:
        """Return all values by name, and the files that cannot be understood or do not hold the value of their name.

        Removes what killed processes left of files that they were writing. Raises OSError.
        """
        found: dict[str, T] = {}
        damaged: list[DamagedRecord] = []
        try:
            paths = sorted(self.folder.iterdir())  # not glob, which takes a folder that cannot be read for an empty one
        except FileNotFoundError:
            return found, damaged
        for path in paths:
            if files.is_unfinished(path.name):
                path.unlink(missing_ok=True)
            elif path.suffix == SUFFIX and not path.name.startswith("."):
                try:
                    value = decoded(path, self._decoder, self._what, self._advice)
                    name = self._name_of(value)
                    if self.path(name) != path:
                        raise DamagedRecord(path, f"it is the record of {name}", self._what, self._advice)
                    found[name] = value
                except DamagedRecord as damage:
                    damaged.append(damage)
        return found, damaged


def decoded(path: Path, decoder: msgspec.json.Decoder[T], what: str, advice: str) -> T:
    """Return the value in a JSON file. Raises DamagedRecord, OSError."""
    data = path.read_bytes()
    try:
        return decoder.decode(data)
    except _DAMAGE as error:
        raise DamagedRecord(path, error, what, advice) from error
