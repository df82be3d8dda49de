"""A task whose sandbox grows past its disk, also over a restart of the agent."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.agent.custom_executors import hosted
from tests.support.agent.documents import scalar
from tests.support.agent.live import FRAMEWORK, live_agent

pytestmark = pytest.mark.root

ISOLATION = "cgroups/cpu,cgroups/mem,cgroups/devices,filesystem/linux,namespaces/pid,docker/runtime,gpu/nvidia,disk/du"
QUOTA = (f"--isolation={ISOLATION}", "--container_disk_watch_interval=50ms", "--enforce_container_disk_quota")


async def test_a_sandbox_above_its_quota_ends_the_task_as_mesos_says(tmp_path: Path) -> None:
    async with live_agent(tmp_path) as agent:
        assert await agent.signal(signal.SIGTERM) == 0
        await agent.start(*QUOTA)
        resources = [scalar("cpus", 0.1), scalar("mem", 32.0), scalar("disk", 4.0)]
        line = "echo up; until [ -e go ]; do sleep 0.02; done; head -c 8m /dev/zero > file; exec sleep 600"
        agent.run("fat", line, resources=resources)
        await agent.until_said("fat", "up")

        async def measured() -> dict[str, float]:
            while True:
                (shown,) = await agent.get("/containers")
                if "disk_used_bytes" in shown["statistics"]:
                    return dict(shown["statistics"])

        statistics = await measured()
        assert statistics["disk_limit_bytes"] == 4 << 20
        assert 0 < statistics["disk_used_bytes"] < 1 << 20
        await agent.signal(signal.SIGKILL)
        await agent.start(*QUOTA)
        (sandbox,) = (path.parent for path in tmp_path.rglob("runs/*/stdout") if path.parent.name != "latest")
        (sandbox / "go").touch()
        status = await agent.reaches("fat", "TASK_FAILED")
        assert status["reason"] == "REASON_CONTAINER_LIMITATION_DISK"
        assert status["message"].startswith("Disk usage (")
        assert status["message"].endswith(") exceeds quota (4MB)")
        assert status["limitation"]["resources"][0]["name"] == "disk"
        assert status["limitation"]["resources"][0]["scalar"]["value"] == 4.0


async def test_an_executor_may_fill_what_it_and_its_tasks_have(tmp_path: Path) -> None:
    async with live_agent(tmp_path, *QUOTA) as agent:
        first, second = hosted("first"), hosted("second")
        disk = {"name": "disk", "type": "SCALAR", "allocation_info": {"role": "*"}, "role": "*"}
        for document, size in ((first, 4.0), (second, 16.0)):
            document["resources"].append({**disk, "scalar": {"value": size}})
        agent.master.run(FRAMEWORK, first)
        await agent.reaches("first", "TASK_RUNNING")

        async def limit() -> str:
            (shown,) = await agent.get("/containers")
            return str(shown["statistics"].get("disk_limit_bytes"))

        assert await agent.until_async(limit, str(4 << 20))
        agent.master.run(FRAMEWORK, second, launch_executor=False)
        await agent.reaches("second", "TASK_RUNNING")
        assert await agent.until_async(limit, str(20 << 20))
        (sandbox,) = (
            path.parent
            for path in tmp_path.rglob("slaves/*/frameworks/*/executors/echo/runs/*/stdout")
            if path.parent.name != "latest"
        )
        (sandbox / "eight").write_bytes(bytes(8 << 20))  # more than the first alone may have

        async def used() -> str:
            (shown,) = await agent.get("/containers")
            return "yes" if shown["statistics"]["disk_used_bytes"] > 8 << 20 else "no"

        assert await agent.until_async(used, "yes")
        (sandbox / "sixteen").write_bytes(bytes(16 << 20))
        for name in ("first", "second"):
            status = await agent.reaches(name, "TASK_FAILED")
            assert status["reason"] == "REASON_CONTAINER_LIMITATION_DISK"
            assert status["message"].endswith(") exceeds quota (20MB)")
