from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.marathon.definitions.app_schema import APP, JOB, POD
from mesos_gpu.marathon.definitions.document_schema import DocumentSchema, _validator
from mesos_gpu.marathon.definitions.schema_quick import fits
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.places import ROOT

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


CONVERTED = [
    (item["form"], item["document"])
    for path in sorted((ROOT / "tests" / "marathon_cli" / "convert" / "cases").glob("*.expected.json"))
    for item in json.loads(path.read_text())["documents"]
]
EXAMPLES = [("app", json.loads(path.read_text())) for path in sorted((ROOT / "examples").glob("*test.json"))]
GOOD = [*CONVERTED, *EXAMPLES]
SCHEMAS = {form: DocumentSchema(f"{form}.json") for form in ("app", "pod", "job")}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**33), 2**33),
    st.floats(),
    st.sampled_from(["", "x", "a\n", "MESOS", "RO", "disabled", "unlimited", "/a/b", "UPPER", "x" * 70]),
    st.just([]),
    st.just({}),
    st.lists(st.integers(-1, 70000), max_size=3),
    st.dictionaries(st.sampled_from(["id", "name", "secret", "value", "cpus"]), st.integers(-1, 3), max_size=2),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(place for key, item in items for place in places(item, (*path, key)))]


@pytest.mark.parametrize(("form", "document"), GOOD)
def test_what_people_write_gets_the_quick_yes(form: str, document: dict[str, Any]) -> None:
    schema = SCHEMAS[form]
    assert fits(schema.clean(document), schema.schema, schema.schema)


def test_what_is_filled_in_with_defaults_gets_it_too() -> None:
    for form, document in GOOD:
        schema = SCHEMAS[form]
        assert fits(schema.with_defaults(schema.clean(document)), schema.schema, schema.schema)


@settings(max_examples=examples(400))
@given(st.sampled_from(GOOD), st.data())
def test_it_says_yes_only_where_jsonschema_finds_nothing(good: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    form, original = good
    document = copy.deepcopy(original)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)))
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        if data.draw(st.booleans()):
            holder[path[-1]] = data.draw(VALUES)
        elif isinstance(holder, dict):
            del holder[path[-1]]
        if not document:
            break
    schema = SCHEMAS[form].schema
    if fits(document, schema, schema):
        assert list(_validator(f"{form}.json").iter_errors(document)) == []


def test_a_keyword_that_it_does_not_know_is_a_no() -> None:
    assert fits({"a": 1}, {"type": "object"}, {})
    assert not fits({"a": 1}, {"type": "object", "minProperties": 1}, {})
    assert not fits(1, {"if": {"minimum": 3}, "then": {"type": "string"}}, {})
    assert not fits(1, {"$ref": "elsewhere#/$defs/x"}, {})


def test_reading_an_app_without_mistakes_does_not_import_jsonschema() -> None:
    code = (
        "import sys; from mesos_gpu.marathon.definitions.app import read_app, AppRules; "
        "read_app({'id': 'a', 'cmd': 'x', 'gpus': 1}, AppRules()); print('jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
