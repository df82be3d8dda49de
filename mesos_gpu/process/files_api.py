"""The endpoints over virtual paths: /files/browse, read, download and debug, LIST_FILES and READ_FILE.

What lies at a path is decided in the event loop; the disk is used on threads, so that a folder of many files, or a file
system that hangs, keeps nobody waiting but who asked for it.

Source: Mesos src/files/files.cpp and the recorded answers of a 1.12 agent.
"""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, TypeVar

from aiohttp import web

from mesos_gpu.errors import BadInput, Forbidden
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.authentication import viewer_of
from mesos_gpu.process.files import Place, SandboxFiles, as_text
from mesos_gpu.process.http import encoded_json_response, json_response, to_json

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
THREADS = 4
"""Requests whose disk work is done at a time."""
MAX_NUMBER = 2**63 - 1
_T = TypeVar("_T")


class FilesApi:
    """The endpoints; all raise NotFound (404), BadInput (400) and Forbidden (403) for who answers the request."""

    def __init__(
        self,
        files: SandboxFiles,
        roots: Callable[[], Mapping[str, str]],
        *,
        acls: Acls = OPEN,
        may_see: Callable[[str, Viewer], bool] = lambda path, viewer: True,
    ) -> None:
        """`roots()` gives what /files/debug shows: real paths by virtual ones.

        `may_see` says whether somebody may look at what lies at a virtual path; it is asked only where there are lists.
        """
        self._files, self._roots = files, roots
        self._acls, self._may_see = acls, may_see
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")

    def handlers(self) -> dict[str, Handler]:
        """Return the GET endpoints by path."""
        return {
            "files/browse": self._browse,
            "files/read": self._read,
            "files/download": self._download,
            "files/debug": self._debug,
        }

    async def list_files(self, body: Mapping[str, Any], viewer: Viewer) -> Document:
        """Answer LIST_FILES."""
        place = self._place(body["path"], viewer)
        infos = await self._apart(lambda: [entry.to_v1() for entry in place.browse()])
        return {"file_infos": infos} if infos else {}

    async def read_file(self, body: Mapping[str, Any], viewer: Viewer) -> Document:
        """Answer READ_FILE: at most 64 KiB, and the file's size; `length` 0 asks for the size alone."""
        place = self._place(body["path"], viewer)
        _, data, size = await self._apart(lambda: place.read(body["offset"], body.get("length")))
        return {"size": size, "data": base64.b64encode(data).decode("ascii")}

    async def _browse(self, request: web.Request) -> web.Response:
        place = self._asked(request)
        body = await self._apart(lambda: to_json([entry.to_json() for entry in place.browse()]))
        return encoded_json_response(body, request=request)

    async def _read(self, request: web.Request) -> web.Response:
        place = self._asked(request)
        offset, length = _number(request, "offset"), _number(request, "length")
        start, data, _ = await self._apart(lambda: place.read(-1 if offset is None else offset, length))
        return json_response({"data": as_text(data), "offset": start}, request=request)

    async def _download(self, request: web.Request) -> web.Response:
        place = self._asked(request)
        file = os.fdopen(await self._apart(place.open), "rb")
        name = PurePosixPath(place.path).name
        printable = "".join(c if c.isprintable() and c not in '";\\' and ord(c) < 127 else "_" for c in name)
        headers = {
            "Content-Type": mimetypes.guess_type(name)[0] or "application/octet-stream",
            "Content-Disposition": f"attachment; filename={printable}",
        }
        return web.Response(body=file, headers=headers)

    async def _apart(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _asked(self, request: web.Request) -> Place:
        return self._place(_query(request, "path"), viewer_of(request, self._acls))

    def _place(self, path: str, viewer: Viewer) -> Place:
        # Spelled as SandboxFiles looks it up: what is judged is what is opened.
        if not viewer.sees_all and not self._may_see(str(PurePosixPath(path)), viewer):
            raise Forbidden
        return self._files.place(path)

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
        number = int(text)
    except ValueError:
        raise BadInput(f"Failed to parse {name}: '{text}' is not a number.\n") from None
    if abs(number) > MAX_NUMBER:
        raise BadInput(f"Failed to parse {name}: '{text}' is more than any file has.\n")
    return number
