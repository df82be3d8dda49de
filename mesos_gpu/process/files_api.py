"""The endpoints over virtual paths: /files/browse, read, download and debug, LIST_FILES and READ_FILE.

Source: Mesos src/files/files.cpp and the recorded answers of a 1.12 agent.
"""

from __future__ import annotations

import base64
import mimetypes
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from aiohttp import web

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.files import SandboxFiles, as_text
from mesos_gpu.process.http import json_response

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FilesApi:
    """The endpoints; all raise NotFound (404) and BadInput (400) for who answers the request."""

    def __init__(self, files: SandboxFiles, roots: Callable[[], Mapping[str, str]]) -> None:
        """`roots()` gives what /files/debug shows: real paths by virtual ones."""
        self._files, self._roots = files, roots

    def handlers(self) -> dict[str, Handler]:
        """Return the GET endpoints by path."""
        return {
            "files/browse": self._browse,
            "files/read": self._read,
            "files/download": self._download,
            "files/debug": self._debug,
        }

    def list_files(self, body: Mapping[str, Any]) -> Document:
        """Answer LIST_FILES."""
        infos = [entry.to_v1() for entry in self._files.browse(body["path"])]
        return {"file_infos": infos} if infos else {}

    def read_file(self, body: Mapping[str, Any]) -> Document:
        """Answer READ_FILE: at most 64 KiB, and the file's size; `length` 0 asks for the size alone."""
        _, data, size = self._files.read(body["path"], body["offset"], body.get("length"))
        return {"size": size, "data": base64.b64encode(data).decode("ascii")}

    async def _browse(self, request: web.Request) -> web.Response:
        entries = self._files.browse(_query(request, "path"))
        return json_response([entry.to_json() for entry in entries], request=request)

    async def _read(self, request: web.Request) -> web.Response:
        offset, length = _number(request, "offset"), _number(request, "length")
        start, data, _ = self._files.read(_query(request, "path"), -1 if offset is None else offset, length)
        return json_response({"data": as_text(data), "offset": start}, request=request)

    async def _download(self, request: web.Request) -> web.Response:
        path = _query(request, "path")
        file = os.fdopen(self._files.open(path), "rb")
        name = PurePosixPath(path).name
        printable = "".join(c if c.isprintable() and c not in '";\\' and ord(c) < 127 else "_" for c in name)
        headers = {
            "Content-Type": mimetypes.guess_type(name)[0] or "application/octet-stream",
            "Content-Disposition": f"attachment; filename={printable}",
        }
        return web.Response(body=file, headers=headers)

    async def _debug(self, request: web.Request) -> web.Response:
        return json_response(dict(self._roots()), request=request)


def _query(request: web.Request, name: str) -> str:
    value = request.query.get(name)
    if not value:
        raise BadInput(f"Expecting '{name}=value' in query.\n")
    return value


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"Failed to parse {name}: '{text}' is not a number.\n") from None
