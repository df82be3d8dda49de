"""What comes back at the next `up` is what Marathon says that it continues with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesos_gpu.local.returning import named, what_runs
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, ScriptedServer, scripted_server


@pytest.fixture
def marathon() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


def test_apps_and_pods_with_instances_and_jobs_with_schedules_come_back(marathon: ScriptedServer) -> None:
    marathon.on("GET", "/v2/apps", {"apps": [{"id": "/a", "instances": 2}, {"id": "/b", "instances": 0}]})
    marathon.on("GET", "/v2/pods", Answer(200, [{"id": "/p"}, {"id": "/q", "scaling": {"instances": 0}}]))
    jobs = [{"id": "j", "schedules": [{"enabled": True}]}, {"id": "k", "schedules": [{"enabled": False}]}, {"id": "l"}]
    marathon.on("GET", "/v1/jobs", Answer(200, jobs))
    assert what_runs(marathon.url, None) == ["/a", "pod /p", "job j"]


def test_a_marathon_that_does_not_answer_as_one_has_nothing_to_tell(marathon: ScriptedServer) -> None:
    marathon.on("GET", "/v2/apps", Answer(401, {"message": "who?"}))
    marathon.on("GET", "/v2/pods", Answer(200, {"no": "list"}))
    marathon.on("GET", "/v1/jobs", Answer(200, b"no JSON"))
    assert what_runs(marathon.url, ("box", "secret")) == []
    assert what_runs("http://127.0.0.1:1", None) == []


def test_few_names_are_told_and_how_many_more_there_are(golden: Golden) -> None:
    assert named(["/a", "/b"]) == "/a, /b"
    assert named([f"/{n}" for n in range(7)]) == golden
