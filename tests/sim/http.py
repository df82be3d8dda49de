"""A little HTTP over simulated connections: one request and its answer, or a stream of chunks without end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import msgspec


class Broken(OSError):
    """The connection ended before the answer did."""


@dataclass(frozen=True)
class Answer:
    """A status, and the body where it has come whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """Return the document that the body is. Raises ValueError."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise ValueError(str(error)) from None


class Connection(asyncio.Protocol):
    """A connection for one request after another.

    Whoever waits here is woken when something has come or time is up, without a task of its own for that: most of
    what is sent in a history comes here.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._came, self._ended = bytearray(), False
        self._waiter: asyncio.Future[None] | None = None
        self._transport: Any = None

    @classmethod
    async def open(cls, address: str) -> Connection:
        """Connect to HOST:PORT. Raises OSError."""
        host, port = address.split(":")
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: cls(address), host, int(port))
        return connection

    def close(self) -> None:
        """Close it."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._came += data
        self._wake()

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        self.connection_lost(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._ended = True
        self._wake()

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        patience_s: float = inf,
    ) -> Answer:
        """Return the answer to a request. Raises OSError, asyncio.TimeoutError when it has not come by then."""
        until_s = asyncio.get_running_loop().time() + patience_s
        head = await self.begin(method, path, body, headers, patience_s=patience_s)
        if head.headers.get("transfer-encoding") == "chunked":
            chunks = []
            while (chunk := await self._chunk(until_s)) is not None:
                chunks.append(chunk)
            return Answer(head.status, head.headers, b"".join(chunks))
        length = int(head.headers.get("content-length") or 0)
        while len(self._came) < length:
            await self._more(until_s)
        return Answer(head.status, head.headers, self._take(length))

    async def begin(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        patience_s: float = inf,
    ) -> Answer:
        """Return the head of the answer to a request. Raises OSError, asyncio.TimeoutError."""
        until_s = asyncio.get_running_loop().time() + patience_s
        data = b"" if body is None else msgspec.json.encode(body)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address}", "Accept: application/json"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._transport.write("\r\n".join([*lines, "", ""]).encode() + data)
        while (end := self._came.find(b"\r\n\r\n")) < 0:
            await self._more(until_s)
        first, *rest = self._take(end + 4).decode().strip().split("\r\n")
        found = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in rest)}
        return Answer(int(first.split()[1]), found)

    async def chunk(self, *, patience_s: float = inf) -> bytes | None:
        """Return the next chunk of a body, None after the last. Raises OSError, asyncio.TimeoutError."""
        return await self._chunk(asyncio.get_running_loop().time() + patience_s)

    async def _chunk(self, until_s: float) -> bytes | None:
        while (end := self._came.find(b"\r\n")) < 0:
            await self._more(until_s)
        size = int(self._came[:end], 16)
        while len(self._came) < end + size + 4:
            await self._more(until_s)
        found = self._take(end + size + 4)[end + 2 : -2]
        return found if size else None

    def _take(self, count: int) -> bytes:
        taken = bytes(self._came[:count])
        del self._came[:count]
        return taken

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self, until_s: float) -> None:
        """Wait for something to come."""
        if self._ended:
            raise Broken("the connection was closed")
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        late = None if until_s == inf else loop.call_at(until_s, _late, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if late is not None:
                late.cancel()


def _late(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(asyncio.TimeoutError())


async def request(address: str, method: str, path: str, body: Any = None, *, patience_s: float = 30.0) -> Answer:
    """Return the answer to one request over a connection of its own. Raises OSError, asyncio.TimeoutError."""
    connection = await asyncio.wait_for(Connection.open(address), patience_s)
    try:
        return await connection.ask(method, path, body, patience_s=patience_s)
    finally:
        connection.close()
