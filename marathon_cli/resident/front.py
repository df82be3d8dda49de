"""A command's own side: hands itself to the helper where there is one, and stays until it has ended.

It imports next to nothing: that is what makes a command short. Until it has said GO it may do all by itself.
"""

from __future__ import annotations

import os
import sys

from marathon_cli.resident import frames, place
from marathon_cli.resident.choice import is_for_helper, is_kept, worth_starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    import signal
    from collections.abc import Callable, Mapping, Sequence
else:
    import _signal as signal  # `signal` gives it names by `enum`, which takes 3 ms

PATIENCE_S = 1.0
"""How long the helper may take to say READY."""
_PASSED_ON = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT),
)
_STOPPED = 0o177
LOST = 1
_SPAWNED = "import sys; sys.path[:] = [one for one in sys.path if one]; from marathon_cli.start import helper; helper()"


def carried_out(words: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Have the helper carry this process' command out; return how that ended, as waitpid(2) says it.

    None when there is no helper, or it refuses: nothing has been done then.
    """
    path = _path(words, environ)
    if path is None or not place.is_our_socket(path + place.SOCKET):
        return None
    line = _connected(path + place.SOCKET)
    if line is None:
        return None
    try:
        if not _is_ready(line, words):
            return None
        return _attend(line)
    finally:
        line.close()


def _path(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return where our helper would listen, when this command is one for it."""
    try:
        for number in (0, 1, 2):
            os.fstat(number)
        typed = os.isatty(0)
        if typed and os.tcgetpgrp(0) != os.getpgrp():
            return None  # in the background: only there does the kernel stop who reads
    except OSError:
        return None  # a standard stream is closed, or the terminal is another session's
    return place.path_of(environ) if is_for_helper(words, environ, typed=typed) else None


def _connected(path: str) -> _socket.socket | None:
    """Return a connection to a helper that the kernel says is ours."""
    import _socket

    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.settimeout(PATIENCE_S)
        line.connect(path)
        peer = line.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(peer[4:8], sys.byteorder) == os.geteuid():
            return line
    except OSError:
        pass
    line.close()
    return None


def _is_ready(line: _socket.socket, words: Sequence[str]) -> bool:
    """Tell the helper who we are; return whether it would carry us out."""
    import _socket

    frame = frames.request([os.fsencode(word) for word in (sys.argv[0], *words)], os.environb)
    if frame is None:
        return False
    try:
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    passed = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, here))
    try:
        sent = line.sendmsg([frame], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
        if sent < len(frame):
            line.sendall(frame[sent:])
        return line.recv(1) == frames.READY
    except OSError:
        return False
    finally:
        os.close(here)


def _attend(line: _socket.socket) -> int:
    """Let it begin, pass signals on to it, and return how it ended."""
    import select

    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    heeded = [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, _only_noted)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    line.setblocking(True)
    poll = select.poll()
    poll.register(line.fileno(), select.POLLIN)
    poll.register(woken, select.POLLIN)
    said = b""
    try:
        line.sendall(frames.GO)
        while True:
            ready = [number for number, _ in poll.poll()]
            if woken in ready:
                for heard in os.read(woken, 64):
                    _pass_on(line, heard)
            if line.fileno() in ready:
                more = line.recv(16)
                said += more
                status = frames.status_of(said)
                if status is not None:
                    return status
                if not more:
                    break
    except OSError:
        pass  # it is gone
    sys.stderr.write(
        "mesos-gpu: the helper process that carried this command out was ended, and the command with it; how far it "
        "came is not known\n"
    )
    return LOST << 8


def _pass_on(line: _socket.socket, number: int) -> None:
    """Send what we were sent; Ctrl-Z stops the command first, then us."""
    if number != signal.SIGTSTP:
        _send(line, number)
        return
    _send(line, signal.SIGSTOP)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.signal(number, _only_noted)
    _send(line, signal.SIGCONT)


def _only_noted(_number: int, _frame: object) -> None:
    """Have Python write its number where we wait, and nothing else."""


def _send(line: _socket.socket, number: int) -> None:
    try:
        line.send(frames.signal_frame(number))
    except OSError:
        pass  # it has ended, and how stands in what is still to be read


def end_as(status: int) -> None:
    """End as a process did: with its status, or by its signal."""
    if number := status & _STOPPED:
        signal.set_wakeup_fd(-1)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        _no_core()
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # it was blocked
    os._exit(status >> 8)


def _no_core() -> None:
    """What ended did so elsewhere: our own memory says nothing of it."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def begin_helper(words: Sequence[str], environ: Mapping[str, str], now_s: float, is_wanted: Callable[[], bool]) -> None:
    """Start a helper for the next commands, when that is worth it and wanted; nothing is said where it cannot be."""
    path = _path(words, environ)
    if path is None:
        return
    noted = path + place.CALLED
    try:
        try:
            before_s: float | None = os.stat(noted).st_mtime
        except FileNotFoundError:
            before_s = None
        os.close(os.open(noted, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.utime(noted, (now_s, now_s))
        if worth_starting(now_s, before_s) and is_wanted():
            _spawn(path, environ)
    except (OSError, NotImplementedError):
        pass  # NotImplementedError: a C library before glibc 2.26 starts no sessions


def _spawn(path: str, environ: Mapping[str, str]) -> None:
    """Start a helper that has none of our streams, terminal or session. It holds a lock: a second ends at once."""
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    compiled = ["-B"] if sys.dont_write_bytecode else []
    compiled += [f"-Xpycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
    command = [sys.executable, "-E", *compiled, "-c", _SPAWNED, path]
    # What a command is told may be secret, and the helper has no use for it.
    kept = {name: value for name, value in environ.items() if is_kept(name)}
    defaults = [number for number in range(1, 32) if number not in (signal.SIGKILL, signal.SIGSTOP)]
    os.posix_spawn(sys.executable, command, kept, file_actions=nowhere, setsid=True, setsigdef=defaults, setsigmask=[])
