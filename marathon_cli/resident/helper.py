"""The helper: listens in its user's folder, and forks for each command that asks. It holds no connection to any server.

It ends by itself: when nobody has called for a while, when what it has read was changed on disk, when its socket or its
folder is gone, and when it is asked to. Commands that it has begun go on to their end first.
"""

from __future__ import annotations

import array
import fcntl
import gc
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from marathon_cli.resident import child, frames, place
from marathon_cli.resident.stamps import Stamps

IDLE_S = 600.0
LOOK_S = 30.0
"""How often it looks whether it is still wanted."""
_TO_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGSTOP, signal.SIGCONT, signal.SIGWINCH)
"""What a terminal sends to all processes of a command."""
_GRACE_S = 5.0
"""How long a front may take to say what it wants."""
_REMOVAL_S = 30.0
"""How long a command whose front is gone may take to end: a run removes its app, on a machine that may be busy."""


@dataclass(slots=True)
class Call:
    """A command that is being taken in or carried out."""

    line: socket.socket
    peer: int
    reader: frames.RequestReader = field(default_factory=frames.RequestReader)
    passed: list[int] = field(default_factory=list)
    pid: int = 0
    go: int = -1
    """Where the child is told to begin; -1 when it was told."""
    left_s: float = 0.0
    """When its front went away."""
    begun_s: float = field(default_factory=time.monotonic)


class Helper:
    """One that listens at `path` and forks; `program` is what a child carries out."""

    def __init__(self, path: str, program: Callable[[], object], stamps: Stamps, *, idle_s: float = IDLE_S) -> None:
        self._path, self._program, self._stamps, self._idle_s = path + place.SOCKET, program, stamps, idle_s
        self._calls: dict[int, Call] = {}
        self._own = child.facts("self")
        self._last_s = time.monotonic()
        self._leaving = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._poll = select.poll()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)

    def serve(self) -> None:
        """Serve until it is time to end."""
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._heard)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        # It has its name once somebody listens; the lock is ours, so what has that name is of a helper that was killed.
        made = f"{self._path}.new"
        with suppress(FileNotFoundError):
            os.unlink(made)
        mask = os.umask(0o077)
        self._listener.bind(made)
        os.umask(mask)
        self._listener.listen(64)
        self._listener.setblocking(False)
        os.rename(made, self._path)
        self._where = os.stat(self._path).st_ino
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        while not (self._leaving and not self._calls):
            self._look_around()
            for ready, _ in self._poll.poll(self._wait_ms()):
                if ready == self._woken:
                    _drained(self._woken)
                elif ready == self._listener.fileno():
                    self._accept()
                elif ready in self._calls:
                    self._hear(self._calls[ready])
            self._reap()

    def _wait_ms(self) -> float:
        due = any(call.left_s or not call.pid for call in self._calls.values())
        return 1000 * min(LOOK_S, self._idle_s, *([_GRACE_S / 10] if due else []))

    def _heard(self, number: int, _frame: object) -> None:
        if number != signal.SIGCHLD:
            self._leave()

    def _look_around(self) -> None:
        now_s = time.monotonic()
        for call in list(self._calls.values()):
            if not call.pid and now_s - call.begun_s > _GRACE_S:
                self._drop(call)
            elif call.left_s and now_s - call.left_s > _REMOVAL_S:
                _send(call.pid, signal.SIGKILL, group=True)
        if self._leaving:
            return
        if self._calls:
            self._last_s = now_s
        elif now_s - self._last_s >= self._idle_s or not self._is_wanted() or self._stamps.changed():
            self._leave()

    def _is_wanted(self) -> bool:
        try:
            return os.lstat(self._path).st_ino == self._where
        except OSError:
            return False

    def _leave(self) -> None:
        """Take no more commands; one that finds no socket goes the direct way."""
        if self._leaving:
            return
        self._leaving = True
        if self._is_wanted():
            os.unlink(self._path)
        try:
            self._poll.unregister(self._listener)
        except KeyError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:
            return
        pid, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.geteuid():
            line.close()
            return
        line.setblocking(False)
        self._calls[line.fileno()] = Call(line, pid)
        self._poll.register(line, select.POLLIN)

    def _hear(self, call: Call) -> None:
        """Take in what a command says."""
        try:
            if call.pid:
                self._told(call, call.line.recv(256))
                return
            room = socket.CMSG_SPACE(8 * array.array("i").itemsize)
            data, beside, _, _ = call.line.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
            for level, kind, numbers in beside:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    call.passed += array.array("i", numbers[: len(numbers) // 4 * 4])
            if not data:
                self._drop(call)
            elif frames.is_leave(data):
                self._drop(call)
                self._leave()
            elif (asked := call.reader.feed(data)) is not None:
                self._last_s = time.monotonic()
                self._begin(call, asked)
        except BlockingIOError:
            pass
        except (OSError, frames.BadFrame):
            if call.pid:
                self._told(call, b"")
            else:
                self._drop(call)

    def _begin(self, call: Call, asked: frames.Request) -> None:
        """Fork for a command. When our code is no longer that on disk, it is refused, and we end."""
        if self._stamps.changed():
            self._drop(call)
            self._leave()
            return
        told, go = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(told)
            os.close(go)
            self._drop(call)
            return
        if pid == 0:
            _be_the_child(call, asked, told, self._own, self._program, parent=os.getppid())
        os.close(told)
        for descriptor in call.passed:
            os.close(descriptor)
        call.passed = []
        call.pid, call.go = pid, go

    def _told(self, call: Call, data: bytes) -> None:
        """Do what a command's front says; it may be gone."""
        if data and call.go >= 0:
            if data[:1] != frames.GO:
                data = b""
            else:
                os.write(call.go, frames.GO)
                os.close(call.go)
                call.go, data = -1, data[1:] or frames.GO
        if not data:
            self._forget_front(call)
            return
        for number in frames.signals(data.removeprefix(frames.GO)):
            _send(call.pid, number, group=number in _TO_GROUP)

    def _forget_front(self, call: Call) -> None:
        """A front that is gone is to its command what a terminal is that is gone."""
        self._poll.unregister(call.line)
        if call.go >= 0:
            os.close(call.go)
            call.go = -1
        else:
            _send(call.pid, signal.SIGHUP, group=True)
            _send(call.pid, signal.SIGCONT, group=True)
        call.left_s = time.monotonic()

    def _drop(self, call: Call) -> None:
        del self._calls[call.line.fileno()]
        if not call.left_s:
            self._poll.unregister(call.line)
        for descriptor in call.passed:
            os.close(descriptor)
        if call.go >= 0:
            os.close(call.go)
        call.line.close()

    def _reap(self) -> None:
        """Tell fronts how their commands have ended."""
        by_pid = {call.pid: call for call in self._calls.values() if call.pid}
        while by_pid:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            call = by_pid.pop(pid, None)
            if call is None:
                continue
            try:
                call.line.setblocking(True)
                call.line.sendall(frames.ended(status))
            except OSError:
                pass  # it is gone
            self._drop(call)


def _be_the_child(
    call: Call,
    asked: frames.Request,
    told: int,
    own: dict[str, object],
    program: Callable[[], object],
    *,
    parent: int,
) -> None:
    """Become the command, tell its front, wait for its word, and carry it out. Never returns."""
    try:
        child.leave_the_helper(parent)
        call.line.setblocking(True)
        child.close_all_but([call.line.fileno(), told, *call.passed])
        try:
            child.become(call.peer, asked, call.passed, own)
        except (child.Unlike, OSError, ValueError, LookupError) as error:
            call.line.sendall(frames.REFUSED + str(error).encode()[:200])
            os._exit(1)
        call.line.sendall(frames.READY)
        call.line.close()
        if os.read(told, 1) != frames.GO:
            os._exit(1)
        os.close(told)
    except BaseException:
        os._exit(1)
    child.carry_out(program)


def _send(pid: int, number: int, *, group: bool) -> None:
    """Send a signal to a child that has not been waited for, or to its whole session's group."""
    try:
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (OSError, ValueError):
        pass  # it has ended


def _drained(descriptor: int) -> None:
    try:
        while os.read(descriptor, 256):
            pass
    except BlockingIOError:
        pass


def run(
    path: str,
    preload: Callable[[], None],
    program: Callable[[], object],
    *,
    also: Sequence[str] = (),
    idle_s: float = IDLE_S,
) -> None:
    """Be the helper at `path`, unless there is one, until what it has read, or a file of `also`, has changed."""
    child.close_all_but([])
    os.chdir("/")
    folder = os.path.dirname(path)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise SystemExit(f"{folder} is not a folder of ours alone")
    lock = os.open(path + place.LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    preload()
    # It only serves what it has read: looking for garbage would copy pages that children share.
    gc.collect()
    gc.freeze()
    gc.disable()
    Helper(path, program, Stamps.now(sys.modules, also), idle_s=idle_s).serve()
