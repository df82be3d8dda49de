"""`mesos-gpu usage`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from marathon_cli.commands.usage import clock, summary, untold
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

TOTAL: dict[str, Any] = {
    "tasksEnded": 3,
    "elapsedHours": 30.5,
    "gpuHours": 61.0,
    "cpuHours": 30.5,
    "memGiBHours": 30.5,
    "sharedGpuMemGiBHours": 0.0,
    "gpuEfficiency": 62.5,
    "gpuIdle": 12.0,
    "measuredGpuHours": 60.0,
    "idleGpuHours": 7.2,
    "cpuEfficiency": 80.0,
    "cpuUsedHours": 24.4,
    "maxRssMiB": 512.0,
    "memMiB": 1024.0,
    "memEfficiency": 50.0,
    "maxGpuMemMiB": 9000.0,
}
FOUND = {
    "since": "2026-11-16T07:00:00.000Z",
    "until": "2026-11-23T07:10:00.000Z",
    "by": "app",
    "usage": [{"app": "/train", "role": "ml", "user": "ann", **TOTAL}],
    "total": TOTAL,
    "notTold": [],
}
GENUINE = {**TOTAL, "gpuEfficiency": None, "gpuIdle": None, "measuredGpuHours": 0.0, "maxGpuMemMiB": None}


def test_sums_are_a_table_in_the_words_of_sacct(marathon: ScriptedServer, run: Run) -> None:
    marathon.on("GET", "/v1/usage", FOUND)
    result = run("usage", "--since", "2026-11-16T07:00Z")
    assert (result.exit_code, result.stderr) == (0, "")
    head, row = result.stdout.splitlines()
    assert head.split()[:6] == ["APP", "ROLE", "USER", "ENDED", "ELAPSED", "GPU-HOURS"]
    assert row.split()[:8] == ["/train", "ml", "ann", "3", "1-06:30:00", "61.00", "62.5%", "12.0%"]
    sent = marathon.sent("GET")[-1]
    assert (sent.path, sent.query) == ("/v1/usage", {"since": "2026-11-16T07:00:00.000Z", "by": "app"})
    assert json.loads(run("usage", "-o", "json").stdout)["total"]["tasksEnded"] == 3
    assert run("usage", "-q").stdout == "/train\n"


def test_one_app_is_told_as_seff_does(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("GET", "/v1/usage", FOUND)
    lines = run("usage", "train").stdout.splitlines()
    assert lines == golden
    assert "CPU Utilized: 1-00:24:00" in lines
    assert "CPU Efficiency: 80.0% of 1-06:30:00 core-walltime" in lines
    assert "Memory Efficiency: 50.0% of 1024 MiB" in lines
    assert marathon.sent("GET")[-1].query["app"] == "/train"
    marathon.on("GET", "/v1/usage", {**FOUND, "usage": []})
    assert run("usage", "train").stdout == golden


def test_by_user_and_several_lines_have_a_total(marathon: ScriptedServer, run: Run) -> None:
    lines = [{"user": user, **TOTAL} for user in ("ann", "bob")]
    marathon.on("GET", "/v1/usage", {**FOUND, "by": "user", "usage": lines})
    assert [line.split()[0] for line in run("usage", "--by", "user").stdout.splitlines()] == [
        "USER",
        "ann",
        "bob",
        "TOTAL",
    ]


def test_a_marathon_of_mesospheres_is_said_to_keep_none(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("GET", "/v1/usage", Answer(404, {"message": "no"}))
    result = run("usage")
    assert result.exit_code == 1
    assert result.stderr == golden


def test_what_is_not_measured_is_said(marathon: ScriptedServer, run: Run) -> None:
    found = {**FOUND, "usage": [{**FOUND["usage"][0], **GENUINE}], "total": GENUINE, "notTold": ["g1 answered 401"]}  # type: ignore[index]
    assert len(untold(found)) == 2
    marathon.on("GET", "/v1/usage", found)
    result = run("usage", "train")
    assert "GPU Efficiency: ---" in result.stdout
    assert "g1 answered 401" in result.stderr
    shared = {**found, "total": {**GENUINE, "gpuHours": 0.0, "sharedGpuMemGiBHours": 6.0}}
    assert "Shared GPU Memory: 6.00 GiB-hours" in summary("/train", shared)


@pytest.mark.parametrize("since", ["yesterday", "7", "7y", ""])
def test_a_time_that_is_none_is_refused(marathon: ScriptedServer, run: Run, since: str) -> None:
    result = run("usage", "--since", since)
    assert result.exit_code != 0
    assert "is no time" in result.stderr


def test_times_are_written_as_slurm_does() -> None:
    assert [clock(0.5), clock(25.0)] == ["00:30:00", "1-01:00:00"]
