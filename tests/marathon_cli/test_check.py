from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marathon_cli.check import Source, check_app, parse, read_source, report
from mesos_gpu.errors import BadInput, Problem
from mesos_gpu.marathon.app import AppRules


def refused(text: str, rules: AppRules | None = None) -> str:
    source = Source("app.json", text)
    with pytest.raises(BadInput) as caught:
        check_app(source, parse(source), rules or AppRules())
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


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_called_empty(text: str) -> None:
    assert "is empty" in not_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_know_are_refused_at_their_place(number: str) -> None:
    assert not_json(f'{{"id": "NaN",\n "cpus": {number}}}').startswith(f"app.json:2:10: not JSON: {number}")


def test_nesting_beyond_measure_is_refused() -> None:
    assert "nested too deeply" in not_json("[" * 200_000)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    assert "not JSON that can be read" in not_json('{"cpus": ' + "1" * 6000 + "}")


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_source(str(tmp_path / "nowhere.json"))
    with pytest.raises(BadInput, match="cannot be read: Is a directory"):
        read_source(str(tmp_path))
    (tmp_path / "latin").write_bytes(b'{\n"id": "\xe9"}')
    with pytest.raises(BadInput, match=r"latin:2: not UTF-8 text \(byte 0xe9\)"):
        read_source(str(tmp_path / "latin"))


def test_a_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "app.json").write_bytes(b'\xef\xbb\xbf{"id": "a"}')
    assert parse(read_source(str(tmp_path / "app.json"))) == {"id": "a"}


def test_every_problem_is_listed_in_the_files_order_with_its_line() -> None:
    said = refused('{\n  "id": "a",\n  "cmd": "x",\n  "gpu": 1,\n  "cpus": "2",\n  "gpus": 0.5\n}')
    assert said.splitlines() == [
        "app.json: 3 problems; nothing was changed",
        "app.json:4:3: /gpu: unknown key `gpu`",
        "    did you mean `gpus`?",
        'app.json:5:3: /cpus: `cpus` must be a number, but is the text "2"',
        "    write 2 without quotes",
        "app.json:6:3: /gpus: `gpus` must be a whole number, but is 0.5",
        "    GPUs are given out whole and never shared: write 1",
    ]


def test_gpus_in_a_docker_container_point_at_the_container() -> None:
    said = refused('{"id": "a", "gpus": 1,\n "container": {"docker": {"image": "i"}}}')
    assert "app.json:2:2: /: GPU resources only work with the Mesos containerizer" in said
    assert 'container.type to "MESOS"' in said


def test_a_key_that_is_there_twice_is_refused() -> None:
    said = refused('{"id": "a", "cmd": "x", "gpus": 1,\n "gpus": 2}')
    assert "app.json:2:2: /gpus: key `gpus` is there twice\n    keep one of them" in said


def test_a_document_that_is_no_object_is_refused() -> None:
    assert "must be an object in { }, but is [1]" in refused("[1]")


def test_a_good_app_comes_back_canonical() -> None:
    source = Source("app.json", '{"id": "a", "cmd": "x", "gpus": 1}')
    assert check_app(source, parse(source), AppRules())["id"] == "/a"


def test_one_problem_is_not_called_problems() -> None:
    problem: Any = Problem("/x", "c", "m")
    assert report(Source("f", "{}"), [problem, problem]).splitlines()[0] == "f: 1 problem; nothing was changed"
