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
from functools import partial
from pathlib import Path
from typing import Any

from mesos_gpu.errors import Unavailable
from mesos_gpu.local.forking import preloaded
from mesos_gpu.local.forking.forked import SERVICES, keep_only
from mesos_gpu.local.plan import ROOM, program
from mesos_gpu.mesos.security.tls_settings import without_tls

log = logging.getLogger(__name__)

_GONE = "the process that services are forked from has ended"


class Forked:
    """A service that was forked. `returncode` is its exit status, or minus the signal that ended it; None: it runs."""

    def __init__(self, pid: int, watch: int) -> None:
        """`watch` is a pidfd of it, which is closed when it has ended."""
        self.pid, self._watch = pid, watch
        self.returncode: int | None = None
        self._over = asyncio.Event()

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

    def ended(self, status: int) -> None:
        """Note how it ended."""
        self.returncode = status
        self._over.set()
        os.close(self._watch)

    def orphaned(self) -> None:
        """See it end by itself: who would have told is gone, and has had the kernel send it SIGTERM."""
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(self._watch)
            self.ended(-signal.SIGTERM)

        loop.add_reader(self._watch, gone)


class Forks:
    """Starts services of one box. The process they are forked from is there from the first one until `close`."""

    def __init__(self, work_dir: Path, begun: Preloading | None = None, modules: Sequence[str] = SERVICES) -> None:
        """`begun`: such a process that was forked already. `modules`: what it is to read."""
        self._work_dir, self._modules = work_dir, modules
        self._preloading = begun
        self._listening = False
        self._asked = 0
        self._starting: dict[int, asyncio.Future[Forked]] = {}
        self._running: dict[int, Forked] = {}

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
        self._asked += 1
        answer: asyncio.Future[Forked] = asyncio.get_running_loop().create_future()
        self._starting[self._asked] = answer
        request: dict[str, Any] = {"number": self._asked, "module": module, "flags": list(flags), "name": name}
        try:
            socket.send_fds(preloading.channel, [json.dumps(request).encode()], [log])
        except ConnectionError:
            self._lost()
        except OSError:
            del self._starting[request["number"]]
            raise
        try:
            return await answer
        except asyncio.CancelledError:
            # Given up in the moment between the answer and now: nobody else knows of it.
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answer.result().send_signal(signal.SIGKILL)
            raise

    async def close(self) -> None:
        """End the process that services were forked from; those that still run are told to end."""
        preloading, self._preloading = self._preloading, None
        if preloading is not None:
            if self._listening:
                asyncio.get_running_loop().remove_reader(preloading.channel)
                self._listening = False
            preloading.channel.close()
            await asyncio.to_thread(preloading.reap)
            self._abandon()

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
        if "ended" in told:
            self._running.pop(told["ended"]).ended(told["status"])
            return
        answer = self._starting.pop(told["asked"])
        if "error" in told:
            error = OSError(told["error"], os.strerror(told["error"]))
            if not answer.cancelled():
                answer.set_exception(error)
            return
        forked = self._running[told["asked"]] = Forked(told["pid"], descriptors[0])
        if answer.cancelled():
            forked.send_signal(signal.SIGKILL)
        else:
            answer.set_result(forked)

    def _lost(self) -> None:
        """Take it that the process is gone. The next start makes a new one."""
        preloading, self._preloading = self._preloading, None
        if preloading is not None:
            log.warning(
                "the process that services are forked from has ended, and %d of them with it", len(self._running)
            )
            asyncio.get_running_loop().remove_reader(preloading.channel)
            self._listening = False
            preloading.channel.close()
            preloading.reap()
            self._abandon()

    def _abandon(self) -> None:
        for answer in self._starting.values():
            if not answer.cancelled():
                answer.set_exception(Unavailable(_GONE))
        for forked in self._running.values():
            forked.orphaned()
        self._starting, self._running = {}, {}


class Preloading:
    """A process that reads the code of services: our end of its channel, and `reap`, which waits for its end."""

    def __init__(self, channel: socket.socket, reap: Callable[[], object]) -> None:
        self.channel, self.reap = channel, reap

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
        return cls(ours, partial(os.waitpid, pid, 0))

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
        return cls(ours, process.wait)


def _channel() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
