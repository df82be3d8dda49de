"""How fast silent agents are given up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.master.agent_link.observers import RemovalLimit
from mesos_gpu.master.configuration import removal_interval_s
from tests.support.master.live import ScriptedAgent, live_master, soon, until


def test_the_rate_is_read_as_mesos_writes_it() -> None:
    assert removal_interval_s(None) == 0
    assert removal_interval_s("1/10mins") == 600
    assert removal_interval_s("2/3hrs") == 5400
    for text in ("1", "0/1mins", "1/", "x/1mins", "1/10"):
        with pytest.raises(BadFlag, match="agent_removal_rate_limit"):
            removal_interval_s(text)


async def test_without_a_limit_everybody_goes_at_once() -> None:
    limit, gone = RemovalLimit(), []
    for name in "abc":
        limit.ask(name, lambda name=name: gone.append(name))  # type: ignore[misc]
    assert gone == ["a", "b", "c"]


async def test_with_a_limit_one_goes_after_the_other_and_who_answers_stays() -> None:
    limit, gone = RemovalLimit(0.02), asyncio.Queue[str]()
    for name in "abcd":
        limit.ask(name, lambda name=name: gone.put_nowait(name))  # type: ignore[misc]
    limit.ask("b", lambda: gone.put_nowait("b again"))
    assert gone.qsize() == 1, "only the first goes at once"
    assert limit.withdraw("c") is True
    assert limit.withdraw("a") is False
    assert [await soon(gone.get()) for _ in range(3)] == ["a", "b", "d"]
    assert limit.counts == {"scheduled": 4, "completed": 3, "canceled": 1}
    limit.stop()


async def test_a_silent_agent_waits_for_its_turn_and_a_pong_keeps_it(tmp_path: Path) -> None:
    flags = ["--agent_ping_timeout=10ms", "--max_agent_ping_timeouts=2", "--agent_removal_rate_limit=1/1hrs"]
    async with live_master(tmp_path, *flags) as master:
        agents = [ScriptedAgent(master.url) for _ in range(2)]
        try:
            for agent in agents:
                await agent.start()
                await agent.register()
                agent.answers_pings = False
            state = master.engine.state
            limit = master.link._limit
            # The first goes at once, the other in an hour.
            await until(lambda: len(state.agents) == 1 and len(limit._waiting) == 1)
            (left,) = [agent for agent in agents if agent.id in state.agents]
            left.answers_pings = True
            await until(lambda: not limit._waiting)
            assert left.id in state.agents
            shown = master.engine.metrics()
            scheduled, completed, canceled = (
                shown[f"master/slave_unreachable_{step}"] for step in ("scheduled", "completed", "canceled")
            )
            # On a busy machine a pong may be late, and the agent has its turn and gives it back once more.
            assert completed == 1
            assert canceled >= 1
            assert scheduled == completed + canceled
        finally:
            for agent in agents:
                await agent.stop()
