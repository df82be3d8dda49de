from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.definitions.app_schema import APP, JOB, POD
from mesos_gpu.marathon.definitions.document_schema import DocumentSchema
from tests.support.golden import Golden

UNKNOWN = [
    ({"gpu": 1}, "/gpu"),
    ({"cpu": 2}, "/cpu"),
    ({"GPUS": 2}, "/GPUS"),
    ({"memory": 64}, "/memory"),
    ({"image": "i"}, "/image"),
    ({"forcePullImage": True}, "/forcePullImage"),
    ({"container": {"docker": {"img": 1}}}, "/container/docker/img"),
    ({"healthChecks": [{"protocoll": "TCP"}]}, "/healthChecks(0)/protocoll"),
]


@pytest.mark.parametrize(("document", "path"), UNKNOWN)
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    document: dict[str, Any], path: str, golden: Golden
) -> None:
    (problem,) = APP.unknown_keys(document)
    assert (problem.path, problem.suggestion) == (path, golden)


def test_an_unknown_key_that_is_near_no_other_comes_without_advice() -> None:
    (problem,) = APP.unknown_keys({"xyzzy": 1})
    assert (problem.path, problem.suggestion) == ("/xyzzy", None)


@pytest.mark.parametrize(
    "document", [{"env": {"ANY": "x"}, "labels": {"any": "x"}}, {"tasksRunning": 1}, {"gpus": None}]
)
def test_free_maps_and_keys_of_the_server_are_known(document: dict[str, Any]) -> None:
    assert APP.unknown_keys(document) == []


def test_cleaning_takes_out_what_marathon_overlooks() -> None:
    document = {"gpus": 2.0, "cpu": 1, "user": None, "killSelection": "oldest_first", "env": {"A": None}}
    assert APP.clean(document) == {"gpus": 2, "killSelection": "OLDEST_FIRST", "env": {"A": None}}


def test_a_wrong_value_keeps_its_type_until_it_is_refused() -> None:
    assert APP.clean({"container": "x"}) == {"container": "x"}
    assert [problem.path for problem in APP.shape_problems({"id": "a", "container": "x"})] == ["/container"]


def test_defaults_reach_into_lists_and_references() -> None:
    filled = APP.with_defaults({"portDefinitions": [{}], "healthChecks": [{}]})
    assert filled["portDefinitions"] == [{"port": 0, "protocol": "tcp", "labels": {}}]
    assert filled["healthChecks"][0]["gracePeriodSeconds"] == 300


def test_defaults_are_not_shared_between_apps() -> None:
    APP.with_defaults({})["labels"]["x"] = "y"
    assert APP.with_defaults({})["labels"] == {}


def test_a_free_object_may_be_as_deep_as_it_likes() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"x": deep}
    document = {"id": "a", "residency": deep, "unknown": deep}
    assert APP.clean(document)["residency"] is deep
    assert APP.with_defaults(APP.clean(document))["residency"] is deep
    assert [problem.path for problem in APP.unknown_keys(document)] == ["/unknown"]


@pytest.mark.parametrize(
    "document",
    [
        {"cpus": "1.5"},
        {"labels": {"n": 1}},
        {"requirePorts": "true"},
        {"args": "ls"},
        {"gpus": 1.5},
        {"killSelection": "YOUNGEST"},
    ],
)
def test_a_wrong_value_comes_with_advice(document: dict[str, Any], golden: Golden) -> None:
    (problem,) = APP.shape_problems({"id": "a", **document})
    assert problem.suggestion == golden


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (APP, {"id": "a", "gpus": 0.5}),
        (POD, {"id": "a", "containers": [{"name": "c", "resources": {"cpus": 1, "mem": 32, "gpus": 0.5}}]}),
        (JOB, {"id": "a", "run": {"cpus": 1, "mem": 32, "disk": 0, "gpus": 0.5}}),
    ],
)
def test_half_a_gpu_is_refused_with_the_ways_to_share_one(schema: DocumentSchema, document: dict[str, Any]) -> None:
    (problem,) = schema.shape_problems(document)
    assert problem.path.endswith("/gpus")
    assert problem.suggestion is not None
    assert {"`gpuShare`", "--gpu-mem`"} <= set(problem.suggestion.split())
