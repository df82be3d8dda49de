"""A little HTTP over simulated connections: one request and its answer, or a stream of chunks without end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any


class Broken(OSError):
    """The connection ended before the answer did."""


@dataclass(frozen=True)
class Answer:
    """A status, and the body where it has come whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """Return the document that the body is."""
        return json.loads(self.body)


class _Reader(asyncio.Protocol):
    def __init__(self) -> None:
        self.stream = asyncio.StreamReader(limit=1 << 30)

    def data_received(self, data: bytes) -> None:
        self.stream.feed_data(data)

    def eof_received(self) -> bool:
        self.stream.feed_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.stream.feed_eof()


class Connection:
    """A connection for one request after another."""

    def __init__(self, address: str, reader: asyncio.StreamReader, transport: asyncio.Transport) -> None:
        self._address, self._reader, self._transport = address, reader, transport

    @classmethod
    async def open(cls, address: str) -> Connection:
        """Connect to HOST:PORT. Raises OSError."""
        host, port = address.split(":")
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(_Reader, host, int(port))
        return cls(address, protocol.stream, transport)

    def close(self) -> None:
        """Close it."""
        self._transport.close()

    async def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Return the answer to a request. Raises OSError."""
        head = await self.begin(method, path, body, headers)
        length = head.headers.get("content-length")
        if head.headers.get("transfer-encoding") == "chunked":
            return Answer(head.status, head.headers, b"".join([chunk async for chunk in self.chunks()]))
        return Answer(head.status, head.headers, await self._exactly(int(length or 0)))

    async def begin(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Return the head of the answer to a request. Raises OSError."""
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address}", "Accept: application/json"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._transport.write("\r\n".join([*lines, "", ""]).encode() + data)
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            raise Broken("the connection was closed") from None
        first, *rest = head.strip().split("\r\n")
        found = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in rest)}
        return Answer(int(first.split()[1]), found)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of a body. Raises OSError when it ends in the middle."""
        while size := int(await self._line(), 16):
            yield await self._exactly(size)
            await self._line()
        await self._line()

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise Broken("the connection was closed")
        return line.strip() or b"0"

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise Broken("the connection was closed") from None


async def request(address: str, method: str, path: str, body: Any = None, *, patience_s: float = 30.0) -> Answer:
    """Return the answer to one request over a connection of its own. Raises OSError, asyncio.TimeoutError."""
    connection = await asyncio.wait_for(Connection.open(address), patience_s)
    try:
        return await asyncio.wait_for(connection.ask(method, path, body), patience_s)
    finally:
        connection.close()
