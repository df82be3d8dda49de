"""GPUs lent by the agent program: they leave the offers at once, outlast a kill -9, and come back with their holder."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.agent.live import LiveAgent, live_agent
from tests.support.golden import Golden

pytestmark = pytest.mark.root


class Bank:
    """An agent program that is asked for GPUs."""

    def __init__(self, agent: LiveAgent) -> None:
        self.agent = agent

    async def ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.agent.port}{path}"
        async with aiohttp.ClientSession() as session, session.request(method, url, json=document) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())

    async def lend(self, **keys: Any) -> tuple[int, Any]:
        return await self.ask("POST", "/gpus/leases", {"door": "docker", "holder": "web", **keys})

    def advertised(self) -> int:
        """Return how many GPUs the newest registration has."""
        names = ("RegisterSlaveMessage", "ReregisterSlaveMessage")
        newest = [document for name, document in self.agent.master.received if name in names][-1]
        return int(sum(r["scalar"]["value"] for r in newest["slave"]["resources"] if r["name"] == "gpus"))

    async def until_advertised(self, gpus: int) -> None:
        await self.agent.master.until(lambda: self.advertised() == gpus)


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[Bank]:
    async with live_agent(tmp_path) as agent:
        yield Bank(agent)


async def holder() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", "import signal; signal.pause()")


async def end(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


async def test_what_is_lent_is_offered_no_more_until_its_holder_is_gone(bank: Bank, golden: Golden) -> None:
    process = await holder()
    try:
        status, lease = await bank.lend(count=2, pid=process.pid, container="c" * 64)
        assert (status, len(lease["gpus"])) == (201, 2)
        assert {node["path"] for node in lease["devices"]} >= {"/dev/nvidiactl", "/dev/nvidia-uvm"}
        assert all(Path(node["host_path"]).is_char_device() for node in lease["devices"])
        assert lease["mounts"][0]["destination"] == "/usr/local/nvidia"
        assert lease["environment"] == {"NVIDIA_VISIBLE_DEVICES": ",".join(gpu["uuid"] for gpu in lease["gpus"])}
        await bank.until_advertised(2)
        shown = [gpu for gpu in await bank.agent.get("/gpus") if "lease_id" in gpu]
        assert {(gpu["door"], gpu["holder"], gpu["lease_id"]) for gpu in shown} == {("docker", "web", lease["id"])}
        assert len(shown) == 2
        # Not by the next process either.
        await bank.agent.signal(signal.SIGKILL)
        await bank.agent.start()
        assert bank.advertised() == 2
        assert (await bank.ask("GET", f"/gpus/leases/{lease['id']}"))[1]["devices"] == lease["devices"]
        status, why = await bank.lend(count=3, pid=process.pid)
        assert (status, why) == (409, golden.hide(lease=lease["id"]))
        # A task gets what is left, and not what is lent.
        bank.agent.run("task", "ls /dev | grep -E '^nvidia[0-9]+$'; exec sleep 600", gpus=2)
        left = {f"nvidia{gpu['minor']}" for gpu in await bank.agent.get("/gpus") if "lease_id" not in gpu}
        assert set((await bank.agent.until_said("task", "nvidia3")).split()) == left
        status, why = await bank.lend(gpus="all", pid=process.pid)
        assert (status, "Mesos: task task of framework" in why) == (409, True)
    finally:
        await end(process)
    await bank.until_advertised(4)
    assert (await bank.ask("GET", "/gpus/leases"))[1] == []


async def test_an_engines_container_has_its_gpus_until_it_is_removed(bank: Bank, tmp_path: Path) -> None:
    process, containers = await holder(), tmp_path / "containers"
    containers.mkdir()
    status, lease = await bank.lend(count=1, pid=process.pid, containers=str(containers))
    assert status == 201
    made = containers / ("d" * 64)
    made.mkdir()
    Path(lease["cidfile"]).write_text(made.name)

    async def container() -> str:
        return str((await bank.ask("GET", f"/gpus/leases/{lease['id']}"))[1]["container"])

    await bank.agent.until_async(container, made.name)
    await end(process)
    await bank.agent.signal(signal.SIGKILL)
    await bank.agent.start()
    assert bank.advertised() == 3
    made.rmdir()
    await bank.until_advertised(4)
    await bank.agent.until(lambda: not Path(lease["cidfile"]).exists())


async def test_a_lease_is_given_back_passed_on_or_refused(bank: Bank, golden: Golden) -> None:
    one, other = await holder(), await holder()
    status, lease = await bank.lend(count=1, pid=one.pid)
    path = f"/gpus/leases/{lease['id']}"
    assert (await bank.ask("PUT", path, {"pid": other.pid}))[1]["watched"]["pids"] == [one.pid, other.pid]
    await end(one)
    await bank.agent.signal(signal.SIGKILL)
    await bank.agent.start()
    assert bank.advertised() == 3
    assert (await bank.ask("DELETE", path))[0] == 204
    assert (await bank.ask("DELETE", path))[0] == 404
    await bank.until_advertised(4)
    golden.hide(pid=other.pid)
    for keys, status in (
        ({"count": 1}, 400),
        ({"count": 1, "pid": 1 << 22}, 400),
        ({"count": 1, "pid": other.pid, "started": 1}, 400),
        ({"gpus": ["GPU-none"], "pid": other.pid}, 404),
        ({"count": 1, "pid": other.pid, "containers": "/none"}, 400),
    ):
        assert await bank.lend(**keys) == (status, golden)
    assert (await bank.ask("PATCH", path))[0] == 405
    assert (await bank.ask("POST", "/gpus/leases", [1]))[0] == 400
    await end(other)
