"""Signals that end a program while it begins what nobody else would end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Hear SIGINT, SIGTERM and SIGHUP only when this is left, as they would have been. For the main thread.

    A program that is started meanwhile hears all of them: blocked ones it would inherit. What is ignored stays so.
    """
    came: list[int] = []
    with _handled(_ENDING, lambda number, _frame: came.append(number)):
        yield
    for number in dict.fromkeys(came):
        signal.raise_signal(number)


@contextmanager
def leaving() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the program as Ctrl-C does, by an exception; its status is 128 and their number.

    Only where they would have ended it: `nohup` has SIGHUP ignored. For the main thread.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with _handled([number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL], leave):
        yield


@contextmanager
def _handled(
    numbers: tuple[signal.Signals, ...] | list[signal.Signals], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in numbers}
    heard = {number: was for number, was in before.items() if was not in (signal.SIG_IGN, None)}
    try:
        for number in heard:
            signal.signal(number, handler)
        yield
    finally:
        for number, was in heard.items():
            signal.signal(number, was)
