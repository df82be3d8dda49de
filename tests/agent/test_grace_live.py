"""The grace period of a task goes on while its agent is killed and started again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.support.agent.live import live_agent
from tests.support.grace import command, trainer

pytestmark = [pytest.mark.root, pytest.mark.slow]

WORK_S = 4.0
GRACE = {"grace_period": {"nanoseconds": 60 * 10**9}}


async def test_an_agent_that_is_killed_in_the_midst_of_a_grace_period_gives_the_rest_of_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(trainer(WORK_S))
    folders = {form: tmp_path / form for form in ("plain", "pipe")}
    async with live_agent(tmp_path) as agent:
        for form, folder in folders.items():
            folder.mkdir()
            agent.run(form, command(form, f"{tmp_path / 'train.py'} {folder}"), kill_policy=GRACE)
        for form, folder in folders.items():
            await agent.until((folder / "up").exists)
            agent.kill(form)
        began = time.monotonic()
        for folder in folders.values():
            await agent.until((folder / "terms").exists)
        await agent.signal(signal.SIGKILL)
        await agent.start()
        for form, folder in folders.items():
            await agent.reaches(form, "TASK_KILLED")
            assert (folder / "checkpoint").read_text() == "complete"
            assert (folder / "terms").read_text() == "x", "SIGTERM comes once"
        assert WORK_S <= time.monotonic() - began < 30.0
