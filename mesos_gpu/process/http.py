"""HTTP answers as Mesos gives them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from mesos_gpu.process.bodies import BODIES, Bodies, TooMuch, front_of, parsed, read_body
from mesos_gpu.process.front import Use
from mesos_gpu.process.streams import EventStream, track_streams

__all__ = [
    "EventStream",
    "encoded_json_response",
    "error_response",
    "json_response",
    "make_app",
    "read_json",
    "to_json",
]

MAX_REQUEST = 64 * 1024 * 1024
"""Bytes in the largest request body we read."""
MAX_REASON = 200
"""Characters that the log repeats of what was wrong with a request."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_encoder = msgspec.json.Encoder()
_CALLBACK = re.compile(r"^[A-Za-z_$][\w$.]*$")


def make_app(max_request: int = MAX_REQUEST) -> web.Application:
    """Return an application ready for EventStream and for bodies of up to `max_request` bytes."""
    app = web.Application(client_max_size=max_request, middlewares=[_bounded])
    app[BODIES] = Bodies()
    app.on_response_prepare.append(_headers_as_mesos)
    track_streams(app)
    return app


@web.middleware
async def _bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a body that is too large: at once where its length is said before, else when that much has come."""
    front = front_of(request)
    if front is not None:
        front.begin(Use.ANSWER)
    try:
        # From Python 3.12 on aiohttp runs a handler at once, and then the next one if the first did not have to wait:
        # who sends thousands of requests in one go would keep everybody else waiting.
        await asyncio.sleep(0)
        if (request.content_length or 0) > request.client_max_size:
            raise web.HTTPRequestEntityTooLarge(request.client_max_size, request.content_length or 0)
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        response = error_response(
            413, f"413 Request Entity Too Large. At most {request.client_max_size} bytes are read."
        )
        response.force_close()
        return response
    except ConnectionError:
        return error_response(400, "400 Bad Request. The connection broke.")  # nobody is there to read it
    except TooMuch as given_up:
        response = error_response(503, f"503 Service Unavailable. {given_up}")
        response.force_close()
        return response
    finally:
        if front is not None:
            front.begin(Use.IDLE)


class _ShortRefusals(logging.Filter):
    """Logs a malformed request as one line at INFO: it is not an error of this program, and a port scan sends many."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite aiohttp's record of such a request, which is an error with a traceback."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            why = " ".join(error.message.split())[:MAX_REASON]
            record.msg, record.args = f"{record.getMessage()}: {error.code}, {why!r}", ()
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.exc_info = record.exc_text = None
        return True


SHORT_REFUSALS = _ShortRefusals()


async def _headers_as_mesos(request: web.Request, response: web.StreamResponse) -> None:
    """Leave out what Mesos does not send: `Server`, and the type of a body that is not there, but for errors."""
    response.headers.popall("Server", None)
    if response.headers.get("Content-Length") == "0" and response.status < 400:
        response.headers.popall("Content-Type", None)


def json_response(document: object, *, request: web.Request | None = None, status: int = 200) -> web.Response:
    """Answer with JSON; wrapped for `?jsonp=callback` when the request asks for it, as Mesos' own pages do."""
    return encoded_json_response(to_json(document), request=request, status=status)


def to_json(document: object) -> bytes:
    """Return a document's JSON."""
    return _encoder.encode(document)


def encoded_json_response(body: bytes, *, request: web.Request | None = None, status: int = 200) -> web.Response:
    """Answer, as `json_response`, with JSON that is bytes already: what is long is made of them on another thread."""
    callback = request.query.get("jsonp") if request is not None else None
    if callback is not None:
        if not _CALLBACK.match(callback):
            return error_response(400, "jsonp must be the name of a function")
        return web.Response(
            status=status, body=b"%b(%b);" % (callback.encode(), body), headers={"Content-Type": "text/javascript"}
        )
    return web.Response(status=status, body=body, headers={"Content-Type": "application/json"})


def error_response(status: int, text: str) -> web.Response:
    """Answer with plain text, as Mesos does for every refusal; bytes of a request that are not UTF-8 are escaped."""
    body = text.encode(errors="backslashreplace")
    return web.Response(status=status, body=body, headers={"Content-Type": "text/plain; charset=utf-8"})


async def read_json(request: web.Request) -> Any:
    """Return the request's JSON body. Raises BadInput with the parser's message."""
    return parsed(await read_body(request), object)
