"""`mesos-gpu doctor`, with an agent that answers as told."""

from __future__ import annotations

import json

import pytest

from mesos_gpu.doctor import gather
from mesos_gpu.doctor.facts import Nvml
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "ask_nvml", lambda: Nvml(error="no library", code=12))


def agent(server: ScriptedServer, isolation: str) -> str:
    server.on("GET", "/flags", {"flags": {"isolation": isolation, "same_user_peers": "true"}})
    server.on("GET", "/state", {"pid": "slave(1)@h:1", "resources": {"gpus": 2.0}, "version": "1.12.0"})
    server.on("GET", "/gpus", Answer(200, [{"index": 3, "condition": "unhealthy", "reason": "XID 79"}]))
    return server.url


def test_problems_are_told_with_their_mending_and_end_with_1(server: ScriptedServer, run: Run, golden: Golden) -> None:
    done = run("doctor", "--agent", agent(server, "posix/cpu"))
    assert done.exit_code == 1
    assert done.stdout == golden
    assert "GPU 3: XID 79" in done.stdout


def test_programs_read_findings(server: ScriptedServer, run: Run, golden: Golden) -> None:
    url = agent(server, "filesystem/linux,cgroups/devices,gpu/nvidia")
    found = json.loads(run("doctor", "--agent", url, "-o", "json").stdout)
    mine = [finding for finding in found if finding["check"] == f"agent {url}"]
    assert [finding["verdict"] for finding in mine] == ["warning", "ok"]
    assert mine[-1]["found"] == golden


def test_an_agent_that_was_named_and_is_none_is_an_error(server: ScriptedServer, run: Run) -> None:
    server.on("GET", "/flags", {"flags": {}})
    done = run("doctor", "--agent", server.url)
    assert done.exit_code == 1
    assert "is not a Mesos agent" in done.stderr


def test_an_agent_that_wants_to_know_who_asks_is_told_if_it_was_named(
    server: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    server.on("GET", "/flags", Answer(401, "401 Unauthorized."))
    done = run("doctor", "--agent", server.url)
    assert done.exit_code == 1
    assert done.stderr == golden
    assert "authorization" not in {name.lower() for name in server.requests[-1].headers}
    monkeypatch.setenv("MESOS_GPU_MESOS_USER", "ops")
    monkeypatch.setenv("MESOS_GPU_MESOS_PASSWORD", "0ps")
    assert run("doctor", "--agent", server.url).stderr == golden
    assert server.requests[-1].headers["Authorization"].startswith("Basic ")
