from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.commands.app import APP
from marathon_cli.commands.group import GROUP as GROUPS
from marathon_cli.document.check import Source, parse, read_source, report
from marathon_cli.document.yaml_text import read_yaml, write_yaml
from mesos_gpu.errors import BadInput, Problem, Unavailable
from mesos_gpu.marathon.definitions.app import AppRules
from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, scripted_server


def refused(text: str, rules: AppRules | None = None) -> str:
    source = Source("app.json", text)
    with pytest.raises(BadInput) as caught:
        APP.check(source, parse(source), rules or AppRules())
    return str(caught.value)


def not_json(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse(Source("app.json", text))
    return str(caught.value)


def test_bad_json_is_shown_with_line_column_and_a_mark() -> None:
    said = not_json('{\n  "cpus": 1 "mem": 2\n}')
    assert said.splitlines() == [
        "app.json:2:13: not JSON: Expecting ',' delimiter",
        '      "cpus": 1 "mem": 2',
        "                ^",
    ]


def test_the_mark_stands_under_the_character_also_after_tabs_and_in_long_lines() -> None:
    _, line, mark = not_json("{\t\t!}").splitlines()
    assert mark.expandtabs().index("^") == line.expandtabs().index("!")
    _, line, mark = not_json('{"a": "' + "x" * 5000 + '" !}').splitlines()
    assert len(line) < 120
    assert line[mark.index("^")] == "!"


@pytest.mark.parametrize(
    ("text", "place"),
    [('{"a": [1, 2,\n]}', "1:12"), ('{"a": 1,\n  "b": 2 ,}', "2:10"), ('{"a": {"b": "},"},\n\n}', "1:18")],
)
def test_a_comma_too_many_is_pointed_at(text: str, place: str, golden: Golden) -> None:
    assert not_json(text).splitlines()[0] == golden


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_called_empty(text: str) -> None:
    assert "is empty" in not_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_know_are_refused_at_their_place(number: str) -> None:
    assert not_json(f'{{"id": "NaN",\n "cpus": {number}}}').startswith(f"app.json:2:10: not JSON: {number}")


def test_nesting_beyond_measure_is_refused(golden: Golden) -> None:
    assert not_json("[" * 200_000) == golden


def test_a_number_of_thousands_of_digits_is_refused(golden: Golden) -> None:
    assert not_json('{"cpus": ' + "1" * 6000 + "}") == golden


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_source(str(tmp_path / "nowhere.json"))
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        read_source(str(tmp_path))
    assert str(refused.value) == golden
    (tmp_path / "latin").write_bytes(b'{\n"id": "\xe9"}')
    with pytest.raises(BadInput) as refused:
        read_source(str(tmp_path / "latin"))
    assert str(refused.value) == golden


def test_a_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "app.json").write_bytes(b'\xef\xbb\xbf{"id": "a"}')
    assert parse(read_source(str(tmp_path / "app.json"))) == {"id": "a"}


def test_every_problem_is_listed_in_the_files_order_with_its_line(golden: Golden) -> None:
    said = refused('{\n  "id": "a",\n  "cmd": "x",\n  "gpu": 1,\n  "cpus": "2",\n  "gpus": 0.5\n}')
    assert said.splitlines() == golden


def test_gpus_in_a_docker_container_point_at_the_container(golden: Golden) -> None:
    said = refused('{"id": "a", "gpus": 1,\n "container": {"docker": {"image": "i"}}}')
    assert said == golden


def test_a_key_that_is_there_twice_is_refused(golden: Golden) -> None:
    said = refused('{"id": "a", "cmd": "x", "gpus": 1,\n "gpus": 2}')
    assert said == golden


def test_a_document_that_is_no_object_is_refused(golden: Golden) -> None:
    assert refused("[1]") == golden


def test_a_good_app_comes_back_canonical() -> None:
    source = Source("app.json", '{"id": "a", "cmd": "x", "gpus": 1}')
    APP.check(source, parse(source), AppRules())
    assert APP.with_defaults(parse(source), AppRules())["id"] == "/a"


def test_one_problem_is_not_called_problems(golden: Golden) -> None:
    problem: Any = Problem("/x", "c", "m")
    assert report(Source("f", "{}"), [problem, problem]).splitlines()[0] == golden


YAML = """\
# a comment
id: train
cmd: |
  nvidia-smi
  sleep 5
gpus: 2
env: {MODE: "yes", COUNTRY: "NO"}
constraints:
  - [gpu_model, LIKE, NVIDIA-H200.*]
"""


def test_an_app_in_yaml_is_the_same_app() -> None:
    source = Source("app.yaml", YAML)
    APP.check(source, parse(source), AppRules())
    app = APP.with_defaults(parse(source), AppRules())
    assert (app["id"], app["gpus"], app["cmd"]) == ("/train", 2, "nvidia-smi\nsleep 5\n")
    assert app["env"] == {"MODE": "yes", "COUNTRY": "NO"}
    assert app["constraints"] == [["gpu_model", "LIKE", "NVIDIA-H200.*"]]


def test_what_is_wrong_with_yaml_has_its_line_and_column(golden: Golden) -> None:
    text = YAML.replace("gpus: 2", "gpus: 0.5\ngpuz: 1").replace('"NO"', "NO, PORT: 80") + "id: again\n"
    source = Source("app.yaml", text)
    with pytest.raises(BadInput) as caught:
        APP.check(source, parse(source), AppRules())
    said = str(caught.value)
    assert said == golden
    assert "app.yaml:6:1: /gpus: " in said
    assert said == golden
    assert "app.yaml:8:33: /env/PORT: " in said
    assert said == golden


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2",
        "a: 1\nb: 2\n c: 3",
        "a: 1\n---\nb: 2",
        "80: x",
        "? [a]\n: x",
        "a: !!binary aGk=",
        "a: .nan",
        "a: *b",
        "a: \tx\x07",
    ],
)
def test_yaml_that_is_none_or_no_json_is_pointed_at(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as caught:
        parse(Source("f.yaml", text))
    assert str(caught.value) == golden


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "[yes, on, NO, y, 1:30, 2001-01-01, 1_000, 0b1]",
            ["yes", "on", "NO", "y", "1:30", "2001-01-01", "1_000", "0b1"],
        ),
        (
            "[true, False, ~, null, '', 012, 0x1f, 0o17, 1e3, .5, -3, +4]",
            [True, False, None, None, "", 12, 31, 15, 1000.0, 0.5, -3, 4],
        ),
        ("a: &x {b: 1}\nc: *x\nd: {<<: *x, b: 2, e: 3}", {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 2, "e": 3}}),
        ("", None),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    assert read_yaml(text)[0] == value


def test_aliases_of_aliases_do_not_fill_the_memory(golden: Golden) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(BadInput) as refused:
        read_yaml("\n".join(lines))
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        read_yaml("[" * 5000)
    assert str(refused.value) == golden


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_what_is_printed_as_yaml_reads_back(value: object) -> None:
    text = write_yaml(value)
    assert read_yaml(text)[0] == value
    assert yaml.safe_load(text) == value


def test_standard_input_is_yaml_unless_it_begins_as_json() -> None:
    assert parse(Source("standard input", "id: a")) == {"id": "a"}
    assert parse(Source("standard input", ' {"id": "a"}')) == {"id": "a"}
    assert "not JSON" in not_json("id: a")


GROUP = {"id": "prod", "apps": [{"id": "db", "cmd": "x"}], "groups": [{"id": "web", "apps": [{"id": "a", "cmd": "x"}]}]}


def test_every_app_of_a_group_is_checked_and_named(golden: Golden) -> None:
    text = (
        json.dumps(GROUP).replace('"db"', '"db", "gpuz": 1').replace('"cmd": "x"}]}]}', '"gpus": 0.5}], "app": []}]}')
    )
    source = Source("group.json", text)
    with pytest.raises(BadInput) as caught:
        GROUPS.check(source, parse(source), AppRules())
    lines = str(caught.value).splitlines()
    assert lines[0] == golden
    assert lines[1] == golden
    assert lines[3] == golden
    assert lines[5] == golden
    GROUPS.check(Source("g", json.dumps(GROUP)), GROUP, AppRules())


def test_every_pod_of_a_group_is_checked_and_named(golden: Golden) -> None:
    pod = {"id": "pair", "containers": [{"name": "a", "resources": {"cpus": 1, "mem": 32, "gpuz": 1}}]}
    document = {"id": "prod", "pods": [pod]}
    with pytest.raises(BadInput) as caught:
        GROUPS.check(Source("g.json", json.dumps(document)), document, AppRules())
    assert str(caught.value) == golden


@pytest.mark.parametrize("document", [[], "x", {"id": "g", "apps": {}}, {"id": "g", "groups": [1]}, {"id": "G"}])
def test_what_is_no_group_is_refused(document: Any) -> None:
    source = Source("g.json", json.dumps(document))
    with pytest.raises(BadInput):
        GROUPS.check(source, document, AppRules())


def test_a_definition_at_a_url_is_fetched_and_redirects_are_followed() -> None:
    with scripted_server() as server:
        server.on("GET", "/apps/a.yaml", Answer(200, b"id: a\n"))
        server.on("GET", "/latest", Answer(302, b"", {"Location": "/apps/a.yaml"}))
        url = server.url.replace("://", "://ann:secret@")
        assert read_source(f"{url}/latest?version=2").text == "id: a\n"
        first = server.requests[0]
        assert (first.path, first.query) == ("/latest", {"version": "2"})
        assert first.headers["Authorization"].startswith("Basic ")


def test_a_url_that_has_no_definition_is_refused() -> None:
    with scripted_server() as server:
        server.on("GET", "/bytes", Answer(200, b"\xff\xfe"))
        for path in ("/none", "/bytes"):
            with pytest.raises(BadInput, match=path):
                read_source(server.url + path)
        gone = server.url
    with pytest.raises(Unavailable, match=r"/a\.json"):
        read_source(f"{gone}/a.json")
