"""Finding the box, and the thin layer over mesos_gpu.local."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marathon_cli.connection.box import SYSTEM_WORK_DIR, default_work_dir, find_marathon, found_work_dir
from mesos_gpu import local
from mesos_gpu.errors import Conflict, Unavailable
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer


def note(work_dir: Path, url: str, pid: int) -> Path:
    document = {"master": {"url": "m"}, "agents": [{"url": "a"}], "marathon": {"url": url}, "pid": pid}
    (work_dir / "box.json").write_text(json.dumps(document))
    return work_dir


def test_the_work_dir_is_the_users_state_folder_unless_named() -> None:
    assert default_work_dir({"MESOS_GPU_WORK_DIR": "/w"}) == Path("/w")
    assert default_work_dir({"XDG_STATE_HOME": "/state"}) == Path("/state/mesos-gpu")
    for environ in ({}, {"XDG_STATE_HOME": "relative"}, {"MESOS_GPU_WORK_DIR": ""}):
        assert default_work_dir(environ) == Path.home() / ".local/state/mesos-gpu"


def test_the_running_box_is_found_by_its_note(tmp_path: Path) -> None:
    assert find_marathon(note(tmp_path, "http://127.0.0.1:8080", os.getpid())) == "http://127.0.0.1:8080"


def test_a_box_whose_process_is_gone_no_longer_runs(tmp_path: Path, golden: Golden) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(Unavailable) as refused:
        find_marathon(note(tmp_path, "u", gone.pid))
    assert str(refused.value) == golden.hide(pid=gone.pid)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1, "marathon": 3}'])
def test_a_note_that_cannot_be_read_is_said(tmp_path: Path, text: str, golden: Golden) -> None:
    (tmp_path / "box.json").write_text(text)
    with pytest.raises(Unavailable) as refused:
        find_marathon(tmp_path)
    assert str(refused.value) == golden


def test_commands_talk_to_the_running_box(
    server: ScriptedServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MARATHON_URL")
    server.on("GET", "/v2/apps", {"apps": []})
    server.on("GET", "/v2/deployments", Answer(200, []))
    note(tmp_path, server.url, os.getpid())
    for words in (("--work_dir", str(tmp_path), "app", "list"), ("app", "list", "--work-dir", str(tmp_path))):
        assert run(*words).exit_code == 0


def test_up_hands_every_flag_over_in_both_spellings(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[local.UpOptions] = []

    def up(options: local.UpOptions) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(local, "up", up)
    assert run("up").exit_code == 0
    words = "--gpu_driver=simulated --simulated-gpus=2 --agents 3 --master_port=0 --agent-port=1 --marathon_port=2"
    assert run("up", f"--work_dir={tmp_path}", *words.split(), "--detach").exit_code == 0
    assert asked[0] == local.UpOptions(work_dir=tmp_path / "no-box")
    assert asked[1] == local.UpOptions(
        work_dir=tmp_path,
        gpu_driver="simulated",
        simulated_gpus=2,
        agents=3,
        master_port=0,
        agent_port=1,
        marathon_port=2,
        detach=True,
    )


def test_a_box_that_runs_already_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def up(options: local.UpOptions) -> int:
        raise Conflict("a box is already running")

    monkeypatch.setattr(local, "up", up)
    result = run("up")
    assert (result.exit_code, result.stderr) == (1, "mesos-gpu: a box is already running\n")


def test_down_passes_on_whether_tasks_are_kept(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Path, bool]] = []

    def down(work_dir: Path, keep_tasks: bool) -> int:
        calls.append((work_dir, keep_tasks))
        return 0

    monkeypatch.setattr(local, "down", down)
    run("down")
    run("down", "--keep-tasks", "--work-dir", "/w")
    assert calls == [(tmp_path / "no-box", False), (Path("/w"), True)]


def services(agent_pid: int | None) -> dict[str, Any]:
    agent = {"url": "http://a", "pid": agent_pid, "gpus": 4, "gpus_free": 3 if agent_pid else None}
    return {"master": {"url": "http://m", "pid": 1}, "agents": [agent], "marathon": {"url": "http://n", "pid": 3}}


def test_status_shows_services_and_free_gpus(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "status", lambda work_dir: services(2))
    result = run("status")
    assert result.exit_code == 0
    header, master, agent, _ = (line.split() for line in result.stdout.splitlines())
    assert header == ["SERVICE", "STATE", "GPUS", "FREE", "PID", "URL"]
    assert master == ["master", "up", "---", "1", "http://m"]
    assert agent == ["agent", "up", "3", "of", "4", "2", "http://a"]
    assert json.loads(run("status", "--json").stdout) == services(2)


def test_status_ends_with_1_when_a_service_is_down(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "status", lambda work_dir: services(None))
    result = run("status")
    assert result.exit_code == 1
    assert "? of 4" in result.stdout
    assert run("status", "--json").exit_code == 1


def test_status_without_a_box_says_how_to_start_one(run: Run, golden: Golden) -> None:
    result = run("status")
    assert result.exit_code == 1
    assert result.stderr == golden


def test_the_box_of_the_machine_is_found_where_ones_own_does_not_run(tmp_path: Path) -> None:
    own, system = tmp_path / "own" / "mesos-gpu", tmp_path / "system"
    environ = {"XDG_STATE_HOME": str(tmp_path / "own")}
    assert found_work_dir(environ, system) == own
    for folder in (own, system):
        folder.mkdir(parents=True)
    (system / "box.json").write_text(json.dumps({"pid": os.getpid()}))
    assert found_work_dir(environ, system) == system
    assert found_work_dir({**environ, "MESOS_GPU_WORK_DIR": "/named"}, system) == Path("/named")
    (own / "box.json").write_text("{")
    assert found_work_dir(environ, system) == system
    (own / "box.json").write_text(json.dumps({"pid": os.getpid()}))
    assert found_work_dir(environ, system) == own


def test_up_for_everybody_has_its_own_place(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    asked: list[Path] = []

    def up(options: local.UpOptions) -> int:
        asked.append(options.work_dir)
        return 0

    monkeypatch.setattr(local, "up", up)
    assert run("up", "--system").exit_code == 0
    assert asked == [SYSTEM_WORK_DIR]
    refused = run("up", "--system", f"--work_dir={tmp_path}")
    assert refused.exit_code == 1
    assert refused.output == golden
