"""Programs of this package that a service runs beside it, and exchanges lines with; they are restarted when they end.

The program's standard input is one end of a socket. Each message is one line in both directions. The program ends when
the service closes its end, in whatever way the service ends, so no program is left behind.

Programs that do not fit this are few, and each has a reason: the process that unpacks layers is one of a pool and is
killed in the middle of its work; those that services are forked from, and that open files of a container, pass
descriptors; the simulated GPUs and the holder of a terminal outlive the agent; CUDA checkpoints are one call each.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_LINE = 1 << 24
"""Bytes of a line from a program: what it says of a thousand containers."""
STOP_S = 5.0
"""How long a program has to end once its socket is closed."""


class Child:
    """A program that `start` starts, with the socket that it is given as standard input. Lives in one event loop.

    `hear` is called with each line from the program; if it raises, the program is restarted. `on_silence` is called
    each time that nothing came for `silence_s` seconds. When the program has ended, `on_end` is called, and it is
    started again after `again_s`, as often as that takes; `on_start` is called whenever it was started. `name` is for
    the log.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[socket.socket], subprocess.Popen[bytes]],
        hear: Callable[[bytes], Awaitable[None]],
        *,
        again_s: float,
        silence_s: float | None = None,
        on_silence: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
        on_start: Callable[[], object] = lambda: None,
    ) -> None:
        self._name, self._start, self._hear = name, start, hear
        self._again_s, self._silence_s = again_s, silence_s
        self._on_silence, self._on_end, self._on_start = on_silence, on_end, on_start
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._first = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Return the process id of the program; None before it was started."""
        return None if self._process is None else self._process.pid

    async def start(self, *, first_line_s: float = 0.0) -> None:
        """Start the program, and wait at most `first_line_s` for its first line. Raises OSError."""
        await self._begin()
        self._task = asyncio.ensure_future(self._run(started=True))
        if first_line_s:
            await asyncio.wait([first := asyncio.ensure_future(self._first.wait())], timeout=first_line_s)
            first.cancel()

    def begin(self) -> None:
        """Start the program in the background, and try again for as long as that fails."""
        self._task = asyncio.ensure_future(self._run(started=False))

    def send(self, line: bytes) -> bool:
        """Send a line; return False if the program does not run at the moment."""
        if self._writer is None or self._writer.is_closing():
            return False
        self._writer.write(line + b"\n")
        return True

    async def close(self) -> None:
        """Close the socket, upon which the program ends, and wait for that; one that does not end is killed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._end()

    async def _run(self, *, started: bool) -> None:
        while True:
            if not started and not await self._begins():
                await asyncio.sleep(self._again_s)
                continue
            await self._until_its_end()
            self._on_end()
            log.warning("%s has ended; starting it again", self._name)
            await self._end()
            await asyncio.sleep(self._again_s)
            started = False

    async def _begins(self) -> bool:
        try:
            await self._begin()
        except OSError as error:  # no memory or no descriptor for a process
            log.warning("cannot start %s: %s; trying again in %g s", self._name, error.strerror, self._again_s)
            return False
        return True

    async def _until_its_end(self) -> None:
        while line := await self._line():
            self._first.set()
            try:
                await self._hear(line)
            except Exception:
                log.exception("%s sent a line that cannot be processed: %r", self._name, line[:200])
                return

    async def _begin(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = self._start(theirs)
            self._reader, self._writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE)
        except BaseException:
            ours.close()
            await self._end()
            raise
        self._on_start()

    async def _line(self) -> bytes:
        """Return the next line; nothing when the program has ended."""
        if self._reader is None:
            return b""
        reading = asyncio.ensure_future(self._reader.readline())
        try:
            while not (await asyncio.wait([reading], timeout=self._silence_s))[0]:
                self._on_silence()
            line = await reading
            return line if line.endswith(b"\n") else b""
        except (OSError, ValueError):  # the connection broke; a line longer than the reader takes
            return b""
        finally:
            reading.cancel()

    async def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._process is None:
            return
        try:
            await asyncio.to_thread(self._process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
