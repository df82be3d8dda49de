"""Agents that are away for longer than `--agent_reregister_timeout`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.model import KnownAgent
from mesos_gpu.master.model.record import Record
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.process.endpoint import Endpoint
from tests.support.golden import Golden
from tests.support.master.build import framework_info, report, task_info
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, soon, until

SLOW = "--agent_removal_rate_limit=1/1hrs"


async def test_agents_of_the_registry_that_stay_away_are_given_up_one_after_the_other(tmp_path: Path) -> None:
    async with live_master(tmp_path) as first:
        for _ in range(3):
            agent = ScriptedAgent(first.url)
            await agent.start()
            await agent.register()
            await agent.stop()
    async with live_master(tmp_path, "--agent_reregister_timeout=10ms", SLOW) as second:
        state, limit = second.engine.state, second.link._limit
        await until(lambda: len(limit._waiting) == 2 and bool(state.unreachable))
        assert len(state.unreachable) == 1, "the first goes at once, the others in one hour and in two"
        assert len(state.recovered) == 2
        assert state.counters["recovery_slave_removals"] == 1
    async with live_master(tmp_path) as third:
        state = third.engine.state
        assert (len(state.unreachable), len(state.recovered)) == (1, 2), "those that wait are still known"


async def test_one_that_comes_back_while_it_waits_for_its_turn_stays(tmp_path: Path) -> None:
    agents = []
    async with live_master(tmp_path) as first:
        for _ in range(2):
            agents.append(agent := ScriptedAgent(first.url))
            await agent.start()
            await agent.register()
    try:
        async with live_master(tmp_path, "--agent_reregister_timeout=10ms", SLOW) as second:
            state, limit = second.engine.state, second.link._limit
            await until(lambda: len(limit._waiting) == 1 and bool(state.unreachable))
            (late,) = [agent for agent in agents if agent.id in state.recovered]
            late.master = Pid.parse(f"master@127.0.0.1:{second.endpoint.port}")
            await late.reregister([], [])
            assert late.id in state.agents
            assert not limit._waiting
    finally:
        for agent in agents:
            await agent.stop()


async def test_a_master_that_would_give_up_too_many_stops_instead(tmp_path: Path, golden: Golden) -> None:
    record = Record(agents={name: KnownAgent(report(agent_id=name).info, report().pid) for name in ("S1", "S2", "S3")})
    Registry(tmp_path).save(record)
    flags = ("--agent_reregister_timeout=10ms", "--recovery_agent_removal_limit=99%")
    async with live_master(tmp_path, *flags) as master:
        with pytest.raises(Unavailable) as stopped:
            await soon(asyncio.shield(master.engine.failed))
        assert str(stopped.value) == golden
        assert len(master.engine.state.recovered) == 3
    assert list(Registry(tmp_path).load().agents) == ["S1", "S2", "S3"]
    async with live_master(tmp_path, flags[0], "--recovery_agent_removal_limit=100%") as master:
        await until(lambda: len(master.engine.state.unreachable) == 3)
    async with live_master(tmp_path, flags[0], "--recovery_agent_removal_limit=0%") as master:
        master.link._absences._recovery_ended()
        assert not master.engine.failed.done(), "nobody was missing"


async def test_an_agent_whose_link_stays_broken_is_unreachable_in_mesos_words(tmp_path: Path) -> None:
    """Though its pings may be answered: somebody answers at that address, and does not register."""
    async with live_master(tmp_path, "--agent_reregister_timeout=50ms") as master:
        agent, scheduler = ScriptedAgent(master.url), Scheduler(master.url)
        try:
            await agent.start()
            await agent.register()
            info = framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE", checkpoint=True)
            await scheduler.subscribe(info)
            await scheduler.launch(await scheduler.offer(), task_info(master.engine.state.agents[agent.id]))
            await agent.message("RunTaskMessage")
            await agent.stop()
            status = await scheduler.status()
            words = "agent did not re-register within 50ms after disconnecting"
            assert (status["state"], status["reason"]) == ("TASK_UNREACHABLE", "REASON_AGENT_REMOVED")
            assert status["message"] == f"Agent 127.0.0.1 is unreachable: {words}"
            assert agent.id in master.engine.state.unreachable
        finally:
            await scheduler.close()


async def test_an_agent_that_is_back_in_time_stays_and_its_next_absence_is_counted_anew(tmp_path: Path) -> None:
    async with live_master(tmp_path) as master:
        absences = master.link._absences
        agent = ScriptedAgent(master.url)
        await agent.start()
        await agent.register()
        seen = []
        for _ in range(2):
            await agent.stop()
            await until(lambda: agent.id in absences._away)
            seen.append(absences._away[agent.id])
            agent.endpoint = Endpoint("127.0.0.1", agent.endpoint.port)
            await agent.start()
            agent.introduce("ReregisterSlaveMessage")
            await agent.message("SlaveReregisteredMessage", ("CheckpointResourcesMessage",))
            assert not absences._away
        for absence in seen:  # the timers of both run on, and find that they are too late
            absences._too_long(agent.id, absence)
        assert agent.id in master.engine.state.agents
        await agent.stop()
