"""The program nvidia-docker-plugin: the volume plugin on a socket file, the REST interface on port 3476."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from mesos_gpu.doors.common.agent import SETTINGS, Book, find_agent
from mesos_gpu.doors.nvidia_docker.rest import rest_answer
from mesos_gpu.doors.nvidia_docker.volumes import VOLUME, Answer, answer
from mesos_gpu.errors import BadInput, MesosGpuError, Unavailable
from mesos_gpu.process.bodies import read_body
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import error_response, make_app
from mesos_gpu.process.program import run_program
from mesos_gpu.process.requests import is_over_unix_socket

log = logging.getLogger(__name__)

NAME, VERSION = "nvidia-docker-plugin", "1.0.1"
SOCKET = "nvidia-docker.sock"
MAX_REQUEST = 1024 * 1024
"""Bytes in the largest request body: an engine sends a name and an id."""


class Plugin:
    """Answers requests on both listeners, from what the agent reports and the folder of volumes.

    A volume is a link to the agent's own tree of the driver's files, which is one per version and never changed while
    somebody uses it; so there is nothing to copy, and no other file system in the way.
    """

    def __init__(self, book: Book, folder: Path) -> None:
        self._book, self._folder = book, folder / VOLUME
        self._mounted: set[str] = set()
        self._lock = asyncio.Lock()

    def make_app(self) -> web.Application:
        """Return the application: engines are answered on the socket file, everybody else gets the REST interface."""
        app = make_app(MAX_REQUEST)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await read_body(request)
            if is_over_unix_socket(request):
                async with self._lock:
                    found = await asyncio.to_thread(self._volume, request, body)
            else:
                found = await asyncio.to_thread(self._rest, request.method, request.raw_path)
        except BadInput as error:
            return error_response(400, f"{error}\n")
        except (MesosGpuError, OSError) as error:
            log.error("%s %s: %s", request.method, request.path, error)
            return error_response(500, "internal error, check logs for details\n")
        return web.Response(status=found.status, body=found.body.encode(), headers={"Content-Type": found.kind})

    def _rest(self, method: str, target: str) -> Answer:
        path = target.partition("?")[0]
        gpus = self._book.gpus() if path.endswith(("/gpu/status", "/gpu/status/json")) else []
        return rest_answer(method, target, self._book.driver(), gpus)

    def _volume(self, request: web.Request, body: bytes) -> Answer:
        driver = self._book.driver()
        there = [entry.name for entry in self._folder.iterdir()] if self._folder.is_dir() else []
        found = answer(
            request.method,
            request.path,
            request.headers.get("Accept"),
            body,
            version=str(driver["version"]),
            folder=str(self._folder),
            there=there,
            in_use=bool(self._mounted),
        )
        if found.create and found.create not in there:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / found.create).symlink_to(driver["mounts"][0]["source"])
        if found.remove:
            (self._folder / found.remove).unlink(missing_ok=True)
        self._mounted |= {found.mounted} - {""}
        self._mounted -= {found.unmounted}
        return found


def load_uvm() -> None:
    """Have the module for unified memory loaded, and its node made, where modules can be loaded. Raises Unavailable."""
    try:
        subprocess.run(["nvidia-modprobe", "-u", "-c=0"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        raise Unavailable("Could not load UVM kernel module. Is nvidia-modprobe installed?") from None


def main(argv: Sequence[str] | None = None, *, agent: str | None = None, settings: str | None = None) -> int:
    """Serve until SIGTERM or SIGINT; status 1 when it cannot."""
    parser = argparse.ArgumentParser(prog=NAME, description="Volumes and facts of GPUs for Docker and podman.")
    parser.add_argument("-v", action="store_true", help="print the version and end")
    parser.add_argument("-l", default="localhost:3476", metavar="HOST:PORT", help="where the REST interface is")
    parser.add_argument("-d", default="/var/lib/nvidia-docker/volumes", metavar="FOLDER", help="where volumes are")
    parser.add_argument("-s", default="/run/docker/plugins", metavar="FOLDER", help="where the socket is")
    parser.add_argument("--agent", default=agent, metavar="URL", help="the agent of this machine")
    asked = parser.parse_args(argv)
    if asked.v:
        print(f"NVIDIA Docker plugin: {VERSION}")
        return 0
    host, _, port = asked.l.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        print(f"{NAME}: -l {asked.l}: HOST:PORT was expected, such as localhost:3476", file=sys.stderr)
        return 1

    async def serve(stop: asyncio.Event) -> int:
        book = Book(find_agent(asked.agent, settings=Path(settings or SETTINGS)))
        driver = await asyncio.to_thread(book.driver)
        if driver["kind"] == "nvml" and not Path("/dev/nvidia-uvm").exists():
            await asyncio.to_thread(load_uvm)
        endpoint = Endpoint(host.strip("[]") or "localhost", int(port))
        socket = Path(asked.s) / SOCKET
        # Whoever may use an engine's volume plugins may have any folder of this machine mounted.
        await endpoint.start(Plugin(book, Path(asked.d)).make_app(), socket, socket_mode=0o600)
        try:
            log.info("serving on %s and %s", socket, endpoint.url)
            await stop.wait()
        finally:
            await endpoint.stop()
        return 0

    return run_program(NAME, serve)


if __name__ == "__main__":
    os.umask(0o077)
    raise SystemExit(main())
