"""Standard input and output of a session, between its process and whoever is attached. Named after Mesos' own.

Nothing here waits: descriptors are read and written as the event loop says. Who is attached and reads too slowly makes
the process wait, as a pipe would; with others attached beside it, it is cut off instead.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import termios
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

Stream = Literal["STDOUT", "STDERR"]

AT_ONCE = 32768
MAX_BEHIND = 1 << 20
"""Bytes that an attachment may be behind before the process has to wait for it."""

END_OF_FILE = b"\x04"
"""What a terminal takes for the end of input; it cannot be closed half."""


class Attachment:
    """What one client hears: an asynchronous iterator of streams and their bytes, which ends with the last stream."""

    def __init__(self, board: Switchboard) -> None:
        self._board = board
        self._waiting: deque[tuple[Stream, bytes]] = deque()
        self._news = asyncio.Event()
        self._over = False
        self.behind = 0

    def __aiter__(self) -> Attachment:
        return self

    async def __anext__(self) -> tuple[Stream, bytes]:
        while not self._waiting:
            if self._over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        stream, data = self._waiting.popleft()
        self.behind -= len(data)
        self._board.caught_up()
        return stream, data

    def put(self, stream: Stream, data: bytes) -> None:
        """Give it output."""
        self._waiting.append((stream, data))
        self.behind += len(data)
        self._news.set()

    def end(self) -> None:
        """Let it end, after what it was given."""
        self._over = True
        self._news.set()

    def close(self) -> None:
        """Detach."""
        self.end()
        self._board.detach(self)


class Switchboard:
    """Owns the descriptors it is given: the one to write input to, and those to read output from.

    For a terminal both are the same one. `feeder` is free for whoever sends the input, of whom there is one at a time.
    """

    def __init__(self, stdin: int, outputs: Mapping[Stream, int], *, terminal: bool = False) -> None:
        self.terminal = terminal
        self.feeder: object | None = None
        self.ended = asyncio.Event()
        self._stdin: int | None = stdin
        self._outputs = dict(outputs)
        self._attached: list[Attachment] = []
        self._unwritten = bytearray()
        self._room = asyncio.Event()
        self._reading: set[Stream] = set()
        for descriptor in {stdin, *outputs.values()}:
            os.set_blocking(descriptor, False)

    def attach(self) -> Attachment:
        """Return what hears all output from now on."""
        attachment = Attachment(self)
        if self.ended.is_set():
            attachment.end()
        else:
            self._attached.append(attachment)
            self.caught_up()
        return attachment

    def detach(self, attachment: Attachment) -> None:
        """Let go of an attachment."""
        if attachment in self._attached:
            self._attached.remove(attachment)
            self.caught_up()

    def caught_up(self) -> None:
        """Read on, unless the only one attached is far behind."""
        slow = [attachment for attachment in self._attached if attachment.behind > MAX_BEHIND]
        if slow and len(self._attached) == 1:
            self._pause()
            return
        self._cut(slow)
        loop = asyncio.get_running_loop()
        for stream, descriptor in self._outputs.items():
            if stream not in self._reading:
                self._reading.add(stream)
                loop.add_reader(descriptor, self._read, stream, descriptor)

    def _cut(self, attachments: Sequence[Attachment]) -> None:
        for attachment in attachments:
            self._attached.remove(attachment)
            attachment.end()

    def _pause(self) -> None:
        for stream in self._reading:
            asyncio.get_running_loop().remove_reader(self._outputs[stream])
        self._reading.clear()

    def _read(self, stream: Stream, descriptor: int) -> None:
        try:
            data = os.read(descriptor, AT_ONCE)
        except BlockingIOError:
            return
        except OSError as error:
            # A terminal whose other side is closed; a socket whose other side was killed.
            if error.errno not in (errno.EIO, errno.ECONNRESET):
                raise
            data = b""
        if data:
            self._take(stream, data)
            self.caught_up()
            return
        asyncio.get_running_loop().remove_reader(descriptor)
        self._reading.discard(stream)
        del self._outputs[stream]
        if descriptor != self._stdin:
            os.close(descriptor)
        if not self._outputs:
            self._finish()

    def _take(self, stream: Stream, data: bytes) -> None:
        """Do what is to be done with what was read."""
        self.say(stream, data)

    def say(self, stream: Stream, data: bytes) -> None:
        """Give output to all who are attached."""
        for attachment in self._attached:
            attachment.put(stream, data)

    async def write(self, data: bytes) -> None:
        """Give input to the process; returns when it is taken. What comes after its end is for nobody."""
        if self._stdin is None:
            return
        self._unwritten += data
        self._write()
        while self._unwritten and self._stdin is not None:
            self._room.clear()
            await self._room.wait()

    def end_input(self) -> None:
        """Tell the process that no more input comes. Call it after `write` has returned."""
        if self._stdin is None:
            return
        if self.terminal:
            self._unwritten += END_OF_FILE
            self._write()
        else:
            self._close_input()

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal a size; its processes are told by SIGWINCH. Nothing happens without a terminal."""
        if self.terminal and self._stdin is not None:
            set_window(self._stdin, rows, columns)

    def wind_up(self) -> None:
        """The process and all it started are gone: what it said can still be read, and then the streams end.

        A terminal nobody reads from, and pipes that were kept from reading, end here.
        """
        if not self._attached:
            self.close()

    def close(self) -> None:
        """End it, whoever still holds the other sides."""
        self._pause()
        for descriptor in {*self._outputs.values()} - {self._stdin}:
            os.close(descriptor)
        self._outputs.clear()
        self._finish()

    def _write(self) -> None:
        if self._stdin is None:
            return
        loop = asyncio.get_running_loop()
        try:
            written = os.write(self._stdin, self._unwritten[:AT_ONCE]) if self._unwritten else 0
        except BlockingIOError:
            written = 0
        except OSError:  # EPIPE, EIO: nobody reads any more
            if self.terminal:
                self._unwritten.clear()
                self._room.set()
                loop.remove_writer(self._stdin)
            else:
                self._close_input()
            return
        del self._unwritten[:written]
        if self._unwritten:
            loop.add_writer(self._stdin, self._write)
        else:
            loop.remove_writer(self._stdin)
            self._room.set()

    def _close_input(self) -> None:
        if self._stdin is not None:
            asyncio.get_running_loop().remove_writer(self._stdin)
            os.close(self._stdin)
        self._stdin = None
        self._unwritten.clear()
        self._room.set()

    def _finish(self) -> None:
        self._close_input()
        self.ended.set()
        for attachment in self._attached:
            attachment.end()
        self._attached.clear()


def set_window(terminal: int, rows: int, columns: int) -> None:
    """Set the size of a terminal, in characters; a size that no terminal can have is cut to one."""
    size = struct.pack("HHHH", min(rows, 0xFFFF), min(columns, 0xFFFF), 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
