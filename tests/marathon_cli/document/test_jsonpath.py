from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.document.jsonpath import parse_template
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

APPS = [
    {"id": "/a", "gpus": 2, "labels": {"team.name": "x"}, "tasks": [{"host": "h1"}, {"host": "h2"}], "tty": None},
    {"id": "/b", "gpus": 0, "labels": {}, "tasks": [], "cmd": "it's"},
    {"id": "/c", "gpus": 8, "labels": {"team.name": "y"}, "tasks": [{"host": "h3"}]},
]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{[*].id}", "/a /b /c"),
        ("[*].id", "/a /b /c"),
        ("{$[0].id}", "/a"),
        ("{[-1].id}", "/c"),
        ("{[9].id}", ""),
        ("{[0].nothing.at.all}", ""),
        ("{[0:2].id}", "/a /b"),
        ("{[::2].id}", "/a /c"),
        ("{[0,2].id}", "/a /c"),
        ("{[0].labels.team\\.name}", "x"),
        ("{[0].labels['team.name']}", "x"),
        ("{[0]['id','gpus']}", "/a 2"),
        ("{..host}", "h1 h2 h3"),
        ("{[0].tasks}", '[{"host": "h1"}, {"host": "h2"}]'),
        ("{[0].tty}", "null"),
        ("{[0].labels.*}", "x"),
        ("{[?(@.gpus>0)].id}", "/a /c"),
        ("{[?(@.gpus >= 2.5)].id}", "/c"),
        ('{[?(@.id=="/b")].gpus}', "0"),
        ("{[?(@.id!='/b')].gpus}", "2 8"),
        ("{[?(@.cmd)].id}", "/b"),
        ("{[?(@.cmd=='it\\'s')].id}", "/b"),
        ("{[?(@.tty==null)].id}", "/a"),
        ("{[?(@.id>1)].id}", ""),
        ("{[?(@.tasks[0].host=='h3')].id}", "/c"),
        ("{range [*]}{.id}:{.gpus};{end}", "/a:2;/b:0;/c:8;"),
        ('{range [*]}{.id}{"\\t"}{range .tasks[*]}{.host},{end}{"\\n"}{end}', "/a\th1,h2,\n/b\t\n/c\th3,\n"),
        ("{range [*]}{$[0].id}{@.id} {end}", "/a/a /a/b /a/c "),
        ("first: {[0].id}!", "first: /a!"),
        ("{'text'}{\"more\"}", "textmore"),
    ],
)
def test_a_template_finds_what_kubectl_would_find(template: str, text: str) -> None:
    assert parse_template(template).render(APPS) == text


@pytest.mark.parametrize(
    ("template", "column"),
    [
        ("{[*}", 3),
        ("{[*].id", 7),
        ("{range [*]}{.id}", 16),
        ("{end}", 4),
        ("{[x]}", 2),
        ("{[::0]}", 5),
        ("{..}", 3),
        ("", 1),
    ],
)
def test_a_wrong_template_is_pointed_at(template: str, column: int, golden: Golden) -> None:
    with pytest.raises(BadInput) as caught:
        parse_template(template)
    assert str(caught.value) == golden
    headline, _, mark = str(caught.value).split("\n")
    assert headline == golden
    assert mark.index("^") == 4 + column


@given(st.text(alphabet="{}[]().*@$?='\"<>!,:0ab \\-"))
def test_any_text_is_a_template_or_is_refused(text: str) -> None:
    try:
        template = parse_template(text)
    except BadInput:
        return
    template.render(APPS)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_the_root_is_the_whole_document(document: object) -> None:
    whole = parse_template("{$}").render(document)
    assert whole == (document if isinstance(document, str) else json.dumps(document, ensure_ascii=False))
