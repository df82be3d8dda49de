"""What a fork of the helper does to be a command's process, as if it had been started by itself."""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import locale
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from marathon_cli.resident import frames, likeness

_LIMITS = {
    "Max cpu time": resource.RLIMIT_CPU,
    "Max file size": resource.RLIMIT_FSIZE,
    "Max data size": resource.RLIMIT_DATA,
    "Max stack size": resource.RLIMIT_STACK,
    "Max core file size": resource.RLIMIT_CORE,
    "Max processes": resource.RLIMIT_NPROC,
    "Max open files": resource.RLIMIT_NOFILE,
    "Max locked memory": resource.RLIMIT_MEMLOCK,
    "Max address space": resource.RLIMIT_AS,
}
"""Limits that a command can meet, by their names in /proc/PID/limits. Source: proc(5)."""
_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_FLUSH_FAILED = 120
"""Python's exit status when what is left of the output cannot be written."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Unlike(Exception):
    """The command is to be carried out by itself."""


def facts(pid: int | str) -> dict[str, object]:
    """Return what a command's process and the helper's must have in common. Raises OSError."""
    of = f"/proc/{pid}"
    found: dict[str, object] = {}
    found |= likeness.who(likeness.status_lines(_text(f"{of}/status")))
    for name in likeness.NAMESPACES:
        try:
            found[name] = os.readlink(f"{of}/ns/{name}")
        except FileNotFoundError:
            found[name] = None  # an older kernel
    root = os.stat(f"{of}/root")
    found["root"] = (root.st_dev, root.st_ino)
    for name in ("loginuid", "sessionid", "attr/current"):
        try:
            found[name] = _text(f"{of}/{name}")
        except OSError:
            found[name] = None  # a kernel without audits, or without a security module
    return found


def become(peer: int, asked: frames.Request, passed: Sequence[int], own: dict[str, object]) -> None:
    """Make this process the command's of the process `peer`; `own` are the helper's facts.

    Raises Unlike and OSError when it cannot be made so: nothing that others see has been done then.
    """
    theirs = facts(peer)
    if (name := likeness.unlike(own, theirs)) is not None:
        raise Unlike(name)
    environ = asked.environ()
    if likeness.loaded_with(environ) != likeness.loaded_with(os.environb):
        raise Unlike("what its loader was told")
    status = likeness.status_lines(_text(f"/proc/{peer}/status"))
    if len(passed) != 4:
        raise Unlike("it has not passed its descriptors")
    for number in range(3):
        os.dup2(passed[number], number)
    os.fchdir(passed[3])
    for descriptor in passed:
        os.close(descriptor)
    os.umask(int(status["Umask"], 8))
    _limits(_text(f"/proc/{peer}/limits"))
    _schedule(peer)
    os.environ.clear()
    os.environb.update(environ)
    _language()
    time.tzset()
    _streams()
    _signals(likeness.signal_set(status["SigIgn"]), likeness.signal_set(status["SigBlk"]))
    random.seed()
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX") or None
    sys.argv = [os.fsdecode(word) for word in asked.words]


def leave_the_helper(parent: int) -> None:
    """Be a session of our own, and end with the helper as with a terminal that is gone."""
    os.setsid()
    _prctl(_DEATH_SIGNAL, int(signal.SIGHUP), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def close_all_but(kept: Sequence[int]) -> None:
    """Close every descriptor above the standard ones that is not `kept`."""
    for name in os.listdir("/proc/self/fd"):
        if (number := int(name)) > 2 and number not in kept:
            try:
                os.close(number)
            except OSError:
                pass  # the folder itself


def carry_out(program: Callable[[], object]) -> NoReturn:
    """Run the program and end as Python ends, but for taking its modules apart."""
    gc.enable()
    status = 0
    try:
        program()
    except SystemExit as error:
        status = _status(error)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        status = 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                status = status or _FLUSH_FAILED
        os._exit(status)


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _limits(text: str) -> None:
    """Take over the limits of a process. Raises ValueError, OSError when we may not."""
    for line in text.splitlines():
        number = _LIMITS.get(line[:26].strip())
        if number is not None:
            wanted = tuple(-1 if word == "unlimited" else int(word) for word in line[26:].split()[:2])
            if resource.getrlimit(number) != wanted:
                resource.setrlimit(number, (wanted[0], wanted[1]))


def _schedule(peer: int) -> None:
    """Take over niceness, processors and what the kernel thinks of when memory is short. Raises OSError."""
    nice = os.getpriority(os.PRIO_PROCESS, peer)
    if nice != os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    processors = os.sched_getaffinity(peer)
    if processors != os.sched_getaffinity(0):
        os.sched_setaffinity(0, processors)
    wanted = _text(f"/proc/{peer}/oom_score_adj")
    if wanted != _text("/proc/self/oom_score_adj"):
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(wanted)


def _language() -> None:
    """Set the character set as Python does when it begins. Raises Unlike where it is not UTF-8.

    Source: PEP 538: in the C locale Python takes C.UTF-8, and says so to the programs that it starts.
    """
    try:
        chosen = locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:
        chosen = locale.setlocale(locale.LC_CTYPE, "C")
    if chosen in ("C", "POSIX"):
        if not os.environ.get("LC_ALL"):
            os.environ["LC_CTYPE"] = "C.UTF-8"
        try:
            locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
        except locale.Error:
            raise Unlike("the character set") from None
    elif locale.nl_langinfo(locale.CODESET).lower().replace("-", "") != "utf8":
        raise Unlike("the character set")


def _streams() -> None:
    """Make Python's streams over the new descriptors, as Python makes them."""
    # The locales of which Python thinks that nobody chose them. Source: PEP 540.
    unchosen = locale.setlocale(locale.LC_CTYPE) in ("C", "POSIX", "C.UTF-8", "C.utf8", "UTF-8")
    errors = "surrogateescape" if unchosen else "strict"
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    sys.stdout = _output(1, errors, at_once=at_once)
    sys.stderr = _output(2, "backslashreplace", at_once=at_once, lines=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _output(number: int, errors: str, *, at_once: bool, lines: bool = False) -> io.TextIOWrapper:
    raw = open(number, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
    made = io.TextIOWrapper(
        raw,
        encoding="utf-8",
        errors=errors,
        newline="\n",
        line_buffering=not at_once and (lines or os.isatty(number)),
        write_through=at_once,
    )
    made.mode = "w"  # type: ignore[misc]
    return made


def _signals(ignored: frozenset[int], blocked: frozenset[int]) -> None:
    """Have every signal mean what it means to a Python that begins."""
    signal.set_wakeup_fd(-1)
    for number in range(1, 32):
        if number in (signal.SIGKILL, signal.SIGSTOP):
            continue
        if number in ignored:
            signal.signal(number, signal.SIG_IGN)
        elif number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        elif signal.getsignal(number) != signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set(blocked))
