"""Request bodies that have not come whole: bounded one by one and all together, and the largest gives way."""

from __future__ import annotations

import asyncio
import zlib
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from mesos_gpu.errors import BadInput
from mesos_gpu.process.front import Front, Use

MAX_ALL = 256 * 1024 * 1024
"""Bytes of unfinished bodies that are held at once, whoever sends them."""
MAX_FIELDS = 1000
MAX_VALUES = 500_000
"""Values in JSON, counted by what stands between them: each costs its reader much more than its bytes."""


T = TypeVar("T")


class TooMuch(Exception):
    """An unfinished body was given up; the text is for its sender."""


class _Body:
    def __init__(self) -> None:
        self.data = bytearray()
        self.reading: asyncio.Task[bytes] | None = None
        self.given_up = False


class Bodies:
    """Reads bodies for one program.

    What was begun and never ended would be held forever, once per connection. When all of that together is more than
    `most` bytes, the largest is given up, so that whoever sends little is served however much others began.
    """

    def __init__(self, most: int = MAX_ALL) -> None:
        self._most = most
        self._held: set[_Body] = set()

    @property
    def held(self) -> int:
        """Return how many bytes of unfinished bodies there are now."""
        return sum(len(body.data) for body in self._held)

    async def read(self, request: web.Request) -> bytes:
        """Return the body, decompressed.

        Raises TooMuch when it was given up, HTTPRequestEntityTooLarge when it is too large, here or decompressed, and
        BadInput when it is not what its Content-Encoding says.
        """
        return await _decompressed(request, await self._come(request))

    async def _come(self, request: web.Request) -> bytes:
        if request.content.is_eof():
            return await request.read()  # it has come whole
        front = front_of(request)
        if front is not None:
            front.begin(Use.BODY)
        body = _Body()
        self._held.add(body)
        body.reading = asyncio.ensure_future(self._collect(request, body))
        try:
            return await body.reading
        except asyncio.CancelledError:
            if not body.given_up:
                raise
            raise TooMuch(
                f"More than {self._most} bytes of unfinished requests are held, and this one was the largest."
            ) from None
        finally:
            if front is not None:
                front.begin(Use.ANSWER)
            self._held.discard(body)
            body.data = bytearray()  # tracebacks of a broken connection may keep the rest of us for a while

    async def _collect(self, request: web.Request, body: _Body) -> bytes:
        limit = request.client_max_size
        while True:
            chunk = await request.content.readany()
            body.data += chunk
            if limit and len(body.data) > limit:
                raise web.HTTPRequestEntityTooLarge(limit, len(body.data))
            if not chunk:
                return bytes(body.data)
            self._make_room()

    def _make_room(self) -> None:
        while self.held > self._most:
            largest = max(self._held, key=lambda one: len(one.data))
            largest.given_up = True
            largest.data = bytearray()
            self._held.discard(largest)
            if largest.reading is not None:
                largest.reading.cancel()


async def _decompressed(request: web.Request, body: bytes) -> bytes:
    """Return a body without its Content-Encoding, on another thread: four megabytes may come to four thousand."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in _WINDOW_BITS:
        raise web.HTTPUnsupportedMediaType(
            text=f"415 Unsupported Media Type. Content-Encoding {encoding[:64]!a} is not gzip, deflate or identity."
        )
    limit = request.client_max_size
    try:
        data = await asyncio.to_thread(inflated, body, _WINDOW_BITS[encoding], limit)
    except zlib.error as error:
        raise BadInput(f"Failed to decompress the body as its Content-Encoding '{encoding}' says: {error}") from None
    if data is None:
        raise web.HTTPRequestEntityTooLarge(limit, limit + 1)
    return data


_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""What zlib calls the encodings of RFC 9110, 8.4.1."""


def inflated(body: bytes, window_bits: int, limit: int) -> bytes | None:
    """Return decompressed bytes, of all gzip members; None when there are more than `limit`. Raises zlib.error."""
    parts: list[bytes] = []
    left = limit
    while body:
        member = zlib.decompressobj(window_bits)
        parts.append(member.decompress(body, left + 1))
        left -= len(parts[-1])
        if left < 0:
            return None
        if not member.eof:
            raise zlib.error("it is not whole")
        body = member.unused_data
    return b"".join(parts)


def front_of(request: web.Request) -> Front | None:
    """Return the connection that a request came by, None where no Front listens."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    return protocol if isinstance(protocol, Front) else None


BODIES = web.AppKey("bodies", Bodies)


async def read_body(request: web.Request) -> bytes:
    """Return a request's body, counted with all those that its program has begun to read."""
    return await request.app[BODIES].read(request)


def check_values(body: bytes) -> None:
    """Refuse JSON of more than MAX_VALUES values, by its commas and colons, those of texts too. Raises BadInput."""
    if body.count(b",") + body.count(b":") > MAX_VALUES:
        raise BadInput(f"The body has more than {MAX_VALUES} values; send them in several requests.")


def parsed(body: bytes, kind: type[T]) -> T:
    """Return a body's JSON as a value of a type, `object` for any. Raises BadInput with the parser's message.

    msgspec raises two more kinds of errors than its own: for text that is not UTF-8, and for what is nested more deeply
    than the interpreter may recurse.
    """
    check_values(body)
    try:
        body.decode()  # msgspec does not validate fields that the type does not have
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"Failed to parse body into JSON: {error}") from None


async def read_form(request: web.Request) -> dict[str, str]:
    """Return the fields of an HTML form; of a repeated name, the first. Raises BadInput for what is not a form."""
    try:
        text = (await read_body(request)).decode()
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise BadInput(f"Failed to parse the form: {error}") from None
    return dict(reversed(fields))
