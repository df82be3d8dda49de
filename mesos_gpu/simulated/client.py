"""Asking the program that plays the cards, from Python."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from mesos_gpu.base.linux import sockets

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
        self.socket = connect(path)
        self.socket.settimeout(answer_s)
        self._heard = b""

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
        self.socket.close()

    def __enter__(self) -> Cards:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _say(self, words: str) -> None:
        try:
            self.socket.sendall(words.encode() + b"\n")
        except OSError as error:
            raise CardsSilent(f"the simulated cards are gone: {error}") from error

    def _line(self) -> str:
        while b"\n" not in self._heard:
            try:
                part = self.socket.recv(65536)
            except OSError as error:
                raise CardsSilent(f"the simulated cards do not answer: {error}") from error
            if not part:
                raise CardsSilent("the simulated cards are gone")
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()


def connect(path: Path) -> socket.socket:
    """Return a connection to who listens at a path of any length. Raises CardsSilent."""
    try:
        return sockets.connect(path)
    except OSError as error:
        raise CardsSilent(f"no simulated cards answer at {path}: {error}") from error
