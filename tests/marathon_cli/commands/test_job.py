"""`mesos-gpu job ...` against a scripted Metronome."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer

Write = Callable[[Any], str]
NIGHTLY = {"id": "nightly", "cron": "0 3 * * *", "timezone": "UTC", "enabled": True}
JOB: dict[str, Any] = {"id": "train", "run": {"cmd": "python train.py", "cpus": 1, "mem": 64, "gpus": 2}}
OK = {"id": "r1", "createdAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T01:00:00Z", "tasks": ["t"]}
BAD = {"id": "r2", "createdAt": "2026-01-02T00:00:00Z", "finishedAt": "2026-01-02T01:00:00Z", "tasks": []}
SHOWN = {
    **JOB,
    "activeRuns": [{"id": "r3", "status": "ACTIVE", "createdAt": "2026-01-03T00:00:00Z"}],
    "schedules": [{**NIGHTLY, "nextRunAt": "2026-01-04T03:00:00Z"}],
    "historySummary": {
        "successCount": 1,
        "failureCount": 1,
        "lastSuccessAt": "2026-01-01",
        "lastFailureAt": "2026-01-02",
    },
    "history": {"successfulFinishedRuns": [OK], "failedFinishedRuns": [BAD]},
}


@pytest.fixture
def metronome(marathon: ScriptedServer) -> ScriptedServer:
    marathon.on("GET", "/v1/jobs", Answer(200, [SHOWN]))
    marathon.on("GET", "/v1/jobs/train", SHOWN)
    marathon.on("POST", "/v1/jobs", lambda request: Answer(201, request.body))
    marathon.on("PUT", "/v1/jobs/train", lambda request: Answer(200, request.body))
    marathon.on("GET", "/v1/jobs/train/schedules", Answer(200, SHOWN["schedules"]))
    marathon.on("POST", "/v1/jobs/train/schedules", lambda request: Answer(201, request.body))
    return marathon


def test_a_job_is_checked_and_added_with_its_schedules(
    metronome: ScriptedServer, run: Run, app_file: Write, golden: Golden
) -> None:
    result = run("job", "add", app_file({**JOB, "schedules": [NIGHTLY]}))
    assert result.stdout == golden, result.stderr
    assert [request.body for request in metronome.sent("POST")] == [JOB, NIGHTLY]
    bad = run("job", "add", app_file({"id": "train", "cmd": "x", "run": {"cmd": "x", "gpus": 0.5}}))
    assert bad.stderr == golden
    assert run("job", "add", app_file(JOB), "--dry-run").stdout == golden
    assert len(metronome.sent("POST")) == 2


def test_a_job_whose_schedule_is_refused_does_not_stay(metronome: ScriptedServer, run: Run, app_file: Write) -> None:
    metronome.on("POST", "/v1/jobs/train/schedules", Answer(422, {"message": "cron: not valid"}))
    metronome.on("DELETE", "/v1/jobs/train", Answer(200, {}))
    result = run("job", "add", app_file({**JOB, "schedules": [NIGHTLY]}))
    assert (result.exit_code, "cron: not valid" in result.stderr) == (1, True)
    assert len(metronome.sent("DELETE")) == 1


def test_jobs_are_listed_with_what_they_do(metronome: ScriptedServer, run: Run, golden: Golden) -> None:
    row = run("job", "list").stdout.splitlines()[1].split()
    assert row[:6] == ["train", "2", "running", "(1)", "failed", "0/1"]
    assert row[6] == row[7]  # the run continues: it has taken as long as it is ago that it began
    assert row[8:] == ["2026-01-04T03:00:00Z", "1", "1", "---"]
    assert run("job", "list", "train", "-q").stdout == "train\n"
    assert json.loads(run("job", "show", "train").stdout)["run"]["gpus"] == 2
    assert run("job", "show", "trian").stderr == golden


def test_history_has_runs_that_go_on_first_then_the_latest(metronome: ScriptedServer, run: Run) -> None:
    rows = [line.split()[:2] for line in run("job", "history", "train").stdout.splitlines()[1:]]
    assert rows == [["r3", "ACTIVE"], ["r2", "FAILED"], ["r1", "SUCCESS"]]


@pytest.mark.parametrize(
    ("ends", "status"), [({"successfulFinishedRuns": [{"id": "r9"}]}, 0), ({"failedFinishedRuns": [{"id": "r9"}]}, 1)]
)
def test_a_run_is_waited_for_and_its_outcome_is_the_exit_status(
    metronome: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch, ends: dict[str, Any], status: int
) -> None:
    metronome.on("POST", "/v1/jobs/train/runs", Answer(201, {"id": "r9", "status": "INITIAL"}))
    going = {**JOB, "activeRuns": [{"id": "r9", "status": "ACTIVE"}]}
    ended = {**JOB, "activeRuns": [], "history": ends}
    metronome.on("GET", "/v1/jobs/train", [Answer(200, JOB), Answer(200, going), Answer(200, ended)])
    monkeypatch.setattr("marathon_cli.commands.job.PAUSE_S", 0)
    result = run("job", "run", "train", "--wait")
    assert result.exit_code == status
    assert result.stdout == "Started run r9 of train\n"
    word = "failed" if status else "success"
    assert result.stderr.splitlines() == ["train r9: active", f"train r9: {word}"]


def test_a_run_that_takes_too_long_goes_on(metronome: ScriptedServer, run: Run, golden: Golden) -> None:
    metronome.on("POST", "/v1/jobs/train/runs", Answer(201, {"id": "r3"}))
    result = run("job", "run", "train", "--wait", "--timeout", "0.001")
    assert (result.exit_code, result.stderr) == (4, golden)


def test_runs_are_killed(metronome: ScriptedServer, run: Run, golden: Golden) -> None:
    metronome.on("POST", "/v1/jobs/train/runs/r3/actions/stop", Answer(200, b""))
    assert run("job", "kill", "train").stdout == golden
    assert run("job", "kill", "train", "--all", "-q").stdout == "r3\n"
    metronome.on("GET", "/v1/jobs/train", JOB)
    assert run("job", "kill", "train").stderr == golden


def test_a_job_is_changed_without_its_schedules_and_history(metronome: ScriptedServer, run: Run) -> None:
    result = run("job", "update", "train", "run.gpus=3", "run.env.MODE=1", "--diff")
    assert result.exit_code == 0, result.stderr
    assert "+  gpus: 3" in result.stderr
    assert metronome.sent("PUT")[0].body == {**JOB, "run": {**JOB["run"], "gpus": 3, "env": {"MODE": "1"}}}


def test_a_job_that_runs_is_removed_only_with_its_runs(metronome: ScriptedServer, run: Run, golden: Golden) -> None:
    metronome.on("DELETE", "/v1/jobs/train", [Answer(409, {"message": "There are active job runs."}), Answer(200, {})])
    assert run("job", "remove", "train").stderr == golden
    assert run("job", "remove", "train", "--stop-runs").stdout == golden
    words = "There are jobs with a dependency on train. children=[report]"
    metronome.on("DELETE", "/v1/jobs/train", [Answer(409, {"message": words})])
    refused = run("job", "remove", "train")
    assert (refused.exit_code, words in refused.stderr, "--stop-runs" in refused.stderr) == (1, True, False)
    assert [request.query["stopCurrentJobRuns"] for request in metronome.sent("DELETE")] == ["false", "true", "false"]


def test_schedules_come_change_and_go(metronome: ScriptedServer, run: Run, app_file: Write, golden: Golden) -> None:
    row = run("job", "schedule", "list", "train").stdout.splitlines()[1]
    assert row.split() == ["nightly", "0", "3", "*", "*", "*", "UTC", "true", "2026-01-04T03:00:00Z", "ALLOW", "---"]
    assert run("job", "schedule", "add", "train", "--cron", "5 4 * * *", "--timezone", "Europe/Berlin").exit_code == 0
    assert run("job", "schedule", "add", "train", app_file(NIGHTLY)).exit_code == 0
    cron = {"id": "default", "cron": "5 4 * * *", "timezone": "Europe/Berlin"}
    assert [request.body for request in metronome.sent("POST")] == [cron, NIGHTLY]
    metronome.on("PUT", "/v1/jobs/train/schedules/nightly", lambda request: Answer(200, request.body))
    assert run("job", "schedule", "update", "train", "nightly", "cron=1 1 * * *", "enabled=false").exit_code == 0
    assert metronome.sent("PUT")[0].body == {**NIGHTLY, "cron": "1 1 * * *", "enabled": False}
    assert run("job", "schedule", "remove", "train", "nightyl").stderr == golden
    metronome.on("DELETE", "/v1/jobs/train/schedules/nightly", Answer(200, b""))
    assert run("job", "schedule", "remove", "train", "nightly").exit_code == 0
    assert run("job", "schedule", "add", "train").exit_code == 2


def test_a_marathon_that_knows_no_jobs_is_said_to(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    marathon.on("GET", "/v1/jobs", Answer(500, {"message": "URI not found"}))
    result = run("job", "list")
    assert (result.exit_code, result.stderr) == (1, golden)
