"""What is read of a request before it is a call."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from mesos_gpu.process.requests import JSON, PROTOBUF, accepted_type, accepts, header


def test_of_a_header_that_comes_again_the_last_counts() -> None:
    twice = make_mocked_request("POST", "/", CIMultiDict([("X", "first"), ("Y", "y"), ("x", "last")]))
    assert header(twice, "X") == "last"
    assert header(twice, "Z") is None


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ((), JSON),
        (("*/*", PROTOBUF), PROTOBUF),
        ((PROTOBUF, JSON), JSON),
        (("text/html", JSON), JSON),
        ((JSON, "text/html"), None),
    ],
)
def test_the_last_accept_header_decides(given: tuple[str, ...], answered: str | None) -> None:
    """As with requests' default `*/*` beside what a client asks for: `dcos task exec` and mesos-go send both."""
    request = make_mocked_request("POST", "/", CIMultiDict([("Accept", value) for value in given]))
    assert accepted_type(request) == answered


def test_a_type_that_is_worth_nothing_is_not_accepted() -> None:
    assert accepts(f"{JSON};q=0, {PROTOBUF}", (JSON, PROTOBUF)) == PROTOBUF
