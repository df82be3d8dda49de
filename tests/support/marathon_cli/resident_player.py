"""What helpers of tests carry out in the place of `mesos-gpu`: its words say what.

`python -m` this module `PATH [IDLE_S [ALSO]]` is such a helper; with other words it is the program itself, carried out
directly, for comparison.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from marathon_cli.resident import helper

LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_STACK, resource.RLIMIT_AS, resource.RLIMIT_CPU)


def play() -> None:
    """Do what the second word says: the first is a command that goes to the helper."""
    what, *rest = sys.argv[2:]
    actions: dict[str, Any] = {
        "tell": tell,
        "exit": lambda status: sys.exit(int(status)),
        "die": lambda number: os.kill(os.getpid(), int(number)),
        "raise": lambda: {}["nothing"],
        "say": lambda text: sys.exit(text),
        "cat": lambda: shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer),
        "write": lambda count: sys.stdout.write("x" * int(count)),
        "note": note,
        "wait": wait,
    }
    actions[what](*rest)


def tell(*_: str) -> None:
    """Print all that a program can find out about how it was started."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        here = "gone"
    mask = os.umask(0)
    ignored = [number for number in range(1, 32) if signal.getsignal(number) == signal.SIG_IGN]
    handled = [number for number in range(1, 32) if callable(signal.getsignal(number))]
    streams = [sys.stdin, sys.stdout, sys.stderr]
    found = {
        "words": sys.argv[2:],
        "environ": {name: value for name, value in os.environ.items() if name != "_"},
        "here": here,
        "umask": mask,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": sorted(os.sched_getaffinity(0)),
        "limits": [resource.getrlimit(one) for one in LIMITS],
        "ignored": ignored,
        "handled": handled,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "descriptors": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())[:3],
        "more descriptors": len(list(Path("/proc/self/fd").iterdir())) - 4,
        "streams": [[one.encoding, one.errors, one.line_buffering, one.isatty(), one.mode] for one in streams],
        "user": [os.getresuid(), os.getresgid(), sorted(os.getgroups())],
        "zone": [time.tzname, time.localtime(0)[:5]],
        "oom": Path("/proc/self/oom_score_adj").read_text(),
        "threads": len(list(Path("/proc/self/task").iterdir())),
    }
    print(json.dumps(found, sort_keys=True))


def note(file: str, text: str) -> None:
    """Add a line to a file, so that it is seen when something is done twice."""
    with Path(file).open("a") as notes:
        notes.write(f"{text}\n")


def wait(file: str) -> None:
    """Write our number to a file and wait; say what comes meanwhile, and end by Ctrl-C and SIGHUP as programs do."""

    def hang_up(_number: int, _frame: object) -> None:
        note(file, "hung up")
        sys.exit(3)

    def size(_number: int, _frame: object) -> None:
        # By the system's call: the signal may come while something is being printed.
        os.write(1, f"size {os.get_terminal_size(1).columns}\n".encode())

    signal.signal(signal.SIGHUP, hang_up)
    signal.signal(signal.SIGWINCH, size)
    note(file, str(os.getpid()))
    try:
        print("waiting", flush=True)  # in here: who reads it may interrupt before the next line
        while True:
            time.sleep(0.02)  # a signal that comes right before a longer one would be noted, and no more
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("/"):
        idle_s = float(sys.argv[2]) if len(sys.argv) > 2 else helper.IDLE_S
        helper.run(sys.argv[1], lambda: None, play, idle_s=idle_s, also=sys.argv[3:])
    else:
        play()
