"""Masters and agents of one cluster over TLS: registering, breaks, strangers, and while the cluster changes over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from mesos_gpu.master.service import RunningMaster, open_master
from mesos_gpu.mesos.security.tls_settings import TlsSettings
from mesos_gpu.process.secure.tls import Tls
from mesos_gpu.process.secure.tls_context import client_context
from tests.support.cluster import cluster_agent
from tests.support.master.live import Scheduler, master_flags, soon, until
from tests.support.tls import Authority
from tests.support.zookeeper import RealZooKeeper


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    """Everybody shows a certificate to everybody, by address."""
    authority = Authority(tmp_path_factory.mktemp("ca"))
    certificate, key = authority.issue("node")
    ca = str(authority.certificate)
    return TlsSettings(str(certificate), str(key), ca_file=ca, verify_server=True, require_client=True, verify_ip=True)


@asynccontextmanager
async def tls_master(folder: Path, tls: Tls | None, *words: str) -> AsyncIterator[RunningMaster]:
    master = await open_master(master_flags(folder, *words), tls)
    try:
        yield master
    finally:
        await master.close()


def address(master: RunningMaster) -> str:
    return f"127.0.0.1:{master.endpoint.port}"


async def test_an_agent_registers_and_comes_back_to_the_next_master(settings: TlsSettings, tmp_path: Path) -> None:
    tls = Tls(settings)
    async with (
        tls_master(tmp_path / "m", tls) as master,
        cluster_agent(tmp_path / "a", address(master), tls=tls) as agent,
    ):
        await soon(agent.agent.registered.wait())
        assert master.url == f"https://{address(master)}"
        assert str(master.endpoint.pid("master")) == f"master@{address(master)}"
        agent_id, port = agent.agent.agent_id, master.endpoint.port
        await master.close()
        await until(lambda: not agent.agent.registered.is_set())
        async with tls_master(tmp_path / "m", tls, f"--port={port}") as second:
            await soon(agent.agent.registered.wait())
            assert list(second.engine.state.agents) == [agent_id]
            scheduler = Scheduler(second.url, ssl=client_context(settings))
            try:
                await scheduler.subscribe()
                assert (await scheduler.offer())["url"]["scheme"] == "http", "as Mesos says it, whatever is spoken"
            finally:
                await scheduler.close()


async def test_the_leader_that_zookeeper_names_is_reached_over_tls_and_standbys_send_there_by_any_scheme(
    settings: TlsSettings, tmp_path: Path, zookeeper: RealZooKeeper
) -> None:
    tls, zk = Tls(settings), zookeeper.url("tls/mesos")
    async with tls_master(tmp_path / "m1", tls, f"--zk={zk}") as first:
        await until(lambda: first.leadership.leading)
        async with (
            tls_master(tmp_path / "m2", tls, f"--zk={zk}") as second,
            cluster_agent(tmp_path / "a", zk, tls=tls) as agent,
        ):
            await soon(agent.agent.registered.wait())
            assert agent.agent.agent_id in first.engine.state.agents
            connector = aiohttp.TCPConnector(ssl=client_context(settings))
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(f"{second.url}/state", allow_redirects=False) as answer,
            ):
                assert (answer.status, answer.headers["Location"]) == (307, f"//{address(first)}/state")


async def test_an_agent_of_another_authority_is_nobody(
    settings: TlsSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path / "ca")
    certificate, key = stranger.issue("node")
    credulous = TlsSettings(str(certificate), str(key))
    async with (
        tls_master(tmp_path / "m", Tls(settings)) as master,
        cluster_agent(tmp_path / "a", address(master), tls=Tls(credulous)) as agent,
    ):
        await until(lambda: "certificate" in caplog.text)
        assert not agent.agent.registered.is_set()
        assert master.engine.state.agents == {}


@pytest.mark.parametrize(
    ("at_master", "at_agent"), [("both", "none"), ("none", "both"), ("both", "tls"), ("tls", "both")]
)
async def test_while_a_cluster_changes_over_each_reaches_each(
    settings: TlsSettings, tmp_path: Path, at_master: str, at_agent: str
) -> None:
    known = {"none": None, "tls": Tls(settings), "both": Tls(replace(settings, downgrade=True))}
    async with (
        tls_master(tmp_path / "m", known[at_master]) as master,
        cluster_agent(tmp_path / "a", address(master), tls=known[at_agent]) as agent,
    ):
        await soon(agent.agent.registered.wait())
        assert list(master.engine.state.agents) == [agent.agent.agent_id]
