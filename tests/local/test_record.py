"""The note that a box leaves of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mesos_gpu.local.record import Box, Records, Service, is_alive, start_time


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
