"""What is to be said of jobs of which no run waits, and what a run asks for."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.why.of_jobs import request_of_run, run_document, without_wait
from mesos_gpu.marathon.why.verdict import role_of
from tests.support.golden import Golden

RUN = {"cmd": "./train", "cpus": 1, "mem": 128, "gpus": 2}


def active(*statuses: str) -> dict[str, Any]:
    return {"id": "1", "status": "ACTIVE", "tasks": [{"id": "t", "status": status} for status in statuses]}


def test_a_run_asks_for_what_its_job_says() -> None:
    placement = {"constraints": [{"attribute": "rack", "operator": "EQ", "value": "a"}]}
    job = {"id": "a.b", "run": {**RUN, "placement": placement, "gang": {"size": 2}}, "activeRuns": [], "history": {}}
    request = request_of_run(run_document(job, "ml"))
    spec = request.spec
    assert (request.id, spec.gpus, spec.instances, spec.gang_size, role_of(spec)) == ("a.b", 2, 2, 2, "ml")
    assert request.constraints == (("rack", "IS", "a"),)
    assert request.updated("gang.size=1", "instances=1") == "`mesos-gpu job update a.b run.gang.size=1`"


def test_what_no_job_could_be_is_refused() -> None:
    with pytest.raises(InvalidApp):
        run_document({"id": "a", "run": {"gpus": 0.5, "cmd": "true"}}, None)


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"activeRuns": [active("TASK_RUNNING")]}, "running"),
        ({"activeRuns": [active("TASK_FAILED"), active("TASK_RUNNING")]}, "starting"),
        ({"activeRuns": [active()]}, "starting"),
        ({}, "stopped"),
        ({"schedules": [{"nextRunAt": "2030"}, {"nextRunAt": "2029"}]}, "stopped"),
        ({"historySummary": {"lastFailureAt": "2", "lastSuccessAt": "1"}}, "stopped"),
    ],
)
def test_a_job_of_which_no_run_waits(more: dict[str, Any], state: str, golden: Golden) -> None:
    found = without_wait({"id": "train", "run": RUN, **more})
    assert found.state == state
    assert found.headline == golden
    assert found.remedies


def test_a_failed_run_is_to_be_looked_at_first(golden: Golden) -> None:
    failed = without_wait({"id": "train", "historySummary": {"lastFailureAt": "2", "lastSuccessAt": "1"}})
    assert failed.remedies[0].startswith("`mesos-gpu task log train`")
    well = without_wait({"id": "t", "historySummary": {"lastFailureAt": "1", "lastSuccessAt": "2"}})
    assert well.headline == golden
