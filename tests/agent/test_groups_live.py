"""Task groups under the agent program: Mesos' default executor in a real container, its tasks nested in it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mesos_gpu.container.cgroups import find_cgroups
from tests.support import places
from tests.support.agent.documents import task
from tests.support.agent.groups import executors, launch, said
from tests.support.agent.live import LiveAgent, live_agent
from tests.support.images.build import busybox_image, save_archive

pytestmark = pytest.mark.root

RECORDED = json.loads((places.RECORDED / "nested-containers.json").read_text())
IMAGE = {"type": "MESOS", "mesos": {"image": {"type": "DOCKER", "docker": {"name": "small"}}}}
PATIENT = "--executor_reregistration_timeout=15secs"  # of a busy machine; it continues as soon as all are back
MEM_80 = {"mem": {"value": 80.0}}
GPUS = "ls /dev | grep -c '^nvidia[0-9]'"


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    archives = tmp_path / "archives"
    archives.mkdir()
    save_archive(archives / "small.tar", busybox_image(), "small:latest")
    async with live_agent(tmp_path, "--image_providers=docker", f"--docker_registry={archives}") as live:
        yield live


async def test_a_group_shares_gpus_and_network_and_dies_together_over_a_restart_of_the_agent(agent: LiveAgent) -> None:
    a = task("a", f"{GPUS}; exec httpd -f -p 127.0.0.1:0 || exec sleep 600", gpus=1, container=IMAGE)
    b = task("b", f"{GPUS}; readlink /proc/self/ns/net; exec sleep 600")
    launch(agent, a, b)
    statuses = [await agent.reaches(name, "TASK_RUNNING") for name in ("a", "b")]
    containers = [status["container_status"]["container_id"] for status in statuses]
    assert containers[0]["parent"] == containers[1]["parent"]
    assert all(status["container_status"]["executor_pid"] > 0 for status in statuses)
    for name in ("a", "b"):  # as Mesos' default executor: what one task brings, all of the pod can open
        await agent.until_async(lambda name=name: said(agent, name), "1\n")
    assert Path("/proc/self/ns/net").readlink().name in await said(agent, "b")

    (ours,) = await executors(agent)
    real = RECORDED[0]["response"]["body"]["frameworks"][0]["executors"][0]
    assert set(ours) == set(real)
    assert (ours["type"], ours["name"], ours["source"]) == (real["type"], real["name"], real["source"])
    shown, real_task = ours["tasks"][1], real["tasks"][1]
    assert set(shown) == set(real_task)
    assert [set(status) for status in shown["statuses"]] == [set(status) for status in real_task["statuses"]]
    assert set(shown["statuses"][1]["container_status"]) == set(real_task["statuses"][1]["container_status"])
    (container,) = await agent.get("/containers")
    (real_container,) = RECORDED[1]["response"]["body"]
    assert set(real_container) <= set(container)
    assert len(container["gpus"]) == 1

    await agent.signal(signal.SIGKILL)
    await agent.start("--image_providers=docker", f"--docker_registry={agent.folder / 'archives'}", PATIENT)
    agent.kill("a")
    for name in ("a", "b"):
        status = await agent.reaches(name, "TASK_KILLED")
        assert status["message"] == "Command terminated with signal Terminated"
        assert agent.master.states(name)[-2:] == ["TASK_KILLING", "TASK_KILLED"]
    assert (await agent.master.got("ExitedExecutorMessage"))["status"] == 0
    agent.run("all", "true", gpus=4)
    await agent.reaches("all", "TASK_FINISHED")


async def test_one_executor_runs_several_groups_and_each_ends_for_itself(agent: LiveAgent) -> None:
    launch(agent, task("a", "exec sleep 600"))
    await agent.reaches("a", "TASK_RUNNING")
    launch(agent, task("b", f"{GPUS}; exit 3", gpus=2), task("c", "exec sleep 600"), new=False)
    assert (await agent.reaches("b", "TASK_FAILED"))["message"] == "Command exited with status 3"
    await agent.reaches("c", "TASK_KILLED")
    assert await said(agent, "b") == "2\n"
    assert agent.master.states("a")[-1] == "TASK_RUNNING"
    launch(agent, task("d", "true", max_completion_time={"nanoseconds": 60_000_000_000}), new=False)
    await agent.reaches("d", "TASK_FINISHED")
    launch(agent, task("e", "", command={"value": "./none", "shell": False}), new=False)
    await agent.ends("e")
    agent.kill("a")
    await agent.reaches("a", "TASK_KILLED")
    assert (await agent.master.got("ExitedExecutorMessage"))["status"] == 0


async def test_checks_look_into_the_tasks_own_container(agent: LiveAgent) -> None:
    times = {"delay_seconds": 0, "interval_seconds": 0.1, "grace_period_seconds": 0, "consecutive_failures": 1}
    health = {"type": "COMMAND", "command": {"value": "test ! -e ill"}, **times}
    launch(agent, task("a", "exec sleep 600", container=IMAGE, health_check=health))
    await agent.master.until(lambda: any(u["status"].get("healthy") for u in agent.master.updates("a")))
    (executor,) = await executors(agent)
    Path(executor["directory"], "tasks", "a", "ill").touch()
    assert (await agent.reaches("a", "TASK_KILLED"))["healthy"] is False


async def test_a_task_of_a_group_may_have_limits_and_uris_of_its_own(agent: LiveAgent) -> None:
    async def program(request: web.Request) -> web.Response:
        return web.Response(text="echo fetched by $(id -un)\n")

    app = web.Application()
    app.router.add_get("/hello.sh", program)
    rlimits = {"rlimits": [{"type": "RLMT_NOFILE", "soft": 77, "hard": 77}]}
    own = {"type": "MESOS", "linux_info": {"share_cgroups": False}, "rlimit_info": rlimits}
    async with TestServer(app) as server:
        uris = [{"value": str(server.make_url("/hello.sh"))}]
        command = {"value": "sh hello.sh; ulimit -n; stat -c %U hello.sh .", "uris": uris, "user": "nobody"}
        launch(agent, task("fetches", container={"type": "MESOS", "rlimit_info": rlimits}, command=command))
        await agent.reaches("fetches", "TASK_FINISHED")
    assert (await said(agent, "fetches")).splitlines() == ["fetched by nobody", "77", "nobody", "nobody"]
    await agent.master.got("ExitedExecutorMessage")

    launch(agent, task("eats", f"exec {sys.executable} -c 'bytearray(300 << 20)'", container=own, limits=MEM_80))
    status = await agent.reaches("eats", "TASK_FAILED")
    if find_cgroups("tests").version == 2:
        assert "share_cgroups=false" in status["message"]
    else:
        assert status["reason"] == "REASON_CONTAINER_LIMITATION_MEMORY"
        (limited,) = status["limitation"]["resources"]
        assert (limited["name"], limited["scalar"]["value"]) == ("mem", 80.0)
