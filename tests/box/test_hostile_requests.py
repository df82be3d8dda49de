"""Every listener of every program of a single-node cluster, and the Docker plugin's: what hostile clients send there.

The listeners are found in /proc and the endpoints in the programs' own lists, so that a new one is covered by itself.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from mesos_gpu.local.plan import runtime_dir
from tests.support.box.live import PATIENCE_S, LiveBox, nothing_left
from tests.support.box.sweeping import processes_of
from tests.support.hostile import BODIES, POST, RAW, Listener, answer, connected, listeners, memory_kib

pytestmark = pytest.mark.root
GROWTH_KIB = 256 * 1024
"""As much as all unfinished bodies together may take of a program's memory (`bodies.MAX_ALL`)."""
GET = b"GET /no/such/page HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = POST + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n" + b" " * 1000
UPLOADS = ("POST", "PUT", "PATCH")


@dataclass
class Machine:
    """A cluster, the Docker plugin beside it, and where all their processes listen."""

    box: LiveBox
    plugin: subprocess.Popen[bytes]
    folder: Path
    read: dict[str, int] = field(default_factory=dict)

    @property
    def listeners(self) -> dict[Listener, int]:
        pids = {self.plugin.pid, *(pid for pid, _ in processes_of(self.box.work_dir))}
        return listeners(pids, [self.folder, runtime_dir(self.box.work_dir)])

    def http(self) -> dict[Listener, int]:
        """Return the listeners that answer HTTP."""
        return {
            one: pid
            for one, pid in self.listeners.items()
            if answer(one, GET, patience_s=PATIENCE_S).startswith(b"HTTP/")
        }

    def tracebacks(self) -> list[str]:
        """Return what was logged since the last look from the first traceback on, by program."""
        found = []
        for path in [*(self.box.work_dir / "log").glob("*.log"), self.folder / "plugin.log"]:
            log = path.read_bytes()[self.read.get(path.name, 0) :]
            self.read[path.name] = self.read.get(path.name, 0) + len(log)
            if b"Traceback" in log:
                found.append(f"{path.name}: {log[log.index(b'Traceback') :].decode(errors='replace')}")
        return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = Path(tmp_path_factory.mktemp("hostile"))
    box = LiveBox(folder / "box")
    with nothing_left(box):
        box.up("--gpu_driver=simulated", "--simulated_gpus=2")
        agent = box.status()["agents"][0]["url"]
        words = ["-s", str(folder), "-d", str(folder / "volumes"), "-l", "127.0.0.1:0", "--agent", agent]
        program = [sys.executable, "-m", "mesos_gpu.doors.nvidia_docker.plugin", *words]
        with (folder / "plugin.log").open("wb") as log, subprocess.Popen(program, stderr=log) as plugin:
            try:
                made = Machine(box, plugin, folder)
                box.until("the plugin listens", lambda: (folder / "nvidia-docker.sock").exists())
                yield made
            finally:
                plugin.send_signal(signal.SIGTERM)
                assert plugin.wait(PATIENCE_S) == 0


def endpoints(box: LiveBox) -> Iterator[tuple[str, str, str]]:
    """Yield method, URL and type of body of everything that takes a body, as the programs list them."""
    status = box.status()
    for url in (status["master"]["url"], *(agent["url"] for agent in status["agents"])):
        listed = re.findall(r"^/(\S+)$", requests.get(f"{url}/help", timeout=PATIENCE_S).text, re.MULTILINE)
        assert "api/v1" in listed
        for path in listed:
            for kind in ("application/json", "application/x-protobuf"):
                yield "POST", f"{url}/{path}", kind
            yield "PUT", f"{url}/{path}", "application/json"
    marathon = status["marathon"]["url"]
    paths: dict[str, Any] = requests.get(f"{marathon}/v2/openapi.json", timeout=PATIENCE_S).json()["paths"]
    assert "/v2/apps" in paths
    for path, methods in paths.items():
        for method in methods:
            if method.upper() in UPLOADS:
                yield method.upper(), marathon + re.sub(r"\{[^}]*\}", "x", path), "application/json"


@pytest.mark.parametrize("name", RAW)
def test_each_listener_refuses_what_is_no_request(machine: Machine, name: str) -> None:
    found = machine.http()
    assert len(found) >= 5, "master, agent, Marathon and the plugin's two"
    before = {pid: memory_kib(pid) for pid in found.values()}
    for listener, pid in found.items():
        got = answer(listener, RAW[name], patience_s=PATIENCE_S)
        # Of an answer to what has not been read whole nothing may arrive: the kernel resets such a connection.
        answered = re.match(rb"HTTP/1\.[01] 4\d\d ", got) is not None
        assert answered or (not got and len(RAW[name]) > 2**16), (listener, got[:200])
        assert memory_kib(pid) - before[pid] < GROWTH_KIB
    assert machine.tracebacks() == []


def test_listeners_of_other_protocols_live_on(machine: Machine) -> None:
    others = {one: pid for one, pid in machine.listeners.items() if one not in machine.http()}
    assert others, "at least the supervisor's"
    for listener in others:
        for request in (*RAW.values(), *BODIES.values()):
            try:
                answer(listener, request + b"\n", patience_s=0.2)
            except TimeoutError:
                pass  # it waits for the rest of what it takes for the beginning of a message
    assert {one: pid for one, pid in machine.listeners.items() if one in others} == others
    assert machine.tracebacks() == []


@pytest.mark.parametrize("name", BODIES)
def test_each_endpoint_refuses_what_is_no_document(machine: Machine, name: str) -> None:
    asked = 0
    for method, url, kind in endpoints(machine.box):
        got = requests.request(
            method, url, data=BODIES[name], headers={"Content-Type": kind}, timeout=PATIENCE_S, allow_redirects=False
        )
        assert got.status_code < 500 or got.status_code == 501, (method, url, got.text[:200])
        assert "Traceback" not in got.text
        if got.status_code < 400:  # only an endpoint that takes no body may be content with this one
            without = requests.request(method, url, timeout=PATIENCE_S, allow_redirects=False)
            assert without.status_code == got.status_code, (method, url, got.status_code)
        asked += 1
    assert asked > 100
    assert machine.tracebacks() == []


def test_slow_clients_keep_nobody_else_waiting(machine: Machine) -> None:
    for listener in machine.http():
        begun = [connected(listener) for _ in range(20)]
        try:
            for connection in begun:
                connection.sendall(HALF)
            assert answer(listener, GET, patience_s=PATIENCE_S).startswith(b"HTTP/1.1 4")
        finally:
            for connection in begun:
                connection.close()
    assert machine.tracebacks() == []
