"""`mesos-gpu gpu mig`, with the agent's book beside an NVML that divides GPUs as an A100 does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mesos_gpu.simulated.libraries import NVML, simulated_library
from tests.support.marathon_cli.scripted_server import Answer, ScriptedServer, scripted_server

pytestmark = pytest.mark.slow

Mig = Callable[..., "subprocess.CompletedProcess[str]"]
IDLE, HELD = (f"MIG-00000000-57b0-5bb0-8000-00000000000{slot}" for slot in (0, 1))


@pytest.fixture
def agent() -> Iterator[ScriptedServer]:
    """An agent that has two instances of 1g.5gb in its book, of which a task holds one."""
    with scripted_server() as server:
        held = {"uuid": HELD, "container_id": "c1", "task_id": "train.1"}
        server.on("GET", "/gpus", [{"uuid": IDLE}, held])
        server.on("POST", "/gpus/leases", Answer(201, {"id": "l1"}))
        server.on("DELETE", "/gpus/leases/l1", Answer(204, b""))
        yield server


@pytest.fixture
def mig(agent: ScriptedServer, tmp_path: Path) -> Mig:
    library = simulated_library(NVML, tmp_path / "kept")
    assert library is not None, "needs a C compiler: apt-get install gcc libc6-dev"
    (tmp_path / NVML).write_bytes(library)
    machine = tmp_path / "machine"
    machine.write_text(
        "count=1\ngpu.0.mig=1\ngpu.0.name=NVIDIA A100-SXM4-40GB\ngpu.0.slot.0=1:0:19:0:1\ngpu.0.slot.1=2:0:19:6:1\n"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        known = {"LD_LIBRARY_PATH": str(tmp_path), "SIMULATED_NVML": str(machine), "MESOS_GPU_AGENT": agent.url}
        command = [sys.executable, "-m", "marathon_cli", "gpu", "mig", *words]
        return subprocess.run(command, env=os.environ | known, capture_output=True, text=True)

    return run


def places(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str, int]]:
    assert done.returncode == 0, done.stderr
    return [(step["step"], step["profile"], step["start"]) for step in json.loads(done.stdout)]


def test_a_plan_says_what_stays_for_whom_and_changes_nothing(mig: Mig, agent: ScriptedServer) -> None:
    done = mig("plan", "3g.20gb,1g.5gb")
    assert done.stdout.splitlines() == [
        "STEP     PROFILE  SLICES  USED BY",
        "keep     1g.5gb   6       task train.1",
        "destroy  1g.5gb   0",
        "create   3g.20gb  0-3",
    ]
    assert [request.method for request in agent.requests] == ["GET"]
    assert mig("plan", "3g.20gb,1g.5gb").stdout == done.stdout


def test_what_is_destroyed_is_borrowed_first_and_given_back(mig: Mig, agent: ScriptedServer) -> None:
    done = mig("apply", "3g.20gb,1g.5gb", "-o", "json")
    assert places(done) == [("keep", "1g.5gb", 6), ("destroy", "1g.5gb", 0), ("create", "3g.20gb", 0)]
    assert "restart the agent" in done.stderr
    assert [(request.method, request.path) for request in agent.requests] == [
        ("GET", "/gpus"),
        ("POST", "/gpus/leases"),
        ("DELETE", "/gpus/leases/l1"),
    ]
    assert agent.requests[1].body["gpus"] == [IDLE]
    assert places(mig("plan", "3g.20gb,1g.5gb", "-o", "json")) == [("keep", "3g.20gb", 0), ("keep", "1g.5gb", 6)]


def test_an_instance_that_somebody_takes_meanwhile_is_left_alone(mig: Mig, agent: ScriptedServer) -> None:
    agent.on("POST", "/gpus/leases", Answer(409, b"GPU 0 is held by task other.1"))
    done = mig("apply", "3g.20gb,1g.5gb")
    assert done.returncode == 1
    assert "held by task other.1; plan again" in done.stderr
    assert places(mig("plan", "2x1g.5gb", "-o", "json")) == [("keep", "1g.5gb", 0), ("keep", "1g.5gb", 6)]


def test_what_cannot_be_now_names_who_is_in_the_way(mig: Mig) -> None:
    done = mig("plan", "7g.40gb")
    assert done.returncode == 1
    assert "1g.5gb at 6, used by task train.1. End that first" in done.stderr


def test_without_an_agent_a_plan_goes_on_and_a_change_wants_to_be_told(mig: Mig, agent: ScriptedServer) -> None:
    agent.url, there = "http://127.0.0.1:9", agent.url
    assert "only processes count as use" in mig("plan", "none").stderr
    refused = mig("apply", "none")
    assert refused.returncode != 0
    assert "--without-agent" in refused.stderr
    assert places(mig("apply", "none", "--without-agent", "-o", "json"))[0][0] == "destroy"
    agent.url = there
    assert places(mig("plan", "none", "-o", "json")) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("A100-40GB", "4g.20gb,3g.20gb"), "create 4g.20gb 0-3 create 3g.20gb 4-7"),
        (("a30", "9g.99gb"), "this GPU has no profile 9g.99gb"),
        (("T4", "1g.5gb"), "no profiles of a 'T4' are known; known are A30"),
    ],
)
def test_a_plan_for_a_model_needs_no_gpu(mig: Mig, words: tuple[str, str], said: str) -> None:
    done = mig("plan", "--model", *words)
    assert said in " ".join((done.stdout + done.stderr).split())
