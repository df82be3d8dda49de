"""The program nvidia-docker-plugin: the volume plugin on a socket file, the REST interface on port 3476."""

from __future__ import annotations

import argparse
import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mesos_gpu.doors.common.agent import SETTINGS, Book, find_agent
from mesos_gpu.doors.nvidia_docker.rest import rest_answer
from mesos_gpu.doors.nvidia_docker.volumes import VOLUME, Answer, answer
from mesos_gpu.errors import MesosGpuError, Unavailable

NAME, VERSION = "nvidia-docker-plugin", "1.0.1"
SOCKET = "nvidia-docker.sock"
_TIMEOUT_S = 5.0


class Plugin:
    """What both servers answer from: the agent, and the folder in which volumes are.

    A volume is a link to the agent's own tree of the driver's files, which is one per version and never changed while
    somebody uses it; so there is nothing to copy, and no other file system in the way.
    """

    def __init__(self, book: Book, folder: Path) -> None:
        self._book, self._folder = book, folder / VOLUME
        self._mounted: set[str] = set()
        self._lock = threading.Lock()

    def rest(self, method: str, target: str) -> Answer:
        """Answer a request of the REST interface."""
        path = target.partition("?")[0]
        gpus = self._book.gpus() if path.endswith(("/gpu/status", "/gpu/status/json")) else []
        return rest_answer(method, target, self._book.driver(), gpus)

    def volume(self, method: str, path: str, accept: str | None, body: str) -> Answer:
        """Answer a request of an engine, and do what it asks for."""
        with self._lock:
            driver = self._book.driver()
            there = [entry.name for entry in self._folder.iterdir()] if self._folder.is_dir() else []
            said = answer(
                method,
                path,
                accept,
                body,
                version=str(driver["version"]),
                folder=str(self._folder),
                there=there,
                in_use=bool(self._mounted),
            )
            if said.create and said.create not in there:
                self._folder.mkdir(parents=True, exist_ok=True)
                (self._folder / said.create).symlink_to(driver["mounts"][0]["source"])
            if said.remove:
                (self._folder / said.remove).unlink(missing_ok=True)
            self._mounted |= {said.mounted} - {""}
            self._mounted -= {said.unmounted}
            return said


class _Handler(BaseHTTPRequestHandler):
    """One connection of either server. The 5 s are the original's."""

    protocol_version = "HTTP/1.1"
    server_version = f"{NAME}/{VERSION}"
    timeout = _TIMEOUT_S

    def address_string(self) -> str:
        """Return who asks; those on a socket file have no address."""
        return "engine" if isinstance(self.client_address, str) else str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        """Write a line, as the original: what was asked."""
        print(f"{NAME} | {self.log_date_time_string()} Received {format % args}", file=sys.stderr)

    def _respond(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode("utf-8", "replace")
        try:
            said = self.server.answer(self.command, self.path, self.headers.get("Accept"), body)  # type: ignore[attr-defined]
        except (MesosGpuError, OSError) as error:
            print(f"{NAME} | Error: {error}", file=sys.stderr)
            said = Answer(500, "internal error, check logs for details\n")
        data = said.body.encode()
        self.send_response(said.status)
        self.send_header("Content-Type", said.kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _respond


class _Tcp(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], plugin: Plugin) -> None:
        super().__init__(address, _Handler)
        self.answer = lambda method, target, accept, body: plugin.rest(method, target)


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, plugin: Plugin) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Handler)
        self.answer = plugin.volume


def load_uvm() -> None:
    """Have the module for unified memory loaded, and its node made, where modules can be loaded. Raises Unavailable."""
    try:
        subprocess.run(["nvidia-modprobe", "-u", "-c=0"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        raise Unavailable("Could not load UVM kernel module. Is nvidia-modprobe installed?") from None


def main(argv: Sequence[str] | None = None, *, agent: str | None = None, settings: str | None = None) -> int:
    """Serve until SIGTERM or SIGINT; status 1 when it cannot, or when one of the two servers ends."""
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
    try:
        book = Book(find_agent(asked.agent, settings=Path(settings or SETTINGS)))
        if book.driver()["kind"] == "nvml" and not Path("/dev/nvidia-uvm").exists():
            load_uvm()
        plugin = Plugin(book, Path(asked.d))
        servers = [_Unix(Path(asked.s) / SOCKET, plugin), _Tcp((host.strip("[]") or "localhost", int(port)), plugin)]
    except (MesosGpuError, OSError, ValueError) as error:
        print(f"{NAME} | Error: {error}", file=sys.stderr)
        return 1
    return _serve(servers, Path(asked.s) / SOCKET)


def _serve(servers: Sequence[Any], socket: Path) -> int:
    over = threading.Event()
    ended: list[int] = []

    def run(server: Any) -> None:
        try:
            server.serve_forever(poll_interval=0.1)
        finally:
            over.set()

    def told(*_: Any) -> None:
        ended.append(0)
        over.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)
    threads = [threading.Thread(target=run, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    print(f"{NAME} | Serving on {socket} and {servers[1].server_address}", file=sys.stderr, flush=True)
    over.wait()
    for server in servers:
        server.shutdown()
        server.server_close()
    socket.unlink(missing_ok=True)
    return 0 if ended else 1


if __name__ == "__main__":
    os.umask(0o077)
    raise SystemExit(main())
