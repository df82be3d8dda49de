"""kill -9 of the agent program at random moments, while tasks start and stop: nothing held twice, leaked or lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.mesos.libprocess import Pid
from tests.support.box.crashing import Framework, Story, Victim, double_held, figures
from tests.support.master.live import live_master, until

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]

KILLS = 64
GPUS = 4
LOOK_EVERY_S = 0.05


class Watch:
    """Looks at every container's GPUs, again and again."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self.looks = self.most_containers = 0
        self.twice: list[str] = []

    async def run(self) -> None:
        while True:
            seen = self._victim.gpus_seen()
            self.looks += 1
            self.most_containers = max(self.most_containers, len(seen))
            if double_held(seen):
                self.twice.append(f"look {self.looks}: {seen}")
            await asyncio.sleep(LOOK_EVERY_S)


def _fall_ill(victim: Victim, chance: random.Random) -> int:
    """Have one of its GPUs fall ill now and then, or all be well; return how many fell ill."""
    ill = chance.random() < 0.25
    if ill:
        victim.faults(f"{chance.randrange(GPUS)} {chance.choice([79, 94])}\n")
    elif chance.random() < 0.5:
        victim.faults("")
    return int(ill)


async def _moment_of_death(victim: Victim, framework: Framework, chance: random.Random) -> str:
    """Wait for a moment to kill the agent at; return its kind."""
    kind = chance.choice(["while it starts", "at any moment", "while it launches", "while it kills"])
    if kind == "while it starts":
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        return kind
    await victim.until_ready()
    if kind == "at any moment":
        await asyncio.sleep(chance.uniform(0.0, 1.0))
    elif kind == "while it launches":
        tasks = len(framework.stories)
        try:
            await framework.until("another launch", lambda: len(framework.stories) > tasks, patience_s=1.0)
        except AssertionError:
            pass  # all GPUs are taken by tasks that run on
        await asyncio.sleep(chance.uniform(0.0, 0.25))
    else:
        await framework.kill_one()
        await asyncio.sleep(chance.uniform(0.0, 0.1))
    return kind


@dataclass
class Deaths:
    """What was done to the agent program."""

    kinds: Counter[str] = field(default_factory=Counter)
    """Kills, by the moment they came at."""
    illnesses: int = 0
    ended_before_illness: set[str] = field(default_factory=set)
    """Ids of the tasks that had ended before the first GPU fell ill."""

    @property
    def count(self) -> int:
        return sum(self.kinds.values())


async def _kill_again_and_again(victim: Victim, framework: Framework, chance: random.Random) -> Deaths:
    """Kill the agent KILLS times, and start it again; in the second half GPUs fall ill, too."""
    deaths = Deaths()
    while deaths.count < KILLS:
        if deaths.count == KILLS // 2:
            deaths.ended_before_illness = {story.task_id for story in framework.stories.values() if story.over}
        if deaths.count >= KILLS // 2:
            deaths.illnesses += _fall_ill(victim, chance)
        deaths.kinds[await _moment_of_death(victim, framework, chance)] += 1
        assert await victim.end(signal.SIGKILL) == -signal.SIGKILL, victim.last_words()
        await victim.spawn()
    await victim.until_ready()
    return deaths


async def _see_to_what_runs_on(victim: Victim, framework: Framework, say: Callable[[str], None]) -> None:
    """Let what still runs run on, and see that it does with a GPU each; end it, and see that nothing is left."""
    framework.launches = False
    await framework.until(
        "every task ends or runs on",
        lambda: all(s.over or (s.running and s.exit_status is None) for s in framework.stories.values()),
    )
    run_on = [story for story in framework.stories.values() if not story.over]
    seen = victim.gpus_seen()
    say(f"  {len(run_on)} tasks run on, in {len(seen)} containers with a GPU each")
    assert sorted(len(minors) for minors in seen.values()) == [1] * len(run_on)
    left = victim.leftovers(agent_gone=False)
    for what in ("cgroup", "GPU record", "bundle", "mount"):
        assert any(line.startswith(what) for line in left) is bool(run_on), "what is looked for can be seen"
    for story in run_on:
        await framework.kill(story)
    await framework.until("what ran on ends", lambda: all(s.over for s in framework.stories.values()))
    assert victim.leftovers(agent_gone=False) == []


async def _end_well(victim: Victim) -> int | None:
    """End the agent by the signal at which it kills whatever a failed test left; return its exit status."""
    try:
        if victim.status is not None:
            await victim.spawn()
        await victim.until_ready()
        return await victim.end(signal.SIGUSR1)
    finally:
        await victim.close()


async def test_killed_at_random_moments_no_gpu_is_held_twice_and_nothing_is_leaked_or_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("CRASH_SEED", random.SystemRandom().randrange(1 << 32)))
    say: Callable[[str], None] = lambda text: _print(capsys, text)  # noqa: E731
    say(f"\ncrash test: CRASH_SEED={seed}")
    began_s = time.monotonic()
    async with live_master(tmp_path / "master") as master:
        victim = Victim(tmp_path / "agent", master.url, GPUS, "--gpu_retest_interval=100ms")
        framework, watch = Framework(master.url, random.Random(seed + 1)), Watch(victim)
        watching = asyncio.create_task(watch.run())
        try:
            await framework.start()
            await victim.spawn()
            await victim.until_ready()
            (agent,) = master.engine.state.agents.values()
            victim.port = Pid.parse(agent.pid).port
            deaths = await _kill_again_and_again(victim, framework, random.Random(seed))
            victim.faults("")
            await until(lambda: agent.total.gpus == GPUS)
            await _see_to_what_runs_on(victim, framework, say)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            status = await _end_well(victim)
            await framework.close()
    assert status == 0, victim.last_words()
    left = victim.leftovers(agent_gone=True)
    stories = list(framework.stories.values())
    say(_summary(deaths, stories, time.monotonic() - began_s))
    say(
        f"  {watch.looks} looks at up to {watch.most_containers} containers: {len(watch.twice)} double-held GPUs; "
        f"{len(left)} leftovers; {len(_lost(stories))} lost tasks"
    )
    assert watch.twice == []
    assert watch.most_containers == GPUS
    assert left == []
    assert _lost(stories) == []
    assert _untrue(stories, deaths.ended_before_illness) == []


def _summary(deaths: Deaths, stories: list[Story], took_s: float) -> str:
    deliveries = sum(story.deliveries for story in stories)
    statuses = sum(len(story.statuses) for story in stories)
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(deaths.kinds.items()))
    return (
        f"  {deaths.count} kills ({kinds}) in {took_s:.0f} s\n"
        f"  {len(stories)} tasks: {figures(stories)}\n"
        f"  {statuses} statuses, {deliveries - statuses} of them delivered again; {deaths.illnesses} times a GPU fell "
        f"ill, and {sum(map(_too_few, stories))} tasks found one too few"
    )


def _lost(stories: list[Story]) -> list[str]:
    """Return the tasks that did not get exactly one end, or that ran and are said to be gone."""
    ends = {story.task_id: [end for end in story.ends if not _answers_late_kill(story, end)] for story in stories}
    lost = [
        f"{name}: {[e['state'] for e in some]}" for name, some in ends.items() if len({e["state"] for e in some}) != 1
    ]
    return lost + [
        f"{story.task_id} ran and is {end['state']}, {end.get('reason')}: {end.get('message')}"
        for story in stories
        for end in ends[story.task_id]
        if end["state"] in ("TASK_GONE", "TASK_LOST", "TASK_UNREACHABLE", "TASK_ERROR")
        or (end["state"] == "TASK_DROPPED" and any(s["state"] == "TASK_RUNNING" for s in story.statuses.values()))
    ]


def _answers_late_kill(story: Story, end: dict[str, Any]) -> bool:
    """Return whether this is what a master says of a kill that crossed the acknowledgement of the end."""
    gone = (end["state"], end.get("source"), end.get("reason")) == (
        "TASK_GONE",
        "SOURCE_MASTER",
        "REASON_RECONCILIATION",
    )
    return gone and story.killed and any(other["state"] != "TASK_GONE" for other in story.ends)


def _too_few(story: Story) -> bool:
    return any("gpus but only" in end.get("message", "") for end in story.ends)


def _untrue(stories: list[Story], before_illness: set[str]) -> list[str]:
    """Return the ends that are not what the task did: another exit status, or a kill that nobody asked for."""
    untrue = []
    for story in stories:
        (end, *_) = story.ends
        if end["state"] == "TASK_DROPPED" or (_too_few(story) and story.task_id not in before_illness):
            continue  # never launched: the agent was killed, or a GPU fell ill, while it was on its way
        expected = f"Command exited with status {story.exit_status}"
        right_state = "TASK_FINISHED" if story.exit_status == 0 else "TASK_FAILED"
        exited = story.exit_status is not None and end["state"] == right_state and end.get("message") == expected
        killed = story.killed and end["state"] == "TASK_KILLED"
        if not exited and not killed:
            untrue.append(f"{story.task_id} ({story.exit_status}): {end['state']}: {end.get('message')}")
    return untrue


def _print(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(text, flush=True)
