"""Sandboxes of an agent program that collects at once: what ended goes, what lives and what is shared stays."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.agent.attach import Client, container_id
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID
from tests.support.agent.live import LiveAgent, live_agent

pytestmark = pytest.mark.root

AT_ONCE = ("--gc_delay=1ms", "--gc_non_executor_container_sandboxes")


def run_of(agent: LiveAgent, task_id: str) -> Path:
    (run,) = (path for path in runs(agent, task_id) if not path.is_symlink())
    return run


def runs(agent: LiveAgent, task_id: str) -> list[Path]:
    around = agent.folder / "work" / "slaves" / AGENT_ID / "frameworks" / FRAMEWORK_ID / "executors" / task_id
    try:
        return list((around / "runs").iterdir())
    except FileNotFoundError:
        return []


async def metric(agent: LiveAgent, name: str) -> float:
    return float((await agent.get("/metrics/snapshot"))[f"gc/path_removals_{name}"])


async def test_what_ended_is_removed_and_no_longer_served_and_all_else_stays(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "data").write_text("precious")
    mounted: dict[str, Any] = {
        "container": {
            "type": "MESOS",
            "volumes": [{"host_path": str(shared), "container_path": "volume", "mode": "RW"}],
        }
    }
    async with live_agent(tmp_path) as agent:
        agent.run("keeper", "echo up; exec sleep 600")
        await agent.until_said("keeper", "up")
        agent.run("before", f"cat volume/data; ln -s {shared} link", **mounted)
        await agent.reaches("before", "TASK_FINISHED")
        before = run_of(agent, "before")
        # A run of its framework lives, so that only the run and its executor wait, in the work_dir and below meta.
        await agent.until_async(lambda: _text(metric(agent, "pending")), "4")
        assert (before / "stdout").read_text() == "precious"
        assert (await agent.get("/state"))["flags"]["gc_delay"] == "1weeks"

        await agent.signal(signal.SIGTERM)
        await agent.start(*AT_ONCE)
        await agent.until(lambda: runs(agent, "before") == [])
        assert not (agent.folder / "work" / "meta" / before.parents[1].relative_to(agent.folder / "work")).exists()
        await agent.until_async(lambda: _text(metric(agent, "succeeded")), "4")
        assert (await agent.said("keeper")) == "up\n"

        agent.run("after", f"cat volume/data; ln -s {shared} link", **mounted)
        await agent.reaches("after", "TASK_FINISHED")
        await agent.until(lambda: runs(agent, "after") == [])
        assert (shared / "data").read_text() == "precious"
        past = (await agent.get("/state"))["frameworks"][0]["completed_executors"]
        (gone,) = [executor for executor in past if executor["id"] == "after"]
        async with aiohttp.ClientSession() as session:
            for path in (gone["directory"], f"/frameworks/{FRAMEWORK_ID}/executors/after/runs/latest"):
                url = f"http://127.0.0.1:{agent.port}/files/browse"
                async with session.get(url, params={"path": path}) as answer:
                    assert answer.status == 404
            assert not [path for path in await agent.get("/files/debug") if "executors/after" in path]

            keeper = run_of(agent, "keeper")
            nested = container_id(f"{keeper.name}.inner")
            command = {"shell": True, "value": "echo done"}
            client = Client(session, f"http://127.0.0.1:{agent.port}")
            assert (await client.post("LAUNCH_NESTED_CONTAINER", container_id=nested, command=command))[0] == 200
            await agent.until(lambda: not (keeper / "containers" / "inner").exists())
            assert await client.wait(f"{keeper.name}.inner") == 0, "how it ended is still known"
        assert (keeper / "stdout").read_text() == "up\n"
        assert (keeper.parent / "latest").resolve() == keeper
        assert await metric(agent, "failed") == 0

        agent.kill("keeper")
        await agent.reaches("keeper", "TASK_KILLED")
        framework = keeper.parents[3]
        await agent.until(lambda: not framework.exists())


async def _text(number: Any) -> str:
    return str(int(await number))
