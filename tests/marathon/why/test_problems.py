"""What is wrong with a document, whoever asks."""

from __future__ import annotations

import pytest

from mesos_gpu.marathon.definitions.app import AppRules
from mesos_gpu.marathon.why.problems import app_problems, job_problems, pod_problems
from tests.support.golden import Golden

RULES = AppRules()


def test_a_key_that_marathon_would_leave_out_is_said_beside_a_value_that_it_refuses(golden: Golden) -> None:
    found = {problem.path: problem for problem in app_problems({"id": "/a", "cmd": "x", "gpus": 0.5, "gpu": 1}, RULES)}
    assert found["/gpus"].suggestion == golden
    assert found["/gpu"].suggestion == golden


@pytest.mark.parametrize("document", [None, [], "x", {}])
def test_what_is_no_definition_is_refused_in_words(document: object) -> None:
    for problems in (app_problems(document, RULES), pod_problems(document, RULES), job_problems(document)):
        assert problems
        assert all(problem.message for problem in problems)


def test_what_is_fine_has_no_problem() -> None:
    resources = {"cpus": 0.1, "mem": 32}
    container = {"name": "c", "exec": {"command": {"shell": "x"}}, "resources": resources}
    assert app_problems({"id": "/a", "cmd": "x"}, RULES) == []
    assert pod_problems({"id": "/p", "containers": [container]}, RULES) == []
    assert job_problems({"id": "j", "run": {"cmd": "x", "mem": 32, "cpus": 0.1, "disk": 0}}) == []
    assert [one.path for one in pod_problems({"id": "/p", "containers": [container], "kind": 1}, RULES)] == ["/kind"]
