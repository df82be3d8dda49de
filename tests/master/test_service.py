"""The program itself, and real pymesos against it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from benchmarks.soak import soak
from tests.support import places
from tests.support.golden import Golden
from tests.support.master.build import OTHER_UUID, THIRD_UUID, UUID
from tests.support.master.live import ScriptedAgent, live_master, soon

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
EXAMPLE = places.EXAMPLES / "gpu_framework.py"


class Program:
    """`mesos-gpu-master` as a process."""

    def __init__(self, work_dir: Path, *words: str) -> None:
        self.ready_file = work_dir / "ready.json"
        command = [sys.executable, "-m", "mesos_gpu.master.service", f"--work_dir={work_dir}", *words]
        self.process = subprocess.Popen(
            [*command, f"--ready_file={self.ready_file}"], stderr=subprocess.PIPE, text=True
        )

    def ready(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.errors()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return json.loads(self.ready_file.read_text())  # type: ignore[no-any-return]

    def errors(self) -> str:
        return self.process.communicate(timeout=PATIENCE_S)[1]

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    started: list[Program] = []
    yield started
    for program in started:
        program.end()


def test_it_says_when_it_can_be_used_and_stops_when_told(tmp_path: Path, programs: list[Program]) -> None:
    programs.append(Program(tmp_path, "--port=0", "--cluster=test"))
    ready = programs[0].ready()
    assert ready["pid"] == programs[0].process.pid
    state = requests.get(f"{ready['url']}/master/state", timeout=PATIENCE_S).json()
    assert (state["id"], state["cluster"], state["hostname"]) == (ready["id"], "test", "127.0.0.1")
    assert f"http://{state['pid'].removeprefix('master@')}" == ready["url"]
    assert programs[0].end() == 0


def test_a_taken_port_is_one_clear_line(tmp_path: Path, programs: list[Program]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        programs.append(Program(tmp_path, f"--port={port}"))
        errors = programs[0].errors()
    assert programs[0].process.returncode == 1
    assert str(port) in errors
    assert "Traceback" not in errors
    assert not programs[0].ready_file.exists()


def test_a_wrong_flag_is_one_clear_line(tmp_path: Path, programs: list[Program], golden: Golden) -> None:
    programs.append(Program(tmp_path, "--filter_gpu_resource"))
    errors = programs[0].errors()
    assert programs[0].process.returncode == 2
    assert errors == golden


def test_a_killed_master_starts_again_with_what_it_knew(tmp_path: Path, programs: list[Program]) -> None:
    programs.append(Program(tmp_path, "--port=0"))
    first = programs[0].ready()
    os.kill(first["pid"], signal.SIGKILL)
    programs[0].end()
    programs[0].ready_file.unlink()
    programs.append(Program(tmp_path, "--port=0"))
    second = programs[1].ready()
    assert first["id"] != second["id"]


async def test_a_plain_pymesos_framework_runs_a_gpu_task(tmp_path: Path) -> None:
    async with live_master(tmp_path) as master:
        agent = ScriptedAgent(master.url)
        await agent.start()
        await agent.register()
        address = master.url.removeprefix("http://")
        command = [sys.executable, str(EXAMPLE), address, "nvidia-smi"]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=subprocess.STDOUT)
        try:
            run = await agent.message("RunTaskMessage")
            gpus = [r["scalar"]["value"] for r in run["task"]["resources"] if r["name"] == "gpus"]
            assert (gpus, run["task"]["command"]["value"]) == ([1.0], "nvidia-smi")
            assert {"type": "GPU_RESOURCES"} in run["framework"]["capabilities"]
            for state, uuid in [("TASK_STARTING", UUID), ("TASK_RUNNING", OTHER_UUID), ("TASK_FINISHED", THIRD_UUID)]:
                agent.update(run, state, uuid)
                assert (await agent.message("StatusUpdateAcknowledgementMessage"))["uuid"] == uuid
            assert await agent.message("ShutdownFrameworkMessage"), "the driver's stop tears its framework down"
            output, _ = await soon(process.communicate())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await agent.stop()
    text = output.decode()
    assert process.returncode == 0, text
    lines = [line.split()[0] for line in text.splitlines()]
    assert lines == ["subscribed", "launching", "TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]


async def test_after_frameworks_came_died_and_failed_over_all_is_free_again() -> None:
    report = await soak(seconds=3.0, frameworks=20, agents=3, seed=7)
    assert report.problem is None
    assert {"subscribed", "accepted", "declined", "task ended", "hung up", "agent came back"} <= set(report.did)
