"""The keys that detach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.screen.terminal import DetachKeys, keys
from mesos_gpu.errors import BadInput

LEAVE = b"\x10\x11"


def feed(watch: DetachKeys, pieces: list[bytes]) -> tuple[bytes, bool]:
    passed = b""
    for piece in pieces:
        data, detached = watch.feed(piece)
        passed += data
        if detached:
            return passed, True
    return passed, False


@given(st.lists(st.binary(max_size=8).map(lambda data: bytes(b % 4 + 0x0F for b in data))))
def test_keys_are_found_and_the_rest_passed_on_in_order_however_it_is_typed(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    passed, detached = feed(DetachKeys(LEAVE), pieces)
    before, found, _ = whole.partition(LEAVE)
    assert detached == bool(found)
    if detached:
        assert passed == before
    else:
        # Only what may be the begin of the keys is kept back.
        assert whole.startswith(passed)
        assert len(whole) - len(passed) == (1 if whole.endswith(LEAVE[:1]) else 0)


def test_without_keys_everything_is_passed_on() -> None:
    assert DetachKeys(b"").feed(LEAVE) == (LEAVE, False)


@pytest.mark.parametrize(
    ("text", "sequence"),
    [("ctrl-p,ctrl-q", LEAVE), ("Ctrl-],x", b"\x1dx"), ("a", b"a"), ("ctrl-@", b"\0"), ("ctrl-_", b"\x1f"), ("", b"")],
)
def test_keys_are_written_as_docker_writes_them(text: str, sequence: bytes) -> None:
    assert keys(text) == sequence


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-pp", "ctrl-1", "xy", "ctrl-p,", "ä", "ctrl-p,,ctrl-q"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a key"):
        keys(text)
