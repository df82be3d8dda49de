"""The supervisor's end of the process that services are forked from: starts it, asks it, and sees services end."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from mesos_gpu.errors import Unavailable
from mesos_gpu.local.forking import preloaded
from mesos_gpu.local.forking.forked import SERVICES, keep_only
from mesos_gpu.local.forking.handed import adopt, children
from mesos_gpu.local.plan import ROOM, program
from mesos_gpu.mesos.security.tls_settings import without_tls

log = logging.getLogger(__name__)

KEPT_S = 2.0
END_S = 10.0
"""How long services have to end when nobody has ended them before."""
_UNKNOWN = 255
"""The status of who ended and was waited for by somebody else in this process, as asyncio has it."""
_GONE = "the process that services are forked from has ended"


class Forked:
    """A child of ours. `returncode` is its exit status, or minus the signal that ended it; None: it runs."""

    def __init__(self, pid: int, watch: int, over: Callable[[Forked], object]) -> None:
        """`watch` is a pidfd of it, which is closed when it has ended; then `over` is called."""
        self.pid, self._watch, self._tell = pid, watch, over
        self.returncode: int | None = None
        self._over = asyncio.Event()
        asyncio.get_running_loop().add_reader(watch, self._ended)

    async def wait(self) -> int:
        """Return `returncode` once it has ended."""
        await self._over.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watch, number)

    def _ended(self) -> None:
        try:
            found = os.waitid(os.P_PIDFD, self._watch, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            self.returncode = _UNKNOWN
        else:
            if found is None:
                return  # asked for once more, and not waited for: the loop is everybody's
            self.returncode = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        asyncio.get_running_loop().remove_reader(self._watch)
        os.close(self._watch)
        self._over.set()
        self._tell(self)


class Forks:
    """Starts services of one box, as children of this process.

    What they are forked from is there from the first start until `KEPT_S` after the last: by then it would hold memory
    for nobody. A later start has another read the code.
    """

    def __init__(self, work_dir: Path, begun: Preloading | None = None, modules: Sequence[str] = SERVICES) -> None:
        """`begun`: such a process that was forked already. `modules`: what it is to read."""
        self._work_dir, self._modules = work_dir, modules
        self._preloading = begun
        self._listening = False
        self._asked = 0
        self._starting: dict[int, asyncio.Future[Forked]] = {}
        self._others: frozenset[int] = frozenset()
        self._running: dict[int, Forked] = {}
        """By pid: services, what was adopted beside them, and what they were forked from, once it has been let go."""
        self._letting_go: asyncio.TimerHandle | None = None

    def begin(self) -> Preloading:
        """Have a process that reads the code, and return it."""
        if self._preloading is None:
            self._preloading = Preloading.executed(self._work_dir, self._modules)
        if not self._listening:
            asyncio.get_running_loop().add_reader(self._preloading.channel, self._hear)
            self._listening = True
        return self._preloading

    async def start(self, module: str, flags: Sequence[str], name: str, log: int) -> Forked:
        """Start the `main` of a module with these flags; its output goes to the descriptor `log`.

        Raises OSError when no process can be made, Unavailable when the one to fork from ended meanwhile.
        """
        preloading = self.begin()
        number, answer = self._ask()
        request = {"number": number, "module": module, "flags": list(flags), "name": name, "parent": os.getpid()}
        try:
            socket.send_fds(preloading.channel, [json.dumps(request).encode()], [log])
        except ConnectionError:
            self._lost()
        except OSError:
            self._answered(number)
            raise
        try:
            return await answer
        except asyncio.CancelledError:
            # Given up in the moment between the answer and now: nobody else knows of it.
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answer.result().send_signal(signal.SIGKILL)
            raise

    async def close(self) -> None:
        """End the process that services were forked from, and services that still run."""
        self._let_go()
        if self._running:
            ends = [asyncio.ensure_future(child.wait()) for child in self._running.values()]
            for number in (signal.SIGTERM, signal.SIGKILL):
                for child in self._running.values():
                    child.send_signal(number)
                await asyncio.wait(ends, timeout=END_S)

    def _ask(self) -> tuple[int, asyncio.Future[Forked]]:
        """Return the number of a new request, and its answer to be."""
        if self._letting_go is not None:
            self._letting_go.cancel()
        if not self._starting:
            self._others = children()
            adopt(True)
        self._asked += 1
        answer = self._starting[self._asked] = asyncio.get_running_loop().create_future()
        return self._asked, answer

    def _hear(self) -> None:
        assert self._preloading is not None
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._preloading.channel, preloaded.PACKET, 1)
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            self._lost()
            return
        told = json.loads(packet)
        if "error" in told:
            answer = self._answered(told["asked"])
            if not answer.cancelled():
                answer.set_exception(OSError(told["error"], os.strerror(told["error"])))
            return
        forked = self._watch(told["pid"], descriptors[0])
        answer = self._answered(told["asked"])
        if answer.cancelled():
            forked.send_signal(signal.SIGKILL)
        else:
            answer.set_result(forked)

    def _watch(self, pid: int, watch: int) -> Forked:
        child = self._running[pid] = Forked(pid, watch, lambda ended: self._running.pop(ended.pid))
        return child

    def _answered(self, number: int) -> asyncio.Future[Forked]:
        """Take the answer of a request, which is over with."""
        answer = self._starting.pop(number)
        if not self._starting:
            adopt(False)
            # What another service left just now, as conmon of an agent that was killed, is ours to bury as well.
            beside = children() - self._others - self._running.keys()
            if self._preloading is not None:
                beside -= {self._preloading.pid}
            for pid in beside:
                self._watch(pid, os.pidfd_open(pid))
            self._letting_go = asyncio.get_running_loop().call_later(KEPT_S, self._let_go)
        return answer

    def _lost(self) -> None:
        """Take it that the process is gone. The next start makes a new one."""
        if self._preloading is not None:
            log.warning("the process that services are forked from has ended")
            self._let_go()

    def _let_go(self) -> None:
        """Close the channel, upon which the process ends; who waits for a start is told that there will be none."""
        if self._letting_go is not None:
            self._letting_go.cancel()
        preloading, self._preloading = self._preloading, None
        if preloading is not None:
            if self._listening:
                asyncio.get_running_loop().remove_reader(preloading.channel)
                self._listening = False
            preloading.channel.close()
            self._watch(preloading.pid, os.pidfd_open(preloading.pid))
        for number in list(self._starting):
            answer = self._answered(number)
            if not answer.cancelled():
                answer.set_exception(Unavailable(_GONE))


class Preloading:
    """A process that reads the code of services, a child of ours: its pid, and our end of its channel."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self.channel, self.pid = channel, pid

    @classmethod
    def forked(cls, work_dir: Path, modules: Sequence[str]) -> Preloading:
        """Fork it from this very process, which has no threads and no event loop yet: what it has read is shared."""
        ours, theirs = _channel()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setsid()
                keep_only(theirs.fileno())
                preloaded.serve(theirs, str(work_dir), modules)
                status = 0
            finally:
                os._exit(status)
        theirs.close()
        return cls(ours, pid)

    @classmethod
    def executed(cls, work_dir: Path, modules: Sequence[str]) -> Preloading:
        """Start it as a program."""
        ours, theirs = _channel()
        with theirs:
            process = subprocess.Popen(
                [*program("mesos_gpu.local.forking.preloaded"), str(theirs.fileno()), str(work_dir), ROOM, *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                # Services of a box find each other on the loopback, without TLS, whatever the user's cluster does.
                env=without_tls(os.environ),
            )
        # Its end is seen by `Forks`, as those of services are; Popen is not to ask for it.
        process.returncode = 0
        return cls(ours, process.pid)


def _channel() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
