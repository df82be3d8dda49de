"""Request bodies that have not come whole: bounded one by one and all together, and the largest gives way."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from aiohttp import web

from mesos_gpu.errors import BadInput

MAX_ALL = 256 * 1024 * 1024
"""Bytes of unfinished bodies that are held at once, whoever sends them."""
MAX_FIELDS = 1000


class TooMuch(Exception):
    """An unfinished body was given up; the text is for its sender."""


class _Body:
    def __init__(self) -> None:
        self.data = bytearray()
        self.reading: asyncio.Task[bytes] | None = None
        self.given_up = False


class Bodies:
    """Reads bodies for one program.

    What was begun and never ended would be held for ever, once per connection. When all of that together is more than
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
        """Return the body. Raises TooMuch when it was given up, HTTPRequestEntityTooLarge when it is too large."""
        if request.content.is_eof():
            return await request.read()  # it has come whole
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


BODIES = web.AppKey("bodies", Bodies)


async def read_body(request: web.Request) -> bytes:
    """Return a request's body, counted with all those that its program has begun to read."""
    return await request.app[BODIES].read(request)


async def read_form(request: web.Request) -> dict[str, str]:
    """Return the fields of an HTML form; of a name that comes again, the first. Raises BadInput for what is no form."""
    try:
        text = (await read_body(request)).decode()
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise BadInput(f"Failed to parse the form: {error}") from None
    return dict(reversed(fields))
