"""What every v1 API does with a request before it is a call: method, types, body. Source: Mesos src/master/http.cpp.

Statuses and words are those of the recorded answers; Content-Type parameters, which Mesos refuses, are tolerated.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence

import msgspec
from aiohttp import web

from mesos_gpu.errors import BadInput, ProtocolError
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.codec.shapes import read_quickly
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.units import parse_duration
from mesos_gpu.process.bodies import check_values, read_body
from mesos_gpu.process.http import error_response

LARGE = 64 * 1024
"""Bytes from which on a call is read on another thread."""
MAX_ECHO = 256
"""Characters of a bad body that an answer repeats."""
JSON, PROTOBUF = "application/json", "application/x-protobuf"


class HttpProblem(Exception):
    """A request that is answered with an error; `response` is the answer."""

    def __init__(self, response: web.Response) -> None:
        super().__init__(response.status)
        self.response = response


def refuse(status: int, text: str) -> HttpProblem:
    """Return the problem of a plain text answer, to be raised."""
    return HttpProblem(error_response(status, text))


def method_not_allowed(request: web.Request, *allowed: str) -> web.Response:
    """Return Mesos' 405."""
    listed = ", ".join(f"'{method}'" for method in allowed)
    text = f"405 Method Not Allowed. Expecting one of {{ {listed} }}, but received '{request.method}'."
    response = error_response(405, text)
    response.headers["Allow"] = ", ".join(allowed)
    return response


def is_over_unix_socket(request: web.Request) -> bool:
    """Return whether a request comes over a socket file; a TCP connection that was reset has no address either."""
    connection = request.get_extra_info("socket")
    return connection is not None and connection.family == socket.AF_UNIX


def header(request: web.Request, name: str) -> str | None:
    """Return a header of the request; of one that came again the last, as libprocess keeps them (src/decoder.hpp)."""
    given = request.headers.getall(name, [])
    return given[-1] if given else None


async def read_call(request: web.Request, type_name: str) -> Document:
    """Return the call in a request's body, in our form. Raises HttpProblem with Mesos' status and words."""
    given = header(request, "Content-Type")
    if given is None:
        raise refuse(400, "Expecting 'Content-Type' to be present")
    kind = given.split(";")[0].strip().lower()
    body = await read_body(request)
    if kind not in (JSON, PROTOBUF):
        raise refuse(415, f"Expecting 'Content-Type' of {JSON} or {PROTOBUF}")
    if len(body) < LARGE:
        return _call(type_name, kind, body)
    return await asyncio.to_thread(_call, type_name, kind, body)


def _call(type_name: str, kind: str, body: bytes) -> Document:
    if kind == PROTOBUF:
        try:
            return messages.decode(type_name, body)
        except ProtocolError:
            raise refuse(400, "Failed to parse body into Call protobuf") from None
    check_values(body)
    call = read_quickly(type_name, body)
    if call is not None:
        return call
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise refuse(400, f"Failed to parse body into JSON: {json_problem(body)}") from None
    if not isinstance(document, dict):
        raise refuse(400, "Failed to convert JSON into Call protobuf: Expecting a JSON object")
    try:
        return messages.read(type_name, document)
    except ProtocolError as error:
        problem = str(error).removeprefix(f"{type_name}: ")
        raise refuse(400, f"Failed to convert JSON into Call protobuf: {problem}") from None


def check_timeout(request: web.Request) -> None:
    """Refuse a `timeout` that is not a duration, as Mesos does; nothing here takes so long. Raises BadInput."""
    timeout = request.query.get("timeout")
    try:
        if timeout is not None:
            parse_duration(timeout)
    except ValueError as error:
        raise BadInput(f"Invalid timeout '{timeout}': {error}.\n") from None


def accepted_type(request: web.Request) -> str | None:
    """Return the type to answer with, JSON where both will do; None when neither is accepted."""
    return accepts(header(request, "Accept"), (JSON, PROTOBUF))


def accepts(header: str | None, kinds: Sequence[str]) -> str | None:
    """Return the first of `kinds` that an Accept header allows, all without one; None when it allows none."""
    if header is None:
        return kinds[0]
    ranges = [_media_range(part) for part in header.split(",") if part.strip()]
    for kind in kinds:
        if any(name in (kind, "*/*", "application/*") and quality > 0 for name, quality in ranges):
            return kind
    return None


def json_problem(body: bytes) -> str:
    """Return where JSON breaks off, in Mesos' parser's words: the line, and what stands there."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos : error.pos + MAX_ECHO].split("\n", 1)[0]
        return f"syntax error at line {error.lineno} near: {rest if len(rest) > 1 or rest.strip('{[') else ''}"
    except (ValueError, RecursionError):  # no UTF-8, or a number of thousands of digits
        pass
    return "syntax error at line 1 near: "


def _media_range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, float(parameter[2:])
            except ValueError:
                return name, 0.0
    return name, 1.0
