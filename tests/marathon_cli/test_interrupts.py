"""A Ctrl-C that the call which waits does not notice by itself ends the program all the same."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import signal, socket, sys, threading, time
from pathlib import Path
from marathon_cli.main import interrupt_blocked_calls

interrupt_blocked_calls()
ours, silent = socket.socketpair()
waiter = threading.get_native_id()

def sleeps():
    main = Path(f"/proc/self/task/{waiter}")
    return main.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "S" and (
        "futex" not in main.joinpath("wchan").read_text()  # that would be Python's own lock
    )

def interrupt_once_it_sleeps():
    while not sleeps():
        time.sleep(0.001)
    # The signal comes to this thread: Python notes it, and the call of the other continues.
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=interrupt_once_it_sleeps, daemon=True).start()
try:
    ours.recv(1)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_call_that_goes_on_is_ended() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n"
