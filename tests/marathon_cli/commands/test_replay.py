"""`mesos-gpu replay`."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Run

TRACE = "name,arrival_s,duration_s,gpus,gpu_milli\na,0,10,1,1000\nb,1,10,2,1000\nc,2,10,1,500\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


def test_each_policy_has_its_line(run: Run, trace: str, golden: Golden) -> None:
    found = run("replay", trace, "--machines", "2x2", "--policy", "first_fit", "--policy", "capacity")
    assert found.exit_code == 0
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["POLICY", "first_fit", "capacity"]
    assert found.stderr == golden


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


def test_what_cannot_be_done_is_said_in_words(run: Run, trace: str, tmp_path: Path, golden: Golden) -> None:
    assert run("replay", trace).stderr == golden
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    assert run("replay", str(binary), "--machines", "1x1").stderr == golden


def test_jobs_are_drawn_where_more_are_asked_for_and_the_same_seed_gives_the_same_bytes(run: Run, trace: str) -> None:
    def replayed(*more: str) -> str:
        found = run("replay", trace, "--machines", "2x2", "--policy", "capacity", "-o", "json", "--jobs", "12", *more)
        assert found.exit_code == 0
        return found.stdout

    assert replayed("--seed", "3") == replayed("--seed", "3") != replayed("--seed", "4")
    assert json.loads(replayed())[0]["jobs"] == 12
    assert replayed("--load", "0.5") != replayed("--load", "2")


def test_phillys_own_log_is_read(run: Run, tmp_path: Path) -> None:
    times = {"start_time": "2017-10-07 01:05:00", "end_time": "2017-10-07 01:06:00"}
    attempt = {**times, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}
    log = tmp_path / "cluster_job_log"
    log.write_text(json.dumps([{"jobid": "a", "submitted_time": "2017-10-07 01:00:00", "attempts": [attempt]}]))
    found = run("replay", str(log), "--machines", "1x1", "--policy", "capacity", "-o", "json")
    assert [(each["ended"], each["completed_s"]) for each in json.loads(found.stdout)] == [(1, 60.0)]
    log.write_text("{")
    assert "is not JSON" in run("replay", str(log), "--machines", "1x1").stderr


def test_a_plot_has_a_line_for_each_policy_and_the_same_bytes_each_time(run: Run, trace: str, tmp_path: Path) -> None:
    drawn = []
    for name in ("one.svg", "other.svg"):
        path = tmp_path / name
        assert run("replay", trace, "--machines", "2x2", "--plot", str(path)).exit_code == 0
        drawn.append(path.read_bytes())
    assert drawn[0] == drawn[1]
    text = drawn[0].decode()
    assert text.count("first_fit") == text.count("capacity") == 3
    assert "GPUs in use, %" in text
    assert "<dc:date>" not in text


def test_without_matplotlib_it_says_what_to_install(
    run: Run, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = run("replay", trace, "--machines", "2x2", "--plot", str(tmp_path / "p.svg"))
    assert found.exit_code == 1
    assert found.stderr == golden


def test_a_plot_that_cannot_be_written_is_said(run: Run, trace: str, tmp_path: Path, golden: Golden) -> None:
    found = run("replay", trace, "--machines", "2x2", "--plot", str(tmp_path / "missing" / "p.svg"))
    assert found.stderr == golden
