"""Asking the program that plays the cards, from Python."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from mesos_gpu.base.linux import sockets
from mesos_gpu.base.linux.sockets import LineConnection

ANSWER_S = 5.0


class CardsSilent(OSError):
    """The program does not answer, or not in time."""


class CardsRefused(Exception):
    """The program does not do what was asked. `code` is a number of CUresult."""

    def __init__(self, asked: str, code: int) -> None:
        super().__init__(f"the simulated cards refuse `{asked}`: {code}")
        self.code = code


class Cards:
    """A connection to the program, at a path of any length. Raises CardsSilent when nobody is there."""

    def __init__(self, path: Path, *, answer_s: float = ANSWER_S) -> None:
        self._lines = LineConnection(connect(path, answer_s))

    def ask(self, words: str) -> str:
        """Return what follows `ok`. Raises CardsRefused, CardsSilent."""
        self._say(words)
        return self.answered(words)

    def answered(self, words: str = "") -> str:
        """Return what follows `ok` in the next answer. Raises CardsRefused, CardsSilent."""
        answer = self._line()
        if answer.startswith("err "):
            raise CardsRefused(words, int(answer[4:]))
        return answer[3:]

    def figures(self) -> dict[str, Any]:
        """Return what the cards do; see desk.py. Raises CardsSilent."""
        self._say("figures")
        found = json.loads(self._line())
        assert isinstance(found, dict)
        return found

    def close(self) -> None:
        """Close the connection."""
        self._lines.close()

    @property
    def socket(self) -> socket.socket:
        """Return the connection."""
        return self._lines.connection

    def __enter__(self) -> Cards:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _say(self, words: str) -> None:
        try:
            self._lines.send(words.encode())
        except OSError as error:
            raise CardsSilent(f"the simulated cards are gone: {error}") from error

    def _line(self) -> str:
        try:
            return self._lines.receive().decode()
        except OSError as error:
            raise CardsSilent(f"the simulated cards do not answer: {error}") from error


def connect(path: Path, answer_s: float = ANSWER_S) -> socket.socket:
    """Return a connection to who listens at a path of any length. Raises CardsSilent."""
    try:
        return sockets.connect(path, timeout_s=answer_s)
    except OSError as error:
        raise CardsSilent(f"no simulated cards answer at {path}: {error}") from error
