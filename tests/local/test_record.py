"""The note that a box leaves of itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mesos_gpu.agent.disk.checkpoints import AgentCheckpoints
from mesos_gpu.local.record import (
    Box,
    Records,
    Service,
    end_left_behind,
    is_alive,
    left_behind,
    start_time,
    still_running,
)
from mesos_gpu.mesos.ids import AgentId


def test_a_note_reads_back_as_written(tmp_path: Path) -> None:
    service = Service("http://127.0.0.1:5050", 7, 8)
    box = Box(1, 2, service, [Service("http://127.0.0.1:5051", 9, 10, 4, "simulated")], service)
    records = Records(tmp_path)
    records.write(box)
    assert records.read() == box
    assert list(box.services()) == ["master", "agent1", "marathon"]
    records.remove()
    records.remove()
    assert records.read() is None


def test_a_torn_note_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "box.json").write_text('{"pid": 1')
    assert Records(tmp_path).read() is None


def test_a_process_is_known_by_its_start_time() -> None:
    me = start_time(os.getpid())
    assert is_alive(os.getpid(), me)
    assert not is_alive(os.getpid(), me + 1), "a reused pid is another process"
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    begun = start_time(child.pid)
    child.wait()
    assert not is_alive(child.pid, begun)


def test_ports_are_remembered_after_the_box_is_forgotten(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert records.ports() == {}
    master, agent = Service("http://127.0.0.1:5050", 7, 8), Service("http://127.0.0.1:5051", 9, 10)
    records.write_ports(Box(1, 2, master, [agent], Service("http://127.0.0.1:8080", 11, 12)))
    records.remove()
    assert records.ports() == {"master": 5050, "agent1": 5051, "marathon": 8080}


@pytest.mark.parametrize("damage", [None, b"", b"[]", b"\xff\xfe", b'{"agent1": 99999}', b"[" * 100_000])
def test_ports_that_were_lost_are_found_at_the_agents(tmp_path: Path, damage: bytes | None) -> None:
    """An agent on another port is another agent: it would refuse to start, and its tasks would be nobody's."""
    for name, port in (("agent1", 40001), ("agent2", 40002)):
        checkpoints = AgentCheckpoints(tmp_path / name)
        checkpoints.open()
        checkpoints.save_agent({"id": {"value": AgentId("S0")}, "hostname": "h", "port": port})
    if damage is not None:
        (tmp_path / "ports.json").write_bytes(damage)
    assert Records(tmp_path).ports() == {"agent1": 40001, "agent2": 40002}


def test_an_agent_whose_checkpoint_is_damaged_has_no_port_to_find(tmp_path: Path) -> None:
    folder = tmp_path / "agent1" / "meta" / "slaves" / "latest"
    folder.mkdir(parents=True)
    for damage in (b"", b"[]", b"{}", b'{"port": "\xff"}', b'{"port": 0}'):
        (folder / "slave.info").write_bytes(damage)
        assert Records(tmp_path).ports() == {}


def test_containers_whose_first_process_is_known_are_ended_and_others_may_run(tmp_path: Path) -> None:
    folder = tmp_path / "agent1" / "containers"
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "1000"]) as child:
        try:
            started = start_time(child.pid)
            (folder / "runs.json").write_text(json.dumps({"pid": child.pid, "pid_start_time": started, "more": [1]}))
            (folder / "reused.json").write_text(json.dumps({"pid": child.pid, "pid_start_time": started - 1}))
            (folder / "made.json").write_text(json.dumps({"pid": None}))
            (folder / "damaged.json").write_text("{")
            assert still_running(tmp_path) == ["damaged", "made", "runs"]
            end_left_behind(tmp_path)
            assert child.wait(10) == -signal.SIGKILL
        finally:
            child.kill()
    assert still_running(tmp_path) == ["damaged", "made"]
    assert left_behind(tmp_path) == ["damaged", "made", "reused", "runs"]
    end_left_behind(tmp_path)
