from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.app_ids import canonical_id, name_problem, parent_id, top_group
from tests.support.golden import Golden

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?(\.[a-z0-9]{1,3})?", fullmatch=True)
IDS = st.lists(st.sampled_from(["", ".", ".."]) | NAMES, max_size=6).map("/".join)


@pytest.mark.parametrize("text", ["foo", "/foo", "/foo/", "//foo//", "./foo", "x/../foo"])
def test_slashes_and_dots_make_no_difference(text: str) -> None:
    assert canonical_id(text) == "/foo"


def test_a_relative_id_counts_from_its_base() -> None:
    assert canonical_id("../db", "/prod/web") == "/prod/db"
    assert canonical_id("/db", "/prod/web") == "/db"


def test_going_up_from_the_root_stays_there() -> None:
    assert canonical_id("../../x") == "/x"


@given(IDS, IDS)
def test_a_canonical_id_is_absolute_and_stays_as_it_is(text: str, base: str) -> None:
    found = canonical_id(text, canonical_id(base))
    assert found.startswith("/")
    assert "//" not in found
    assert canonical_id(found, "/elsewhere") == found
    assert canonical_id(f"./{text}/" if text[:1] != "/" else f"{text}/", canonical_id(base)) == found


@given(st.text("aB0-._/ é\n", min_size=1, max_size=12))
def test_a_name_outside_marathons_alphabet_is_refused_and_any_other_accepted(text: str) -> None:
    names = [name for name in text.split("/") if name not in ("", ".", "..")]
    fine = all(re.fullmatch("[a-z0-9.-]+", name) and not re.search(r"(^|\.)[-.]|[-.](\.|$)", name) for name in names)
    if fine:
        assert canonical_id(text).startswith("/")
    else:
        with pytest.raises(InvalidApp, match=r"^/id: "):
            canonical_id(text)


def test_an_id_of_many_slashes_is_judged_quickly() -> None:
    with pytest.raises(InvalidApp):
        canonical_id("/" * 10_000 + "!")


def test_a_refused_id_comes_with_one_that_would_do(golden: Golden) -> None:
    with pytest.raises(InvalidApp) as caught:
        canonical_id("My_App")
    assert caught.value.problems[0].suggestion == golden


@pytest.mark.parametrize("app_id", ["/", "/a/restart", "/tasks", "/a/versions"])
def test_names_of_the_api_are_no_app_names(app_id: str) -> None:
    assert name_problem(app_id) is not None


def test_groups_of_an_id() -> None:
    assert (parent_id("/a"), parent_id("/a/b")) == ("/", "/a")
    assert (top_group("/a"), top_group("/a/b/c")) == (None, "a")
