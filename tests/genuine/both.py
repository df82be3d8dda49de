"""The same questions to a genuine master and to ours, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.genuine.master import GenuineMaster
from tests.genuine.releases import Release
from tests.support.master.live import live_master

Answers = TypeVar("Answers")


async def answers_of_both(release: Release, folder: Path, ask: Callable[[int], Answers]) -> tuple[Answers, Answers]:
    """Return what `ask` returns for the port of a genuine master, and for that of ours."""
    master = GenuineMaster(release, folder / "master").start()
    try:
        wanted = await asyncio.to_thread(ask, master.port)
    finally:
        master.kill()
    async with live_master(folder) as ours:
        return wanted, await asyncio.to_thread(ask, ours.endpoint.pid("master").port)
