"""Plugins, the levels of the log, a sign of life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.marathon.service import Marathon

NAME = "mesos_gpu.marathon.test_api_system"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger(NAME)
    yield made
    made.setLevel(logging.NOTSET)


async def test_there_are_no_plugins(marathon: Marathon) -> None:
    assert await marathon.get("/v2/plugins") == {"plugins": []}


@pytest.mark.parametrize(
    ("accept", "status", "body"),
    [
        ("application/json", 200, "pong"),
        ("text/plain", 200, "pong"),
        ("text/html,application/xhtml+xml", 200, "pong"),
        ("*/*", 200, "pong"),
        ("image/png", 204, None),
    ],
)
async def test_a_sign_of_life_in_the_form_that_is_accepted(
    marathon: Marathon, accept: str, status: int, body: Any
) -> None:
    answer = await marathon.call("GET", "/ping", headers={"Accept": accept})
    assert answer.status == status
    assert body is None or answer.body == body


async def test_the_level_of_a_logger_is_shown_and_changed(marathon: Marathon, logger: logging.Logger) -> None:
    assert (await marathon.get("/logging"))[NAME].endswith(" (inherited)")
    change = {"logger": NAME, "level": "warn"}
    answer = await marathon.call("POST", "/logging", change)
    assert (answer.status, answer.body) == (200, change)
    assert logger.level == logging.WARNING
    assert (await marathon.get("/logging"))[NAME] == "WARN"


async def test_a_level_changes_for_a_while(marathon: Marathon, logger: logging.Logger) -> None:
    logger.setLevel(logging.ERROR)
    for level in ("debug", "OFF"):
        answer = await marathon.call("POST", "/logging", {"logger": NAME, "level": level, "durationSeconds": 1})
        assert answer.body == {"logger": NAME, "level": level.lower(), "durationSeconds": 1}
    assert not logger.isEnabledFor(logging.CRITICAL)
    loop, changed_back = asyncio.get_running_loop(), asyncio.Event()
    # Timers come in the order of their times: ours comes after the one that was set before.
    loop.call_later(1.05, changed_back.set)
    await changed_back.wait()
    assert logger.level == logging.ERROR


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"level": "info"}, "/logger"),
        ({"logger": NAME, "level": "loud"}, "/level"),
        ({"logger": NAME, "level": "info", "durationSeconds": 0}, "/durationSeconds"),
        ({"logger": NAME, "level": "info", "durationSeconds": True}, "/durationSeconds"),
    ],
)
async def test_a_change_that_cannot_be(
    marathon: Marathon, logger: logging.Logger, change: dict[str, Any], path: str
) -> None:
    answer = await marathon.call("POST", "/logging", change)
    assert answer.status == 422
    assert [detail["path"] for detail in answer.body["details"]] == [path]
    assert logger.level == logging.NOTSET
