"""Status codes, error bodies and headers as Marathon gives them.

Source: Marathon api/MarathonExceptionMapper.scala, api/RestResource.scala.
"""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from mesos_gpu.errors import (
    BadInput,
    Conflict,
    InvalidApp,
    Locked,
    MesosGpuError,
    NotFound,
    Problem,
    TooMany,
    Unavailable,
)
from mesos_gpu.marathon.api.gate import HttpSettings
from mesos_gpu.marathon.state.actions import Answer
from mesos_gpu.process import bodies
from mesos_gpu.process.http import json_response

log = logging.getLogger(__name__)

JSON = "application/json"
PAGE_API = "/ui/api/"
"""Below it lies what the page asks for."""
SESSION_KEY = "X-Session-Key"
"""The half of a browser's session that the page keeps (browsers.py); the other is a cookie."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# The nearest ancestor in the table decides; anything else is 500 and a traceback in the log.
STATUS_OF: dict[type[BaseException], int] = {
    InvalidApp: 422,
    BadInput: 400,
    NotFound: 404,
    TooMany: 403,
    Conflict: 409,
    Unavailable: 503,
}
_FIXED_HEADERS = {
    "X-Frame-Options": "DENY",
    "X-XSS-Protection": "1; mode=block",
    "Cache-Control": "no-cache, no-store, must-revalidate",
    "Pragma": "no-cache",
    "Expires": "0",
}
_HTTP_MESSAGES = {
    404: "URI not found",
    405: "HTTP 405 Method Not Allowed",
    413: "the request is too large",
    415: "HTTP 415 Unsupported Media Type",
}


class BadJson(BadInput):
    """The body is not what JSON, or this call, allows; `details` is the parser's text."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


def authentication_and_errors(
    leader_url: Callable[[], str], http: HttpSettings, knows: Callable[[web.Request], bool] = lambda request: False
) -> Middleware:
    """Return the middleware around every handler: who may call, errors as Marathon's JSON, common headers.

    `knows` tells of a request that it needs no password.
    """
    # A realm is told between quotation marks.
    realm = http.realm.replace("\\", "\\\\").replace('"', '\\"')
    refused = " ".join(filter(None, ("Invalid username or password.", http.login_hint)))

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        free = http.credentials is None or is_page(request.path) or knows(request)
        if not free and http.credentials is not None and not _knows(request, http.credentials):
            answer: web.StreamResponse = json_response({"message": refused}, status=401)
            # The page asks for a password by itself; a browser that may send cookies would open a window of its own.
            scheme = "Session" if SESSION_KEY in request.headers else "Basic"
            answer.headers["WWW-Authenticate"] = f'{scheme} realm="{realm}"'
        else:
            answer = await _answered(request, handler, http.unknown_uri_status)
        if not answer.prepared:
            for name, value in _FIXED_HEADERS.items():
                answer.headers.setdefault(name, value)
            answer.headers["X-Marathon-Leader"] = leader_url()
        return answer

    return middleware


def is_page(path: str) -> bool:
    """Return whether a path is of the page itself, which is the same for all, and asks its reader to log in."""
    return path in ("/", "/ui") or (path.startswith("/ui/") and not path.startswith(PAGE_API))


async def _answered(request: web.Request, handler: Handler, unknown_uri_status: int) -> web.StreamResponse:
    try:
        return await handler(request)
    except MesosGpuError as error:
        return error_answer(error)
    except web.HTTPException as error:
        message = _HTTP_MESSAGES.get(error.status, error.reason)
        status = unknown_uri_status if error.status == 404 else error.status
        answer = json_response({"message": message}, status=status)
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer
    except Exception as error:
        if isinstance(error, ConnectionError) and request.transport is None:
            raise  # who asked has gone, perhaps in the midst of a body: nobody is to be told, nor is the log
        log.exception("%s %s failed", request.method, request.path)
        return json_response({"message": "Internal error; see this Marathon's log."}, status=500)


def refusal(status: int, message: str) -> web.Response:
    """Return an answer that says no more than why, as every error of Marathon's."""
    return json_response({"message": message}, status=status)


def error_answer(error: MesosGpuError) -> web.Response:
    """Return the answer that says what went wrong."""
    status = next((STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF), 500)
    body: dict[str, Any] = {"message": str(error)}
    if isinstance(error, InvalidApp):
        body = {"message": error.stage, "details": _by_path(error.problems)}
    elif isinstance(error, NotFound):
        body |= error.named
    elif isinstance(error, Locked):
        body["deployments"] = [{"id": deployment_id} for deployment_id in error.deployments]
    elif isinstance(error, BadJson):
        body["details"] = error.details
    return json_response(body, status=status)


def changed(answer: Answer | None, *, status: int = 200) -> web.Response:
    """Return the answer to a change that became a deployment."""
    if answer is None:
        raise RuntimeError("a change is always answered")
    response = json_response({"version": answer.version, "deploymentId": answer.deployment_id}, status=status)
    response.headers["Marathon-Deployment-Id"] = answer.deployment_id
    return response


async def read_body(request: web.Request) -> Any:
    """Return the JSON of the body. Raises BadJson, and HTTPUnsupportedMediaType where it says that it is not JSON.

    Without a Content-Type anything may be in it, for JAX-RS as for us: a web page's is refused by its Origin.
    """
    if "Content-Type" in request.headers and request.content_type != JSON:
        raise web.HTTPUnsupportedMediaType
    data = await bodies.read_body(request)
    bodies.check_values(data)
    if not data.strip():
        raise BadJson("Please specify data in JSON format", "the request has no body")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadJson("Invalid JSON", str(error)) from None


async def read_object(request: web.Request) -> dict[str, Any]:
    """Return the JSON object of the body. Raises BadJson."""
    document = await read_body(request)
    if not isinstance(document, dict):
        raise BadJson("Please specify data in JSON format", "the body is not a JSON object")
    return document


async def read_list(request: web.Request) -> list[dict[str, Any]]:
    """Return the JSON list of objects of the body. Raises BadJson."""
    documents = await read_body(request)
    if not isinstance(documents, list) or not all(isinstance(document, dict) for document in documents):
        raise BadJson("Please specify data in JSON format", "the body is not a JSON list of objects")
    return documents


def accepted_types(request: web.Request, without: str = "") -> str:
    """Return what the client reads: all its Accept headers as one, as JAX-RS takes them, or `without` any."""
    return ", ".join(request.headers.getall("Accept", [])) or without


def flag(request: web.Request, name: str, *, default: bool = False) -> bool:
    """Return a boolean of the query; given without a value it is true."""
    value = request.query.get(name)
    return default if value is None else value.lower() in ("", "true", "1")


def _by_path(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    grouped: dict[str, list[str]] = {}
    for problem in problems:
        grouped.setdefault(problem.path, []).append(problem.code)
    return [{"path": path, "errors": errors} for path, errors in grouped.items()]


def _knows(request: web.Request, credentials: str) -> bool:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        given = base64.b64decode(token, validate=True)
    except ValueError:  # not base64 (binascii.Error), or not ASCII
        return False
    return kind.lower() == "basic" and hmac.compare_digest(given, credentials.encode())
