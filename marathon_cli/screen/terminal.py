"""The terminal we run in: given to a process elsewhere, and handed back as it was, whatever happens in between."""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple

from mesos_gpu.errors import BadInput

DETACH_KEYS = "ctrl-p,ctrl-q"


def keys(text: str) -> bytes:
    """Read keys such as `ctrl-p,ctrl-q` or `ctrl-],x`; empty is none. Raises BadInput."""
    return bytes(_key(word.strip(), text) for word in text.split(",")) if text.strip() else b""


@dataclass(slots=True)
class DetachKeys:
    """Watches what is typed for a sequence of keys; what may be its begin is kept back until that is decided."""

    sequence: bytes
    _kept: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return what is to be passed on, and whether the sequence was typed (what follows it is dropped)."""
        if not self.sequence:
            return data, False
        held = self._kept + data
        at = held.find(self.sequence)
        if at >= 0:
            self._kept = b""
            return held[:at], True
        most = min(len(held), len(self.sequence) - 1)
        keep = next((n for n in range(most, 0, -1) if held.endswith(self.sequence[:n])), 0)
        self._kept = held[len(held) - keep :]
        return held[: len(held) - keep], False


def _key(word: str, text: str) -> int:
    small = word.lower()
    if len(word) == 1 and word.isascii():
        return ord(word)
    if small.startswith("ctrl-") and len(small) == 6 and ("a" <= small[5] <= "z" or small[5] in "@[\\]^_"):
        return ord(small[5].upper()) & 0x1F
    raise BadInput(
        f"{text!r}: {word!r} is not a key; give single characters and ctrl-a to ctrl-z, ctrl-@ [ \\ ] ^ or _"
    )


_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Window(NamedTuple):
    """The size of a terminal, in characters."""

    rows: int
    columns: int


def is_terminal(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal; one that is closed is none."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def window(descriptor: int = 1) -> Window | None:
    """Return the size of the terminal behind a descriptor; None when it is none, or does not know its size."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return None
    return Window(size.lines, size.columns) if size.lines > 0 and size.columns > 0 else None


@contextmanager
def raw(descriptor: int) -> Iterator[None]:
    """Pass every key on as it is typed, Ctrl-C too; put the terminal back afterwards.

    SIGTERM and SIGHUP end the program as they should, and go through here on the way. A shell may change the terminal
    while we are stopped; SIGCONT makes it raw again.
    """
    before = termios.tcgetattr(descriptor)

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def resume(_number: int, _frame: FrameType | None) -> None:
        tty.setraw(descriptor, termios.TCSANOW)

    with _handled(dict.fromkeys(_ENDING, end) | {signal.SIGCONT: resume}):
        try:
            tty.setraw(descriptor, termios.TCSADRAIN)
            yield
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def on_resize(told: Callable[[], None]) -> Iterator[None]:
    """Call `told` when the size of our window changes; it must not wait for anything."""
    with _handled({signal.SIGWINCH: lambda _number, _frame: told()}):
        yield


Handler = Callable[[int, "FrameType | None"], None]


@contextmanager
def _handled(handlers: dict[signal.Signals, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def flush_to(data: bytes, *, stderr: bool) -> None:
    """Write bytes to stdout or stderr as they are, now."""
    out = sys.stderr.buffer if stderr else sys.stdout.buffer
    out.write(data)
    out.flush()
