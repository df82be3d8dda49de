"""MIG instances that another program destroys while a task holds them: their successors are exclusive as well."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.agent.gpus.simulated_cards import control_of
from mesos_gpu.simulated.client import Cards
from mesos_gpu.simulated.division import instance_of
from tests.support.agent.gpu_tasks import advertised, on_gpus
from tests.support.agent.live import LiveAgent, live_agent

pytestmark = [pytest.mark.root, pytest.mark.slow]

FLAGS = (
    "--simulated_gpus=1",
    "--simulated_gpu_model=NVIDIA A100-SXM4-40GB",
    "--simulated_gpu_memory=40960MB",
    "--mig_strategy=single",
    "--mig_profiles=0:7x1g.5gb",
)
PROBE = """\
import errno, json, os, pathlib, stat, time
nodes = [path.stat().st_rdev for path in sorted(pathlib.Path("/dev").glob("nvidia-caps/*"))]
nodes.append(os.makedev(195, 0))
for number, device in enumerate(nodes):
    os.mknod(f"node{number}", stat.S_IFCHR | 0o600, device)
while True:
    found = []
    for number in range(len(nodes)):
        try:
            os.close(os.open(f"node{number}", os.O_RDONLY))
        except OSError as error:
            found.append(errno.errorcode[error.errno])
    pathlib.Path("new").write_text(json.dumps({"nodes": [[os.major(n), os.minor(n)] for n in nodes], "says": found}))
    os.rename("new", "found")
    time.sleep(0.05)
"""
"""Makes nodes of its own of all GPU numbers that it was given, and tries to open them. ENXIO: the kernel let it; EPERM:
it did not."""


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    (tmp_path / "probe.py").write_text(PROBE)
    async with live_agent(tmp_path, *FLAGS) as agent:
        yield agent


def probe(agent: LiveAgent, task_id: str, gpus: int, tmp_path: Path) -> None:
    agent.run(task_id, f"exec {sys.executable} -S {tmp_path / 'probe.py'}", resources=on_gpus(gpus))


async def can_open(agent: LiveAgent, task_id: str) -> set[tuple[int, int]]:
    """Return the device numbers that a task was given and can open now."""
    known = json.loads(await agent.until_async(lambda: found_by(agent, task_id), "says"))
    return {
        (major, minor) for (major, minor), says in zip(known["nodes"], known["says"], strict=True) if says != "EPERM"
    }


async def found_by(agent: LiveAgent, task_id: str) -> str:
    try:
        return await agent.said(task_id, "found")
    except AssertionError:
        return ""


def destroy(agent: LiveAgent, uuid: str) -> None:
    """Destroy an instance as `nvidia-smi mig -dci -dgi` does it: without asking the agent."""
    with Cards(control_of(agent.folder / "work" / "run")) as cards:
        for slot, one in map(instance_of, cards.ask("mig 0").split()):
            if one.uuid == uuid:
                cards.ask(f"mig-end 0 {slot}")
                cards.ask(f"mig-destroy 0 {slot}")


async def instance_of_task(agent: LiveAgent, task_id: str) -> str:
    (uuid,) = [gpu["uuid"] for gpu in await agent.get("/gpus") if gpu.get("task_id") == task_id]
    return str(uuid)


async def divide(agent: LiveAgent) -> Any:
    said = {"gpu": "0", "profiles": "7x1g.5gb"}
    url = f"http://127.0.0.1:{agent.port}/gpus/mig"
    async with aiohttp.ClientSession() as session, session.post(url, json=said) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def check_alone(agent: LiveAgent, tmp_path: Path, numbers: set[tuple[int, int]]) -> None:
    """Give all instances to task b, and check that task a cannot open what it once was given."""
    probe(agent, "b", 7, tmp_path)
    await agent.reaches("b", "TASK_RUNNING")
    given = await can_open(agent, "b")
    assert numbers <= given, "the new instance has the numbers of the old one"
    assert await can_open(agent, "a") == set()


@pytest.mark.parametrize("way", ["restart", "apply"])
async def test_the_holder_of_an_instance_that_was_destroyed_cannot_open_its_successor(
    agent: LiveAgent, tmp_path: Path, way: str
) -> None:
    probe(agent, "a", 1, tmp_path)
    numbers = await can_open(agent, "a")
    assert len(numbers) == 3, "two of its own, and that of the GPU"
    uuid = await instance_of_task(agent, "a")
    destroy(agent, uuid)
    if way == "restart":
        await agent.signal(signal.SIGKILL)
        await agent.start(*FLAGS)
    else:
        made = await divide(agent)
        assert len(made["create"]) == 1
    await check_alone(agent, tmp_path, numbers)
    assert advertised(agent)[-1] == 8, "seven, and the one that the master counts for task a"
    told = [one["status"]["state"] for one in agent.master.news("a") if uuid in one["status"].get("message", "")]
    assert told == ["TASK_RUNNING"]
    agent.kill("a")
    await agent.reaches("a", "TASK_KILLED")
    assert advertised(agent)[-1] == 7


async def test_the_holder_of_an_instance_that_was_destroyed_is_killed_where_unhealthy_gpus_have_that_effect(
    tmp_path: Path,
) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    async with live_agent(tmp_path, *FLAGS, "--gpu_unhealthy_action=kill") as agent:
        probe(agent, "a", 1, tmp_path)
        assert len(await can_open(agent, "a")) == 3
        uuid = await instance_of_task(agent, "a")
        destroy(agent, uuid)
        await divide(agent)
        assert uuid in (await agent.reaches("a", "TASK_FAILED"))["message"]
        await agent.until(lambda: advertised(agent)[-1] == 7)
