"""Genuine masters that ask agents who they are: ours says it by CRAM-MD5, and one that lies stays outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.genuine.box import MakeBox
from tests.genuine.releases import Release
from tests.genuine.services import Service, services

__all__ = ["services"]
pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]


def credential(folder: Path, name: str, secret: str) -> str:
    file = folder / name
    file.write_text(json.dumps({"principal": "agent", "secret": secret}))
    file.chmod(0o600)
    return str(file)


def test_an_agent_says_who_it_is_and_runs_tasks(
    release: Release, make_box: MakeBox, services: Callable[..., Service], tmp_path: Path
) -> None:
    known = tmp_path / "credentials"
    known.write_text(json.dumps({"credentials": [{"principal": "agent", "secret": "very-secret"}]}))
    flags = {"authenticate_agents": True, "credentials": str(known), "authentication_v0_timeout": "15secs"}
    right = {"credential": credential(tmp_path, "right", "very-secret")}
    box = make_box(release, gpus=1, master_flags=flags, agent_flags=right, marathon=True)
    assert box.run_app({"id": "/a", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    box.agents[0].kill()
    box.agents[0].start()
    wrong = (f"--credential={credential(tmp_path, 'wrong', 'guessed')}", "--gpu_driver=none")
    where = (f"--master={box.genuine.address}", f"--work_dir={tmp_path}/liar", "--cgroups_root=mesos-test-liar")
    liar = services("agent", "mesos_gpu.agent.service", *where, *wrong, ready=False)
    assert liar.process.wait(60) == 1
    assert "authenticate" in liar.log.read_text()
    assert [slave["id"] for slave in box.state()["slaves"]] == [box.agents[0].id]
