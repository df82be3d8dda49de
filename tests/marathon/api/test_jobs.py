"""/v1/jobs over HTTP, in Metronome's shape."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.state.actions import Kill, Launch
from mesos_gpu.marathon.state.events import Tick
from tests.support.golden import Golden
from tests.support.marathon.builders import job, offer, schedule
from tests.support.marathon.service import Marathon


async def history(marathon: Marathon, job_id: str = "j") -> dict[str, Any]:
    return (await marathon.get(f"/v1/jobs/{job_id}?embed=history"))["history"]  # type: ignore[no-any-return]


async def test_a_job_from_its_creation_to_its_end(marathon: Marathon) -> None:
    created = await marathon.call("POST", "/v1/jobs", {**job(gpus=1), "description": "d", "labels": {"a": "b"}})
    assert created.status == 201
    assert created.body["run"]["restart"] == {"policy": "NEVER"}
    assert (created.body["id"], created.body["run"]["gpus"], created.body["labels"]) == ("j", 1, {"a": "b"})
    assert created.body["schedules"] == []
    assert (await marathon.call("POST", "/v1/jobs", job())).status == 409

    run = await marathon.call("POST", "/v1/jobs/j/runs", {})
    assert run.status == 201
    assert (run.body["jobId"], run.body["status"], run.body["completedAt"]) == ("j", "INITIAL", None)
    run_id = run.body["id"]
    assert await marathon.get("/v1/queue") == [{"jobId": "j", "runs": [{"runId": run_id}]}]
    (task,) = await marathon.launched(gpus=1)
    assert task.startswith(f"j_{run_id}.instance-")
    assert (await marathon.get(f"/v1/jobs/j/runs/{run_id}"))["status"] == "STARTING"
    await marathon.say(task)
    (active,) = await marathon.get("/v1/jobs/j/runs")
    assert (active["status"], active["tasks"][0]["id"], active["tasks"][0]["status"]) == (
        "ACTIVE",
        task,
        "TASK_RUNNING",
    )
    assert (await marathon.get("/v2/tasks"))["tasks"] == [], "Marathon's clients know nothing of runs"
    assert (await marathon.get("/v2/apps"))["apps"] == []
    assert (await marathon.get("/v2/groups"))["groups"] == []
    assert (await marathon.call("DELETE", "/v1/jobs/j")).status == 409
    await marathon.say(task, "TASK_FINISHED")
    assert await marathon.get("/v1/jobs/j/runs") == []
    assert (await marathon.call("GET", f"/v1/jobs/j/runs/{run_id}")).status == 404
    shown = await history(marathon)
    assert (shown["successCount"], shown["failureCount"], shown["lastFailureAt"]) == (1, 0, None)
    assert [finished["id"] for finished in shown["successfulFinishedRuns"]] == [run_id]
    assert shown["successfulFinishedRuns"][0]["tasks"] == [task]
    assert (await marathon.call("DELETE", "/v1/jobs/j")).status == 200
    assert await marathon.get("/v1/jobs") == []


async def test_a_run_and_a_job_with_runs_can_be_ended(marathon: Marathon) -> None:
    await marathon.call("POST", "/v1/jobs", job())
    tasks = []
    for _ in range(2):
        run = await marathon.call("POST", "/v1/jobs/j/runs")
        tasks += await marathon.launched()
        await marathon.say(tasks[-1])
    stopped = await marathon.call("POST", f"/v1/jobs/j/runs/{run.body['id']}/actions/stop")
    assert (stopped.status, stopped.body["status"]) == (200, "FAILED")
    assert (await marathon.link.next(Kill)).task_id == tasks[1]
    assert (await history(marathon))["failureCount"] == 1
    killed = await marathon.call("POST", "/v2/tasks/delete?scale=true", {"ids": [tasks[0]]})
    assert killed.status == 200
    assert len(await marathon.get("/v1/jobs/j/runs")) == 1, "runs are stopped where they are shown"
    assert (await marathon.call("DELETE", "/v1/jobs/j?stopCurrentJobRuns=true")).status == 200
    assert (await marathon.link.next(Kill)).task_id == tasks[0]
    for task in tasks:
        await marathon.say(task, "TASK_KILLED")
    assert marathon.scheduler.state.lasting.instances == {}


async def test_jobs_and_runs_outlive_the_scheduler_and_nothing_starts_twice(marathon: Marathon) -> None:
    await marathon.call("POST", "/v1/jobs", {**job(), "schedules": [schedule(cron="0 0 1 1 *")]})
    await marathon.call("POST", "/v1/jobs/j/runs")
    (task,) = await marathon.launched()
    await marathon.say(task)
    before = await marathon.get("/v0/scheduled-jobs")
    await marathon.restart()
    assert await marathon.get("/v0/scheduled-jobs") == before
    marathon.link.offer(offer())
    await marathon.settled()
    assert not [call for call in marathon.link.calls if isinstance(call, Launch)]
    await marathon.say(task, "TASK_FINISHED")
    await marathon.restart()
    assert (await history(marathon))["successCount"] == 1
    marathon.link.offer(offer())
    await marathon.settled()
    assert not [call for call in marathon.link.calls if isinstance(call, Launch)]


async def test_schedules_are_created_changed_and_carried_out(marathon: Marathon) -> None:
    await marathon.call("POST", "/v1/jobs", job())
    created = await marathon.call("POST", "/v1/jobs/j/schedules", schedule(cron="*/5 * * * *"))
    assert created.status == 201
    assert (created.body["timezone"], created.body["startingDeadlineSeconds"]) == ("UTC", 900)
    assert created.body["nextRunAt"] == "2023-11-14T22:15:00.000+0000"
    assert (await marathon.call("POST", "/v1/jobs/j/schedules", schedule())).status == 409
    changed = schedule(cron="*/5 * * * *", timeZone="Asia/Kolkata", concurrencyPolicy="FORBID")
    answer = await marathon.call("PUT", "/v1/jobs/j/schedules/s", changed)
    assert (answer.status, answer.body["timezone"]) == (200, "Asia/Kolkata")
    assert await marathon.get("/v1/jobs/j/schedules") == [answer.body]
    marathon.clock.now_s += 300
    await marathon.scheduler.ask(Tick())
    (run,) = await marathon.get("/v1/jobs/j/runs")
    assert run["id"].startswith("20231114221820"), run["id"]
    (task,) = await marathon.launched()
    await marathon.say(task, "TASK_FAILED")
    shown = await marathon.get("/v1/jobs/j?embed=historySummary&embed=schedules&embed=activeRuns")
    assert shown["historySummary"]["failureCount"] == 1
    assert shown["activeRuns"] == []
    assert shown["schedules"][0]["nextRunAt"] == "2023-11-14T22:20:00.000+0000"
    assert (await marathon.call("PUT", "/v1/jobs/j", job(cmd="false"))).status == 200
    assert len(await marathon.get("/v1/jobs/j/schedules")) == 1, "they stay"
    assert (await marathon.call("PUT", "/v0/scheduled-jobs/j", job(cmd="false"))).body["schedules"] == []
    await marathon.call("POST", "/v1/jobs/j/schedules", schedule())
    assert (await marathon.call("DELETE", "/v1/jobs/j/schedules/s")).status == 200
    assert await marathon.get("/v1/jobs/j/schedules") == []


async def test_what_is_not_there_is_named_as_metronome_names_it(marathon: Marathon, golden: Golden) -> None:
    await marathon.call("POST", "/v1/jobs", job())
    for method, path, named in (
        ("GET", "/v1/jobs/x", {"id": "x"}),
        ("GET", "/v1/jobs/j/schedules/x", {"id": "x"}),
        ("DELETE", "/v1/jobs/j/schedules/x", {"id": "x"}),
        ("POST", "/v1/jobs/j/runs/x/actions/stop", {"jobSpec": "j", "id": "x"}),
    ):
        body = (await marathon.call(method, path, None)).body
        assert {key: value for key, value in body.items() if key != "message"} == named
        assert body["message"] == golden


async def test_what_defines_a_job_is_shown_when_it_is_changed_and_removed(marathon: Marathon) -> None:
    await marathon.call("POST", "/v1/jobs", {**job(), "schedules": [schedule()]})
    for answer in (await marathon.call("PUT", "/v1/jobs/j", job()), await marathon.call("DELETE", "/v1/jobs/j", None)):
        assert [one["id"] for one in answer.body["schedules"]] == ["s"]
        assert "activeRuns" not in answer.body


async def test_an_unknown_part_to_embed_is_refused(marathon: Marathon, golden: Golden) -> None:
    answer = await marathon.call("GET", "/v1/jobs?embed=schedules,tasks", None)
    assert answer.status == 400
    assert answer.body["message"] == golden


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("GET", "/v1/jobs/x", None, 404),
        ("PUT", "/v1/jobs/x", job("x"), 404),
        ("DELETE", "/v1/jobs/x", None, 404),
        ("POST", "/v1/jobs/x/runs", None, 404),
        ("GET", "/v1/jobs/j/runs/x", None, 404),
        ("POST", "/v1/jobs/j/runs/x/actions/stop", None, 404),
        ("GET", "/v1/jobs/j/schedules/x", None, 404),
        ("PUT", "/v1/jobs/j/schedules/x", schedule("x"), 404),
        ("DELETE", "/v1/jobs/j/schedules/x", None, 404),
        ("PUT", "/v1/jobs/j", job("k"), 400),
        ("POST", "/v1/jobs", {"id": "x"}, 422),
        ("POST", "/v1/jobs", {**job("x"), "extra": 1}, 422),
        ("POST", "/v1/jobs", [], 400),
        ("POST", "/v1/jobs/j/schedules", {"id": "s"}, 422),
        ("POST", "/v1/jobs/j/schedules", schedule(cron="* *"), 422),
    ],
)
async def test_what_does_not_go(marathon: Marathon, method: str, path: str, document: Any, status: int) -> None:
    await marathon.call("POST", "/v1/jobs", job())
    answer = await marathon.call(method, path, document)
    assert answer.status == status, answer
    assert [shown["id"] for shown in await marathon.get("/v1/jobs")] == ["j"]
