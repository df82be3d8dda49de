"""Has Ctrl-C heard also when it comes at the very moment in which the program begins to wait.

Python only notes a signal when it comes, and acts on it between two steps of the main thread. When it comes right
before a system call that waits, or the kernel gives it to another thread, nobody ends that call: the program sleeps on
until the server says something, which may be never. So a thread is told of each signal by Python's wakeup descriptor,
and nudges the main thread out of its call with a signal that means nothing else.
"""

from __future__ import annotations

import os
import signal
import threading
import time

_NUDGE = signal.SIGURG
"""What it does unless it is asked for: nothing. No part of this program asks for it."""
_NUDGES, _PAUSE_S = 20, 0.02
"""The call may begin a little after the signal, so one nudge is not enough; the last comes after 0.4 s."""


def heed() -> None:
    """Begin. For the main thread of a program that owns its process; what runs an event loop does this by itself."""
    told, teller = os.pipe()
    os.set_blocking(teller, False)
    signal.signal(_NUDGE, lambda _number, _frame: None)
    signal.set_wakeup_fd(teller, warn_on_full_buffer=False)
    threading.Thread(target=_nudge, args=(told, threading.get_ident()), name="interrupts", daemon=True).start()


def _nudge(told: int, main: int) -> None:
    while numbers := os.read(told, 64):
        if set(numbers) == {_NUDGE}:
            continue  # our own
        for _ in range(_NUDGES):
            signal.pthread_kill(main, _NUDGE)
            time.sleep(_PAUSE_S)
