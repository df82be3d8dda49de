"""`mesos-gpu gpu mig`, by an agent that divides, and by an NVML that divides as an A100 does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mesos_gpu.simulated.libraries import NVML, simulated_library
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, ScriptedServer, scripted_server

pytestmark = pytest.mark.slow

Mig = Callable[..., "subprocess.CompletedProcess[str]"]
PLAN = {
    "keep": [{"profile": "1g.5gb", "start": 6, "size": 1, "used_by": "task train.1"}],
    "destroy": [{"profile": "1g.5gb", "start": 0, "size": 1}],
    "create": [{"profile": "3g.20gb", "start": 0, "size": 4}],
    "beyond": [],
}


@pytest.fixture
def agent() -> Iterator[ScriptedServer]:
    """An agent that divides."""
    with scripted_server() as server:
        server.on("POST", "/gpus/mig", PLAN)
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


def test_the_agent_says_what_stays_for_whom_and_what_it_would_do(mig: Mig, agent: ScriptedServer) -> None:
    done = mig("plan", "3g.20gb,1g.5gb")
    assert done.stdout.splitlines() == [
        "STEP     PROFILE  SLICES  USED BY",
        "keep     1g.5gb   6       task train.1",
        "destroy  1g.5gb   0",
        "create   3g.20gb  0-3",
    ]
    assert agent.requests[0].body == {"gpu": "0", "profiles": "3g.20gb,1g.5gb", "plan": True}


def test_the_agent_divides(mig: Mig, agent: ScriptedServer, golden: Golden) -> None:
    agent.on("POST", "/gpus/mig", PLAN | {"beyond": [{"profile": "1g.5gb", "start": 6, "size": 1}]})
    done = mig("apply", "3g.20gb", "--gpu", "1", "-o", "json")
    assert places(done) == [("keep", "1g.5gb", 6), ("destroy", "1g.5gb", 0), ("create", "3g.20gb", 0)]
    assert done.stderr == golden
    assert agent.requests[0].body == {"gpu": "1", "profiles": "3g.20gb", "plan": False}


def test_what_the_agent_refuses_is_said_in_its_words(mig: Mig, agent: ScriptedServer) -> None:
    agent.on("POST", "/gpus/mig", Answer(409, b"7g.40gb need the place of what is in use: 1g.5gb at 6"))
    done = mig("apply", "7g.40gb")
    assert done.returncode == 1
    assert "need the place of what is in use: 1g.5gb at 6" in done.stderr


def test_without_an_agent_a_plan_goes_on_and_a_change_wants_to_be_told(
    mig: Mig, agent: ScriptedServer, golden: Golden
) -> None:
    agent.url = "http://127.0.0.1:9"
    assert mig("plan", "none").stderr == golden
    refused = mig("apply", "none")
    assert refused.returncode != 0
    assert "--without-agent" in refused.stderr
    assert places(mig("apply", "none", "--without-agent", "-o", "json"))[0][0] == "destroy"
    assert places(mig("plan", "none", "-o", "json")) == []


@pytest.mark.parametrize(
    "words",
    [
        ("A100-40GB", "4g.20gb,3g.20gb"),
        ("a30", "9g.99gb"),
        ("T4", "1g.5gb"),
    ],
)
def test_a_plan_for_a_model_needs_no_gpu(mig: Mig, words: tuple[str, str], golden: Golden) -> None:
    done = mig("plan", "--model", *words)
    assert " ".join((done.stdout + done.stderr).split()) == golden
