"""A short soak; `./run bench soak` is the long one."""

from __future__ import annotations

import pytest

from benchmarks.soak import soak

pytestmark = pytest.mark.slow


async def test_after_frameworks_came_died_and_failed_over_all_is_free_again() -> None:
    report = await soak(seconds=3.0, frameworks=20, agents=3, seed=7)
    assert report.problem is None
    assert {"subscribed", "accepted", "declined", "task ended", "hung up", "agent came back"} <= set(report.did)
