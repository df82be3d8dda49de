from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.document.properties import deep_merge, guess, parse_properties, with_properties
from mesos_gpu.errors import BadInput
from mesos_gpu.marathon.definitions.app_schema import APP as APP_SCHEMA
from tests.support.golden import Golden

APP: dict[str, Any] = {
    "id": "/a",
    "cpus": 1,
    "env": {"A": "1"},
    "container": {"type": "MESOS", "docker": {"image": "i:1", "forcePullImage": True}},
    "fetch": [{"uri": "http://h/x"}, {"uri": "http://h/y"}],
}


def changed(*words: str) -> dict[str, Any]:
    return with_properties(APP, parse_properties(words, APP_SCHEMA.schema))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ('{"a": 1}', {"a": 1}),
        ("http://h:1/x", "http://h:1/x"),
        ("sleep 5", "sleep 5"),
        ("1.2.3", "1.2.3"),
        ("nan", "nan"),
        ("", ""),
    ],
)
def test_a_value_is_what_dcos_takes_it_for(text: str, value: object) -> None:
    found = guess(text)
    assert (found, type(found)) == (value, type(value))


def test_a_dotted_key_reaches_into_what_is_there() -> None:
    new = changed("cpus=2", "container.docker.image=i:2")
    assert new == {
        **APP,
        "cpus": 2,
        "container": {"type": "MESOS", "docker": {"image": "i:2", "forcePullImage": True}},
    }


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("env.PORT=8080", "env", {"A": "1", "PORT": "8080"}),
        ("env.X=", "env", {"A": "1", "X": ""}),
        ("env.X=a=b", "env", {"A": "1", "X": "a=b"}),
        ('env={"B":"2"}', "env", {"B": "2"}),
        ("env.A=null", "env", {}),
        ("cmd=1", "cmd", "1"),
        ("cmd='null'", "cmd", "null"),
        ("labels.a\\.b=1", "labels", {"a.b": "1"}),
        ('labels."a.b"=true', "labels", {"a.b": "true"}),
        ("instances=3", "instances", 3),
        ('"instances"=3', "instances", 3),
        ("fetch[1].uri=http://h/z", "fetch", [{"uri": "http://h/x"}, {"uri": "http://h/z"}]),
        ("fetch[2].uri=http://h/z", "fetch", [*APP["fetch"], {"uri": "http://h/z"}]),
        ("fetch[0]=null", "fetch", [{"uri": "http://h/y"}]),
        ("upgradeStrategy.minimumHealthCapacity=0", "upgradeStrategy", {"minimumHealthCapacity": 0}),
        ('constraints=[["hostname","UNIQUE"]]', "constraints", [["hostname", "UNIQUE"]]),
    ],
)
def test_one_property(word: str, key: str, value: object) -> None:
    new = changed(word)
    assert new[key] == value
    assert {name: new[name] for name in APP if name != key} == {name: APP[name] for name in APP if name != key}


def test_null_takes_a_key_away() -> None:
    assert "container" not in changed("container=null")
    assert "docker" not in changed("container.docker=null")["container"]


@pytest.mark.parametrize(
    "words",
    [
        ["cpus"],
        ['{"cpus": 1}'],
        ["cpus=1", "cpus=2"],
        ["container={}", "container.docker.image=i"],
        ["constraints=[1"],
        ["=1"],
        ["[0]=1"],
        ["a..b=1"],
    ],
)
def test_what_is_wrong_with_words_is_said(words: list[str], golden: Golden) -> None:
    with pytest.raises(BadInput) as caught:
        parse_properties(words)
    assert str(caught.value) == golden


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parse_properties(["cpus", "mem=1", "mem=2", "=3"])
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    "word",
    [
        "cpus.x=1",
        "env[0]=1",
        "fetch[7]=1",
    ],
)
def test_a_key_that_leads_nowhere_is_said(word: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as caught:
        changed(word)
    assert str(caught.value) == golden


DOCUMENTS = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@given(DOCUMENTS, DOCUMENTS)
def test_merging_twice_is_merging_once(base: Any, over: Any) -> None:
    once = deep_merge(base, over)
    assert deep_merge(once, over) == once
    assert deep_merge(base, {}) == (base if isinstance(base, dict) else {})


def test_merging_replaces_lists_and_takes_away_nulls() -> None:
    over = {"env": {"A": None, "B": "2"}, "fetch": [], "container": {"docker": {"image": "i:2"}}}
    merged = deep_merge(APP, over)
    assert merged["env"] == {"B": "2"}
    assert merged["fetch"] == []
    assert merged["container"] == {"type": "MESOS", "docker": {"image": "i:2", "forcePullImage": True}}


@given(st.text(max_size=20))
def test_any_word_is_a_property_or_is_refused(word: str) -> None:
    try:
        found = parse_properties([word], APP_SCHEMA.schema)
        with_properties(APP, found)
    except BadInput:
        pass
