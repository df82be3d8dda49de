"""Label selectors."""

from __future__ import annotations

import re

import pytest

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects

LABELS = {"tier": "web", "env": "prod", "odd key": "a,b"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("tier", True),
        ("nope", False),
        ("tier==web", True),
        ("tier == db", False),
        ("tier!=db", True),
        ("nope!=db", False),
        ("tier in (web, db)", True),
        ("tier in (db)", False),
        ("tier notin (db)", True),
        ("nope notin (db)", False),
        ("tier==web,env!=dev", True),
        ("tier==web, env==dev", False),
        (r"odd\ key==a\,b", True),
    ],
)
def test_selectors(text: str, selected: bool) -> None:
    assert selects(parse_selector(text), LABELS) is selected


@pytest.mark.parametrize("text", ["((", "a b", "a=b", "a in", "a in ()", "==b", "a in (b"])
def test_what_is_not_a_selector(text: str) -> None:
    with pytest.raises(InvalidApp, match=re.escape(text)):
        parse_selector(text)
