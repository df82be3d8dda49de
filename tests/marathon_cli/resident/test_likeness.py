"""Which processes may be carried out by the helper's children."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.resident import likeness

STATUS = """Name:\tmesos gpu: x
Umask:\t0022
Uid:\t0\t0\t0\t0
Groups:\t4  27
SigIgn:\t0000000001001000
CapEff:\t000001ffffffffff
NoNewPrivs:\t0
"""


def test_the_lines_of_a_status() -> None:
    found = likeness.status_lines(STATUS)
    assert found["Umask"] == "0022"
    assert found["Name"] == "mesos gpu: x"
    assert likeness.who(found)["Uid"] == "0 0 0 0"
    assert likeness.who(found)["Groups"] == "4 27"
    assert likeness.who(found)["Seccomp"] == ""


def test_the_first_difference_is_named() -> None:
    assert likeness.unlike({"a": 1, "b": 2}, {"a": 1, "b": 2}) is None
    assert likeness.unlike({"a": 1, "b": 2}, {"a": 1, "b": 3}) == "b"
    assert likeness.unlike({"a": 1}, {"a": 1, "c": 3}) == "c"


def test_what_the_loader_was_told() -> None:
    environ = {b"LD_PRELOAD": b"x.so", b"PATH": b"/bin", b"MALLOC_ARENA_MAX": b"1", b"OLD_LD": b"1"}
    assert likeness.loaded_with(environ) == {b"LD_PRELOAD": b"x.so", b"MALLOC_ARENA_MAX": b"1"}


@given(st.frozensets(st.integers(1, 64)))
def test_masks_of_signals(numbers: frozenset[int]) -> None:
    mask = sum(1 << number - 1 for number in numbers)
    assert likeness.signal_set(f"{mask:016x}") == numbers


def test_no_mask_is_no_signal() -> None:
    assert likeness.signal_set("") == frozenset()
