"""The terminal we run in: given to a process elsewhere, and handed back as it was, whatever happens in between."""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

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
