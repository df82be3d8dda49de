"""What a command and the helper say to each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.resident import frames

TEXT = st.binary(max_size=20).map(lambda data: data.replace(b"\0", b"?"))
NAME = TEXT.map(lambda data: data.replace(b"=", b"-") or b"N")
WORDS = st.lists(TEXT, min_size=1, max_size=6)
ENVIRON = st.dictionaries(NAME, TEXT, max_size=6)


@given(WORDS, ENVIRON, st.lists(st.integers(1, 30)))
def test_a_request_is_the_same_however_its_bytes_are_cut(
    words: list[bytes], environ: dict[bytes, bytes], cuts: list[int]
) -> None:
    data = frames.request(words, environ)
    assert data is not None
    reader, found = frames.RequestReader(), None
    for size in cuts:
        if len(data) > size:
            assert reader.feed(data[:size]) is None
            data = data[size:]
    found = reader.feed(data)
    assert found is not None
    assert found.words == tuple(words)
    assert found.environ() == environ


@given(st.binary(max_size=64))
def test_what_is_no_request_is_refused_or_waited_for(data: bytes) -> None:
    try:
        assert frames.RequestReader().feed(data) is None
    except frames.BadFrame:
        pass


@given(WORDS, ENVIRON, st.binary(min_size=1, max_size=3))
def test_nothing_may_follow_a_request(words: list[bytes], environ: dict[bytes, bytes], more: bytes) -> None:
    data = frames.request(words, environ)
    assert data is not None
    with pytest.raises(frames.BadFrame):
        frames.RequestReader().feed(data + more)


@pytest.mark.parametrize(
    "data",
    [
        b"mesos-gpu resident 2\n",
        frames.HELLO + (frames.MOST + 1).to_bytes(4, "big"),
        frames.HELLO + (3).to_bytes(4, "big"),
        frames.HELLO + (6).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"a\0",
        frames.HELLO + (6).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"ab",
    ],
)
def test_a_broken_request_is_named_as_such(data: bytes) -> None:
    with pytest.raises(frames.BadFrame):
        frames.RequestReader().feed(data)


def test_a_command_that_is_too_large_has_no_request() -> None:
    assert frames.request([b"x" * frames.MOST], {}) is None


def test_the_first_of_two_variables_of_a_name_counts() -> None:
    asked = frames.Request([b"x"], [b"A=1", b"A=2", b"broken", b"=C"])
    assert asked.environ() == {b"A": b"1"}


@given(st.lists(st.integers(1, 64)))
def test_signals_come_as_they_were_sent(numbers: list[int]) -> None:
    assert list(frames.signals(b"".join(map(frames.signal_frame, numbers)))) == numbers


def test_what_is_no_signal_is_none() -> None:
    assert list(frames.signals(b"X\x0f" + frames.signal_frame(2) + b"S")) == [2]


@given(st.integers(0, 0xFFFF))
def test_an_end_has_its_status(status: int) -> None:
    assert frames.status_of(frames.ended(status)) == status
    assert frames.status_of(frames.ended(status)[:-1]) is None


def test_to_be_asked_to_end_is_no_command() -> None:
    assert frames.is_leave(frames.leave())
    assert frames.status_of(b"Rxxxx") is None
    with pytest.raises(frames.BadFrame):
        frames.RequestReader().feed(frames.leave())
