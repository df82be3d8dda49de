"""An agent shows a master who it is, over real sockets: the right secret, the wrong one, none, and after breaks."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos.security.cram_md5 import Credential
from tests.support.cluster import cluster_agent
from tests.support.master.live import ScriptedAgent, live_master, soon, until

TIM = Credential("tim", "tanstaaftanstaaf")


def asking(folder: Path, *more: str) -> list[str]:
    path = folder / "credentials"
    path.write_text('{"credentials": [{"principal": "tim", "secret": "tanstaaftanstaaf"}]}')
    path.chmod(0o600)
    return ["--authenticate_agents", f"--credentials={path}", *more]


def address(master: RunningMaster) -> str:
    return master.url.removeprefix("http://")


async def test_the_right_secret_registers_and_again_after_each_break(tmp_path: Path) -> None:
    async with (
        live_master(tmp_path / "master", *asking(tmp_path)) as master,
        cluster_agent(tmp_path / "agent", address(master), credential=TIM) as agent,
    ):
        await soon(agent.agent.registered.wait())
        assert master.link._authenticators.principals == {str(agent.endpoint.pid("slave(1)")): "tim"}
        agent_id, port = agent.agent.agent_id, master.endpoint.port
        await master.close()
        await until(lambda: not agent.agent.registered.is_set())
        async with live_master(tmp_path / "master", *asking(tmp_path, f"--port={port}")) as second:
            await soon(agent.agent.registered.wait())
            assert list(second.engine.state.agents) == [agent_id]


async def test_the_wrong_secret_stops_the_agent_and_registers_nobody(tmp_path: Path) -> None:
    async with live_master(tmp_path / "master", *asking(tmp_path)) as master:
        wrong = Credential("tim", "guessed")
        async with cluster_agent(tmp_path / "agent", address(master), credential=wrong) as agent:
            await soon(agent.agent.stopped.wait())
            assert "tim" in str(agent.agent.stop_reason)
            assert master.engine.state.agents == {}


async def test_without_a_secret_nobody_is_registered_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with live_master(tmp_path / "master", *asking(tmp_path)) as master:
        stranger = ScriptedAgent(master.url)
        await stranger.start()
        try:
            stranger.introduce("RegisterSlaveMessage")
            await until(lambda: stranger.pid in caplog.text)
            assert master.engine.state.agents == {}
        finally:
            await stranger.stop()


async def test_an_agent_with_a_secret_asks_a_master_without_any_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        live_master(tmp_path / "master") as master,
        cluster_agent(tmp_path / "agent", address(master), credential=TIM) as agent,
    ):
        caplog.set_level(logging.WARNING)
        await until(lambda: caplog.text.count("authenticator") >= 2)
        assert not agent.agent.registered.is_set()
        assert master.engine.state.agents == {}  # an agent with a credential never registers without


async def test_a_stranger_cannot_end_the_conversation_of_another(tmp_path: Path) -> None:
    """Somebody else answers the challenge, or asks under the agent's pid: the agent gets in all the same."""
    async with live_master(tmp_path / "master", *asking(tmp_path)) as master:
        intruder = ScriptedAgent(master.url)
        await intruder.start()
        try:
            async with cluster_agent(tmp_path / "agent", address(master), credential=TIM) as agent:
                for _ in range(3):
                    intruder.say("AuthenticateMessage", {"pid": str(agent.endpoint.pid("slave(1)"))})
                    await asyncio.sleep(0)
                await until(lambda: agent.agent.registered.is_set())
        finally:
            await intruder.stop()
