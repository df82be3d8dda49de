"""`mesos-gpu replay`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.support.marathon_cli.scripted_server import Run

TRACE = "name,arrival_s,duration_s,gpus,gpu_milli\na,0,10,1,1000\nb,1,10,2,1000\nc,2,10,1,500\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


def test_each_policy_has_its_line(run: Run, trace: str) -> None:
    found = run("replay", trace, "--machines", "2x2", "--policy", "first_fit", "--policy", "capacity")
    assert found.exit_code == 0
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["POLICY", "first_fit", "capacity"]
    assert "1 of 3 jobs ask for a part of a GPU; each takes a whole one here." in found.stderr


def test_the_same_history_gives_the_same_bytes(run: Run, trace: str, tmp_path: Path) -> None:
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(TRACE.encode()))
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn,8000,99999,2,T4\nm,8000,99999,2,T4\n")
    one, other = (run("replay", path, "--nodes", str(nodes), "-o", "json").stdout for path in (trace, str(packed)))
    assert one == other
    assert [(each["policy"], each["ended"]) for each in json.loads(one)] == [("first_fit", 3), ("capacity", 3)]
    (first,) = json.loads(
        run("replay", trace, "--machines", "1x2", "--jobs", "1", "--policy", "fgd", "-o", "json").stdout
    )
    assert (first["jobs"], first["ended"]) == (1, 1)


def test_what_cannot_be_done_is_said_in_words(run: Run, trace: str, tmp_path: Path) -> None:
    assert "on which machines?" in run("replay", trace).stderr
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as CSV" in run("replay", str(binary), "--machines", "1x1").stderr
