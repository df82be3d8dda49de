"""The line to a box's supervisor: a socket on which its owner, or root, asks it to change the box."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from mesos_gpu import errors
from mesos_gpu.base.linux.peers import credentials_of
from mesos_gpu.base.linux.sockets import EVERY_USER, ONLY_OWNER, LineConnection, connect, listen
from mesos_gpu.errors import MesosGpuError, NotFound, Unavailable
from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.local.record import Records, is_alive

log = logging.getLogger(__name__)

FILE = "control.sock"
MAX_LINE = 1 << 16
MAX_CALLERS, LINE_S = 64, 10.0
"""Other users who have not yet said what they want: where a box is a group's, anybody may call, and say nothing."""
PATIENCE_S = 300.0
"""How long an answer is waited for: agents that start, or end their tasks first."""
_KINDS = ("BadInput", "NotFound", "Conflict", "Unavailable")
ENTER = {"ask": "enter"}
"""What a member asks: to be let in."""
Enter: TypeAlias = Callable[[int], Awaitable[Mapping[str, Any]]]
Answer: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


def socket_path(work_dir: Path) -> Path:
    """Return where the supervisor of a box listens; short, as paths of sockets must be."""
    return runtime_dir(work_dir) / FILE


def ask(work_dir: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the supervisor of the box in `work_dir`, and return its answer.

    Raises what it raised, NotFound when no box runs there, and Unavailable when it is not ours or does not answer.
    """
    path = socket_path(work_dir)
    try:
        with LineConnection(connect(path, timeout_s=PATIENCE_S)) as line:
            text = line.ask(json.dumps(request).encode())
    except PermissionError:
        raise Unavailable(f"the box in {work_dir} is another user's; only its owner and root change it") from None
    except (FileNotFoundError, ConnectionRefusedError):
        box = Records(work_dir).read()
        if box is None or not is_alive(box.pid, box.started):
            raise NotFound(f"no box runs in {work_dir}; `mesos-gpu up` starts one") from None
        raise Unavailable(
            f"the box in {work_dir} is of an older version and cannot be asked; "
            "`mesos-gpu down --keep_tasks` and `mesos-gpu up` start it again"
        ) from None
    except ConnectionResetError:
        raise Unavailable(f"the box in {work_dir} ended before it answered; its log: {work_dir}/log") from None
    except OSError as error:
        raise Unavailable(f"the box in {work_dir} does not answer at {path}: {error}") from None
    answer = json.loads(text)
    if "error" in answer:
        kind = answer.get("kind")
        raise getattr(errors, kind if kind in _KINDS else "Unavailable")(str(answer["error"]))
    return dict(answer)


class Control:
    """Listens for the box's owner; one request is answered after the other."""

    def __init__(self, work_dir: Path, answer: Answer, enter: Enter | None = None) -> None:
        """`enter` answers, with the number of the user that the kernel says it is, who is not the owner."""
        self._path, self._answer, self._enter = socket_path(work_dir), answer, enter
        self._server: asyncio.Server | None = None
        self._turn = asyncio.Lock()
        self._callers = 0

    async def open(self) -> None:
        """Begin to listen. Raises Unavailable."""
        try:
            listener = listen(self._path, mode=ONLY_OWNER if self._enter is None else EVERY_USER)
            self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_LINE)
        except OSError as error:
            raise Unavailable(f"cannot listen at {self._path}: {error.strerror}") from None

    async def close(self) -> None:
        """Listen no more; what is being answered is given up."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            try:
                writer.write(json.dumps(await self._answered(reader, writer)).encode() + b"\n")
                await writer.drain()
            finally:
                writer.close()

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        """Return what another user asks; empty if it is not said in time, or he is one too many. Raises ValueError."""
        if self._callers >= MAX_CALLERS:
            return b""
        self._callers += 1
        try:
            return await asyncio.wait_for(reader.readline(), LINE_S)
        except asyncio.TimeoutError:
            return b""
        finally:
            self._callers -= 1

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        try:
            user = credentials_of(writer.get_extra_info("socket")).uid
            ours = user in (0, os.geteuid())
            request = json.loads(await (reader.readline() if ours else self._line(reader)))
            if not isinstance(request, dict):
                raise ValueError("no object")
        except ValueError as error:
            return {"error": f"a request is one line of JSON: {error}", "kind": "BadInput"}
        if not ours and (self._enter is None or request != ENTER):
            return {"error": "this box is another user's; only its owner and root change it", "kind": "Unavailable"}
        async with self._turn:
            try:
                return await self._answer(request) if ours or self._enter is None else await self._enter(user)
            except MesosGpuError as error:
                kind = next((kind for kind in _KINDS if isinstance(error, getattr(errors, kind))), "Unavailable")
                return {"error": str(error), "kind": kind}
            except Exception:
                log.exception("a request failed: %s", request.get("ask"))
                return {"error": "the box's supervisor failed at this; its log says more", "kind": "Unavailable"}
