from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.document.positions import Position, scan

KEYS = st.text('ab"\\{}[]:,\né ', max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | KEYS
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=10
)


def members(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every path with the JSON text that its place begins with."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}/{key}", json.dumps(key)
            yield from members(item, f"{path}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{path}({index})", json.dumps(item)[:1]
            yield from members(item, f"{path}({index})")


@given(DOCUMENTS, st.sampled_from([None, 0, 2]), st.booleans())
def test_every_key_and_item_is_found_where_it_stands(document: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    lines = text.split("\n")
    places = scan(text)
    wanted = list(members(document))
    # Keys that hold slashes or brackets can spell another key's path; those are not told apart.
    unambiguous = [path for path, _ in wanted]
    for path, begin in wanted:
        if unambiguous.count(path) == 1:
            line, column = places.by_path[path]
            found = lines[line - 1][column - 1 :]
            assert found.startswith(begin if ascii_only else begin[:1])
    assert places.duplicates == []


def test_a_place_is_a_line_and_a_column_from_one() -> None:
    places = scan('{"id": "a",\n  "container": {\n    "volumes": [{}, {"mode": "RO"}]}}')
    assert places.of("/id") == Position(1, 2)
    assert places.of("/container/volumes(1)/mode") == Position(3, 22)


@pytest.mark.parametrize("path", ["/container/docker/image", "/container/x(3)/y"])
def test_what_is_missing_is_placed_at_what_holds_it(path: str) -> None:
    assert scan('{\n\n"container": {}}').of(path) == Position(3, 1)


def test_a_problem_of_the_whole_points_at_the_key_it_names() -> None:
    places = scan('{\n "gpus": 1}')
    assert places.of("/", "gpus") == Position(2, 2)
    assert places.of("/") == Position(1, 1)


def test_keys_that_come_twice_are_reported() -> None:
    places = scan('{"a": 1,\n "b": {"a": 2}, "a": 3}')
    assert [(twice.path, twice.position) for twice in places.duplicates] == [("/a", Position(2, 17))]


def test_deep_nesting_is_no_matter() -> None:
    text = "[" * 20_000 + '{"a": 1}' + "]" * 20_000
    assert scan(text).of("(0)") == Position(1, 2)
    assert len(scan(text).by_path) < 100
