"""Calls of the agent's v1 API about containers: launching, waiting, ending, and being attached to them.

Statuses and words are Mesos' (src/slave/http.cpp), as recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from mesos_gpu.agent.disk.sandbox import make_nested_sandbox, remove_sandbox
from mesos_gpu.agent.fetch.fetcher import Fetcher
from mesos_gpu.agent.fetch.nested_fetch import NestedFetches
from mesos_gpu.agent.launching import nested
from mesos_gpu.agent.launching.nested import container_name
from mesos_gpu.agent.launching.process_io import Resized, Typed, heartbeat_record, input_of, output_record, read_input
from mesos_gpu.agent.model.events import Identity
from mesos_gpu.agent.model.fetch_uris import read_uris
from mesos_gpu.agent.running.containers import Containers
from mesos_gpu.agent.running.nested_sandboxes import NestedSandboxes
from mesos_gpu.container.attached.switchboard import Attachment, Switchboard
from mesos_gpu.container.spec.config import ContainerConfig, check_id
from mesos_gpu.container.spec.nesting import parent_of, top_level
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.errors import BadInput, Conflict, Forbidden, MesosGpuError, NotFound, ProtocolError
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.process.requests import HttpProblem, refuse
from mesos_gpu.process.streams import lost

RECORDIO = "application/recordio"
HEARTBEAT_S = 30.0
LAST_WORDS_S = 2.0
"""How long a session may go on when it has closed its output."""
NO_SWITCHBOARD = "I/O switchboard server was disabled for this container"

log = logging.getLogger(__name__)


class ContainerApi:
    """Carries out the calls. `identity` is asked again each time: it is not known before the agent has registered."""

    def __init__(
        self,
        containers: Containers,
        identity: Callable[[], Identity],
        fetcher: Fetcher | None = None,
        heartbeat_s: float = HEARTBEAT_S,
        sandboxes: NestedSandboxes | None = None,
        grace_of: Callable[[ContainerId], float | None] = lambda outermost: None,
    ) -> None:
        """`grace_of` returns how long after SIGTERM the executor in a container waits before SIGKILL, if known."""
        self._grace_of = grace_of
        self._containers, self._identity, self._heartbeat_s = containers, identity, heartbeat_s
        self._sandboxes = sandboxes
        self._fetches = NestedFetches(fetcher, lambda: identity().work_dir, containers.files)

    async def launch(self, call: Mapping[str, Any]) -> web.Response:
        """LAUNCH_CONTAINER, LAUNCH_NESTED_CONTAINER: 200, or 202 when it is there already, or 400 with the reason."""
        name = container_name(call["container_id"])
        if name in self._containers.containers() or name in self._fetches:
            return web.Response(status=202)
        try:
            parent_id = parent_of(name)
            parent = None if parent_id is None else self._parent(parent_id)
            config = nested.container_config(
                self._identity(),
                call,
                parent_sandbox=None if parent is None else parent.sandbox,
                parent_user=None if parent is None else parent.user,
                parent_volumes=() if parent is None else parent.volumes,
            )
            uris = read_uris(call.get("command") or {})
            path = self._path_of(str(config.sandbox))
            if self._sandboxes is not None:
                self._sandboxes.spare(path)
            root = self._root(name, config.sandbox)
            made = _make_sandbox(config, parent, root)
            try:
                if uris:
                    await self._fetches.fetch(config, uris, root)
                await self._containers.launch(config)
            except BaseException:
                if made:
                    await asyncio.to_thread(remove_sandbox, Path(self._identity().work_dir), config.sandbox)
                raise
        except Conflict as error:
            if name in self._containers.containers():
                return web.Response(status=202)
            raise refuse(400, str(error)) from None
        except MesosGpuError as error:
            raise refuse(400, str(error)) from None
        if self._sandboxes is not None:
            self._sandboxes.follow(name, path)
        return web.Response()

    def _root(self, name: ContainerId, sandbox: Path) -> Path:
        """Return the folder around a sandbox that is not a task's to replace; raises NotFound without its parent."""
        if parent_of(name) is not None:
            return Path(self._parent(top_level(name)).sandbox)
        sandbox.parent.mkdir(parents=True, exist_ok=True)
        return sandbox.parent

    def _path_of(self, sandbox: str) -> str:
        """Return the path of a sandbox in the work_dir."""
        return sandbox.removeprefix(f"{self._identity().work_dir}/")

    async def wait(self, kind: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """WAIT_CONTAINER: the answer's document, when the container has ended. Raises HttpProblem."""
        name = container_name(call["container_id"])
        try:
            end = await self._containers.wait(name)
        except NotFound:
            raise _unknown(name) from None
        return {"type": kind, kind.lower(): nested.wait_shown(end)}

    async def kill(self, call: Mapping[str, Any]) -> web.Response:
        """KILL_CONTAINER: 404 for one that is unknown or has ended."""
        name = container_name(call["container_id"])
        if self._fetches.cancel(name):
            return web.Response()
        try:
            await self._containers.send_signal(name, nested.signal_of(call), self._grace_of(top_level(name)))
        except NotFound:
            raise refuse(404, f"Container {name} cannot be found (or is already killed)") from None
        except BadInput as error:
            raise refuse(400, str(error)) from None
        return web.Response()

    async def remove(self, call: Mapping[str, Any]) -> web.Response:
        """REMOVE_CONTAINER: forget one that has ended, with its sandbox; 500 while it runs. It may be gone already.

        400 for an id that no container can have.
        """
        name = container_name(call["container_id"])
        try:
            check_id(name)
        except BadInput as error:
            raise refuse(400, str(error)) from None
        if name in self._containers.containers():
            raise refuse(500, "Nested container has not terminated yet")
        await self._containers.destroy(name)
        parent_id = parent_of(name)
        try:
            parent = None if parent_id is None else self._parent(parent_id).sandbox
        except NotFound:
            return web.Response()  # the sandbox goes with its parent's
        work_dir = self._identity().work_dir
        sandbox = nested.sandbox_of(work_dir, name, parent)
        if self._sandboxes is not None:
            self._sandboxes.spare(self._path_of(sandbox))
        await asyncio.to_thread(remove_sandbox, Path(work_dir), Path(sandbox))
        return web.Response()

    async def session(
        self, request: web.Request, call: Mapping[str, Any], content_type: str, message_type: str
    ) -> web.StreamResponse:
        """LAUNCH_NESTED_CONTAINER_SESSION: streams what the command says; either ends with the other."""
        try:
            config = nested.session_config(call)
            attachment = await self._containers.enter(config)
        except MesosGpuError as error:
            raise refuse(400, str(error)) from None
        try:
            response = await self._stream(request, attachment, content_type, message_type)
            if not lost(request).done():
                # A process that says no more is about to end, as a rule; its own exit status is worth a moment.
                await asyncio.wait([asyncio.ensure_future(self._ended(config.container_id))], timeout=LAST_WORDS_S)
            return response
        finally:
            try:
                await asyncio.shield(self._containers.kill(config.container_id, 0))
            except NotFound:
                pass  # it has ended, and somebody was quicker to remove it

    async def _ended(self, name: ContainerId) -> None:
        try:
            await self._containers.wait(name)
        except NotFound:
            pass

    async def attach_output(
        self, request: web.Request, call: Mapping[str, Any], content_type: str, message_type: str
    ) -> web.StreamResponse:
        """ATTACH_CONTAINER_OUTPUT: streams what the container says from now on."""
        board = self._board(container_name(call["container_id"]))
        return await self._stream(request, board.attach(), content_type, message_type)

    async def attach_input(
        self, request: web.Request, message_type: str, may: Callable[[Mapping[str, Any]], bool]
    ) -> web.StreamResponse:
        """ATTACH_CONTAINER_INPUT: feeds the container with a request that is a stream of records.

        `may` is told which container the first record names, and says whether its sender may feed it.

        Answers 200 when the request or the container ends. The first record names the container; only one request
        at a time may feed one.
        """
        decoder, board, gone = RecordDecoder(), None, lost(request)
        try:
            while True:
                chunk = await self._next_chunk(request, board, gone)
                if not chunk:
                    break
                for record in decoder.feed(chunk):
                    attach = read_input(record, message_type)
                    if board is None:
                        board = self._feed(attach, request, may)
                        continue
                    await _apply(board, input_of(attach))
            if decoder.pending:
                raise refuse(400, "Received a partial record at the end of the request")
            if board is None:
                raise refuse(400, "Failed to read the first record: the request is empty")
        except (BadInput, ProtocolError) as error:
            raise refuse(400, str(error)) from None
        finally:
            if board is not None and board.feeder is request:
                board.feeder = None
        response = web.Response()
        response.force_close()  # the rest of the request, if any, is not for the next call
        return response

    def _parent(self, parent_id: ContainerId) -> Record:
        try:
            return self._containers.record(parent_id)
        except NotFound:
            raise NotFound(f"Parent container {parent_id} does not exist") from None

    def _board(self, name: ContainerId) -> Switchboard:
        try:
            board = self._containers.switchboard(name)
        except NotFound:
            if top_level(name) in self._containers.containers():
                # Mesos asks only whether it knows the executor; its switchboard has forgotten what has ended.
                raise refuse(500, NO_SWITCHBOARD) from None
            raise _unknown(name) from None
        if board is None:
            raise refuse(500, NO_SWITCHBOARD)
        return board

    def _feed(
        self, attach: Mapping[str, Any], request: web.Request, may: Callable[[Mapping[str, Any]], bool]
    ) -> Switchboard:
        if attach["type"] != "CONTAINER_ID":
            raise refuse(400, "Expecting 'attach_container_input.type' to be 'CONTAINER_ID' in the first record")
        if not may(attach):
            raise Forbidden
        board = self._board(container_name(attach["container_id"]))
        if board.feeder is not None:
            raise refuse(409, "Multiple input connections are not allowed")
        board.feeder = request
        return board

    async def _next_chunk(self, request: web.Request, board: Switchboard | None, gone: asyncio.Future[None]) -> bytes:
        """Return more of the request; nothing at its end, when its sender is gone, and when the container has ended."""
        reading = asyncio.ensure_future(request.content.readany())
        waiting: set[asyncio.Future[Any]] = {reading, gone}
        ended = None if board is None else asyncio.ensure_future(board.ended.wait())
        if ended is not None:
            waiting.add(ended)
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else b""
        except ConnectionError:
            return b""
        except web.RequestPayloadError as error:
            raise BadInput(f"Failed to read the request: {error}") from None
        finally:
            for one in (reading, ended):
                if one is not None:
                    one.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _stream(
        self, request: web.Request, attachment: Attachment, content_type: str, message_type: str
    ) -> web.StreamResponse:
        headers = {"Content-Type": content_type}
        if content_type == RECORDIO:
            headers["Message-Content-Type"] = message_type
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        gone = lost(request)

        def leave(_: object) -> None:
            attachment.close()

        gone.add_done_callback(leave)
        beating: asyncio.Task[None] | None = None
        try:
            await response.prepare(request)
            beating = asyncio.create_task(self._beat(response, message_type))
            async for stream, data in attachment:
                await response.write(output_record(stream, data, message_type))
            if not gone.done():
                await response.write_eof()
        except ConnectionError:
            pass  # the client left while we wrote; that is an end like any other
        finally:
            gone.remove_done_callback(leave)
            if beating is not None:
                beating.cancel()
            attachment.close()
        return response

    async def _beat(self, response: web.StreamResponse, message_type: str) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            await response.write(heartbeat_record(self._heartbeat_s, message_type))


async def _apply(board: Switchboard, asked: Typed | Resized | None) -> None:
    if isinstance(asked, Resized):
        board.resize(asked.rows, asked.columns)
    elif isinstance(asked, Typed) and asked.data:
        await board.write(asked.data)
    elif isinstance(asked, Typed):
        board.end_input()


def _unknown(name: ContainerId) -> HttpProblem:
    return refuse(404, f"Container {name} cannot be found")


def _make_sandbox(config: ContainerConfig, parent: Record | None, root: Path) -> bool:
    """Make the sandbox, and what the container sees of its parent's; return whether the sandbox is new.

    Below `root` tasks may write: it is the outermost parent's sandbox, or where standalone containers have theirs.
    Raises BadInput, ContainerError.
    """
    if parent is None:
        return make_nested_sandbox(config.sandbox, root, (), config.user)
    shown = nested.seen_of_parent(config, parent.sandbox, parent.volumes)
    homes = [(Path(source), root if Path(home).is_relative_to(root) else Path(home)) for source, home in shown]
    return make_nested_sandbox(config.sandbox, root, homes, config.user)
