"""What a program logged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest


async def logged(caplog: pytest.LogCaptureFixture, words: str) -> None:
    """Wait until the log has these words: who is hung up on may know it before the line is written."""

    async def wait() -> None:
        while words not in caplog.text:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)

    try:
        await soon(wait())
    except asyncio.TimeoutError:
        raise AssertionError(f"{words!r} is not in\n{caplog.text}") from None


T = TypeVar("T")


PATIENCE_S = 60.0


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, PATIENCE_S)
