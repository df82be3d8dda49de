"""What looks like a space and is none is named, with its place, in YAML and JSON and wherever they are read."""

from __future__ import annotations

import pytest

from marathon_cli.convert.manifests import convert
from marathon_cli.document.check import Source, parse
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

NBSP = "\u00a0"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"id: /a\n{NBSP}{NBSP}cmd: x\n", "2:1"),
        (f"id:{NBSP}/a\ncmd: sleep 1000\n", "1:4"),
        (f"id:{NBSP}/a\n", "1:4"),
        (f"id: /a\nenv:\n{NBSP} A: b\n{NBSP} B: c\n", "3:1"),
        (f"id: /a\nargs:\n-{NBSP}x: [\n", "3:2"),
        (f"id: /a\ncmd{NBSP}: [x\n", "2:4"),
        (f'{{"id":{NBSP}"/a"}}', "1:7"),
        (f'{{"id": "/a", "cmd{NBSP}": "x"}}', "1:18"),
        (f'[{{"env": [{{"{NBSP}A": 1}}]}}]', "1:13"),
    ],
)
def test_it_is_named_with_its_place_and_what_to_do(text: str, place: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        parse(Source("app", text))
    said = str(refused.value)
    assert said.startswith(f"app:{place}: ")
    assert said == golden


@pytest.mark.parametrize(
    "text", [f"id: /a\ncmd: echo a{NBSP}b\n", f"id: /a\ncmd: |\n  {NBSP}x: y\n", f'{{"cmd": "{NBSP}x"}}']
)
def test_it_may_stand_in_a_text(text: str) -> None:
    assert NBSP in parse(Source("app", text))["cmd"]


def test_other_mistakes_are_told_as_before() -> None:
    with pytest.raises(BadInput, match="not YAML: while parsing"):
        parse(Source("app.yaml", "id: [a\n"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"apiVersion: v1\nkind: Pod\nmetadata:\n{NBSP} name: x\n", "4: name: a non-breaking"),
        (f"apiVersion: v1\nkind: Pod\nmetadata: {{name:{NBSP}x, [}}\n", "3:17: not YAML: a non-breaking"),
    ],
)
def test_convert_names_it_too(text: str, place: str) -> None:
    with pytest.raises(BadInput) as refused:
        convert(text, "pod.yaml", environ={})
    assert str(refused.value).startswith(f"pod.yaml:{place}")
