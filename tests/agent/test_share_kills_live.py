"""Random kill -9 of the agent, of who gives turns and of its watchdog: nobody stays frozen, nothing is given twice."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.sharing.freezer import is_frozen
from tests.support.agent.live import PATIENCE_S, LiveAgent, unstarted_agent
from tests.support.children import children
from tests.support.histories import examples
from tests.support.sharing.parts import part
from tests.support.sharing.real_turns import freezer_v1, freezer_v2

pytestmark = pytest.mark.root
PACKAGE = Path(__file__).parents[2] / "mesos_gpu"
BURNER = Path(__file__).parents[1] / "support" / "sharing" / "burner.py"
AGENT, TURNER, WATCHDOG = "agent", "turner", "watchdog"
WEIGHTS = {"one": 1, "two": 2, "three": 3}


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with unstarted_agent(tmp_path) as live:
        yield live


def turner_of(pid: int) -> int | None:
    return next((child for child, words in children(pid) if " turner " in words), None)


async def processes(agent: LiveAgent) -> dict[str, int]:
    """Wait until all three are there; return their pids."""
    found: dict[str, int] = {}

    def there() -> bool:
        assert agent.process is not None
        turner = turner_of(agent.process.pid)
        watchdog = None if turner is None else next((child for child, _ in children(turner)), None)
        if turner is not None and watchdog is not None:
            found.update({AGENT: agent.process.pid, TURNER: turner, WATCHDOG: watchdog})
        return len(found) == 3

    await agent.until(there)
    return found


def assigned(cards: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return what each container has; fail when that is more than there is."""
    for card in cards:
        assert sum(one["mem_units"] for one in card["containers"]) <= card["mem_units"]
        assert sum(one["weight"] for one in card["containers"]) <= card["max_inst"]
    return {one["container_id"]: (one["mem_units"], one["weight"]) for card in cards for one in card["containers"]}


async def used(agent: LiveAgent) -> dict[str, float]:
    (card,) = await agent.get("/gpu_shares")
    return {one["container_id"]: one.get("used_s", 0.0) for one in card["containers"]}


async def all_go_on(agent: LiveAgent) -> None:
    """Wait until each container has used more of the card: none stays frozen while the turns go on."""
    before: dict[str, float] = {}
    went_on = set[str]()
    while len(went_on) < len(WEIGHTS):
        now = await used(agent)
        went_on |= {one for one, seconds in now.items() if seconds > before.get(one, seconds)}
        before = {one: min(seconds, before.get(one, seconds)) for one, seconds in now.items()}
        await asyncio.sleep(0.05)


@pytest.mark.timeout(3600)
async def test_nobody_stays_frozen_and_nothing_is_given_twice(agent: LiveAgent) -> None:
    chance = random.Random(int(os.environ.get("MESOS_GPU_SEED", "14")))
    await agent.start("--shared_gpus=2")
    line, first = f'exec {sys.executable} -S {BURNER} "$MESOS_GPU_SIMULATED_CARDS" 2 4', 0
    for name, weight in WEIGHTS.items():
        agent.run(name, line, resources=part(2, 5, weight, first=first))
        first += 5
        await agent.reaches(name, "TASK_RUNNING")
    parts = assigned(await agent.get("/gpu_shares"))
    tree, file = (v1, "freezer.state") if (v1 := freezer_v1()) else (freezer_v2(), "cgroup.freeze")
    files = [f"{tree}/{agent.cgroups_root}/{one}/{file}" for one in parts]
    rounds, killed = examples(25), dict.fromkeys((AGENT, TURNER, WATCHDOG), 0)
    for number in range(rounds if rounds > 25 else 6):  # 500 in the profile `deep`; a few tell whether it works at all
        pids = await processes(agent)
        await agent.until(lambda: any(map(is_frozen, files)))
        await asyncio.sleep(chance.random() / 4)
        victims = chance.sample(sorted(pids), chance.randint(1, 3))
        print(number, *victims, flush=True)
        for victim in victims:
            with suppress(ProcessLookupError):  # one ended with another
                os.kill(pids[victim], signal.SIGKILL)
                killed[victim] += 1
        if AGENT in victims:
            assert agent.process is not None
            await agent.process.ended()
            if len(victims) < 3:  # of all three, the next agent thaws: nobody else is left
                await agent.until(lambda: not any(map(is_frozen, files)))
            await agent.start("--shared_gpus=2")
        await asyncio.wait_for(all_go_on(agent), PATIENCE_S)
        assert assigned(await agent.get("/gpu_shares")) == parts
    assert all(agent.master.states(name)[-1] == "TASK_RUNNING" for name in WEIGHTS)
    said = ", ".join(f"{count} of the {victim}" for victim, count in killed.items())
    print(f"{sum(killed.values())} kills ({said}): 0 containers left frozen, 0 shares oversold")


async def test_another_build_goes_on_with_the_same_parts(
    agent: LiveAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "build"
    shutil.copytree(PACKAGE, build / "mesos_gpu", ignore=shutil.ignore_patterns("static"))
    says = 'import sys\n\n__version__ = "99.0"\nprint("another build", file=sys.stderr)\n'
    (build / "mesos_gpu" / "__init__.py").write_text(says)
    await agent.start("--shared_gpus=2")
    line = f'exec {sys.executable} -S {BURNER} "$MESOS_GPU_SIMULATED_CARDS" 2 4'
    for at, (name, weight) in enumerate(WEIGHTS.items()):
        agent.run(name, line, resources=part(2, 5, weight, first=5 * at))
        await agent.reaches(name, "TASK_RUNNING")
    await asyncio.wait_for(all_go_on(agent), PATIENCE_S)
    parts = assigned(await agent.get("/gpu_shares"))
    await agent.signal(signal.SIGTERM)
    monkeypatch.chdir(build)  # `python -m` looks here first
    await agent.start("--shared_gpus=2")
    assert "another build" in agent.log.read_text()
    await asyncio.wait_for(all_go_on(agent), PATIENCE_S)
    assert assigned(await agent.get("/gpu_shares")) == parts
    assert all(agent.master.states(name)[-1] == "TASK_RUNNING" for name in WEIGHTS)
