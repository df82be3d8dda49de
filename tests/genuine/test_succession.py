"""One task, and five masters after one another at one address: it is the same process, and no status is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.genuine.box import MakeBox
from tests.genuine.releases import USUAL, Release
from tests.genuine.scheduler import Framework, ended

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

OURS = "ours"
SUCCESSION = (*USUAL[1:], OURS, "1.11.0")
STATES = ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]


async def test_a_task_outlives_the_replacement_of_its_masters_by_ours_and_back(
    releases: Callable[[str], Release], make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(releases("1.4.3"), gpus=2)
    framework = Framework(box)
    try:
        await framework.subscribe()
        beat = tmp_path / "beat"
        await framework.launch("long", f"echo $$ >> {beat}; while true; do touch {beat}.now; sleep 0.1; done", gpus=1)
        for n, version in enumerate(SUCCESSION):
            await framework.launch(f"t{n}", f"while [ ! -e {tmp_path}/go{n} ]; do sleep 0.05; done")
            box.kill_master()
            (tmp_path / f"go{n}").touch()
            completed = f"t{n}"
            await asyncio.to_thread(box.until, "it ended without a master", lambda t=completed: ended(box, t))
            if version == OURS:
                box.start_ours()
            else:
                box.start_master(releases(version))
            agent_id = box.agents[0].id
            back = [agent_id]
            await asyncio.to_thread(
                box.until, "the agent is back", lambda b=back: [s["id"] for s in box.state()["slaves"]] == b
            )
            assert box.state()["version"] == ("1.12.0" if version == OURS else version)
            await framework.subscribe()
            await framework.hears(f"t{n}", "TASK_FINISHED")
            assert framework.told[f"t{n}"] == STATES
        assert framework.told["long"] == STATES[:2]
        assert len(beat.read_text().splitlines()) == 1, "it began once"
        before = Path(f"{beat}.now").stat().st_mtime_ns
        await asyncio.to_thread(box.until, "it runs", lambda: Path(f"{beat}.now").stat().st_mtime_ns > before)
        await framework.scheduler.call("KILL", {"task_id": {"value": "long"}})
        await framework.hears("long", "TASK_KILLED")
        assert framework.told["long"] == [*STATES[:2], "TASK_KILLED"]
    finally:
        await framework.scheduler.close()
