from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.mesos.regex import MAX_REGEX, Pattern
from tests.support.golden import Golden

_atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\S", "(?:ab)", "(a|b)", "(|a)"])
_repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?"])
_regexes = st.lists(st.tuples(_atoms, _repeats), max_size=4).map(lambda parts: "".join(a + r for a, r in parts))
_nested = st.one_of(
    _regexes,
    st.tuples(_regexes, _repeats).map(lambda pair: f"({pair[0]}){pair[1]}"),
    st.tuples(_regexes, _regexes).map("|".join),
    _regexes.map(lambda regex: f"^{regex}$"),
)


@given(_nested, st.text("ab0 _", max_size=6))
def test_it_agrees_with_pythons_own(regex: str, text: str) -> None:
    assert Pattern(regex).fullmatch(text) == (re.compile(regex, re.ASCII).fullmatch(text) is not None)


@given(_nested, st.text("aAbB0 _", max_size=6))
def test_it_agrees_with_pythons_own_whatever_the_case(regex: str, text: str) -> None:
    found = Pattern(regex, ignore_case=True).fullmatch(text)
    assert found == (re.compile(regex, re.ASCII | re.IGNORECASE).fullmatch(text) is not None)


@pytest.mark.parametrize("regex", ["(a+)+b", "(a|aa)+b", "(.*)*.*(.*)*c", "a{1000}" + "a?" * 300])
def test_what_takes_exponential_time_elsewhere_does_not_here(regex: str) -> None:
    assert not Pattern(regex).fullmatch("a" * 200)


@pytest.mark.parametrize(
    "regex",
    ["(", "a(?=b)", r"(a)\1", "(?i)a", "(?i:a)", r"\bword", "a{1001}", "a" * (MAX_REGEX + 1), "(" * 5000],
    ids=["open", "assertion", "reference", "flags", "flags of a group", "boundary", "repetitions", "length", "depth"],
)
def test_what_is_not_regular_or_too_big_is_refused(regex: str, golden: Golden) -> None:
    with pytest.raises(ValueError) as refused:
        Pattern(regex)
    assert str(refused.value) == golden
