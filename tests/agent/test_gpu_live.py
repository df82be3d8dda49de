"""Ill GPUs and the agent program: what it tells a scripted master, what it shows, and what its next process knows."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.agent.live import LiveAgent, new_master
from tests.support.golden import Golden

pytestmark = pytest.mark.root

ILL = r"GPU 0 \(GPU-[0-9a-f-]+\) is unhealthy: .*XID 48.*"


class Ward:
    """An agent program whose simulated GPUs fall ill as a file says."""

    def __init__(self, agent: LiveAgent) -> None:
        self.agent = agent
        self._faults = agent.folder / "faults"

    async def start(self, *flags: str) -> None:
        await self.agent.start(f"--simulated_gpu_faults={self._faults}", *flags)

    def fault(self, *lines: str) -> None:
        """Say what is wrong from now on: `GPU XID` each."""
        written = self._faults.with_name("faults.new")
        written.write_text("".join(f"{line}\n" for line in lines))
        written.replace(self._faults)

    def advertised(self) -> int:
        """Return how many GPUs the newest registration has."""
        messages = [
            d for name, d in self.agent.master.received if name in ("RegisterSlaveMessage", "ReregisterSlaveMessage")
        ]
        return int(sum(r["scalar"]["value"] for r in messages[-1]["slave"]["resources"] if r["name"] == "gpus"))

    async def until_advertised(self, gpus: int) -> None:
        await self.agent.master.until(lambda: self.advertised() == gpus)

    async def post(self, path: str) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.agent.port}{path}"
        async with aiohttp.ClientSession() as session, session.post(url) as response:
            return response.status, await (response.json() if response.status == 200 else response.text())


@pytest.fixture
async def ward(tmp_path: Path) -> AsyncIterator[Ward]:
    master = await new_master()
    agent = LiveAgent(tmp_path, master)
    try:
        yield Ward(agent)
    finally:
        try:
            await agent.end()
        finally:
            await master.stop()
    assert agent.leftovers() == []


async def test_a_free_gpu_that_falls_ill_is_offered_no_more_until_an_operator_says_so(ward: Ward) -> None:
    await ward.start()
    assert ward.advertised() == 4
    ward.fault("2 79")
    await ward.until_advertised(3)
    gpus = await ward.agent.get("/gpus")
    (ill,) = [gpu for gpu in gpus if gpu["condition"] != "healthy"]
    assert (ill["index"], ill["condition"], ill["xid"]) == (2, "unhealthy", 79)
    # It is not given either, whatever the master believes.
    ward.agent.run("three", "ls /dev | grep -E '^nvidia[0-9]+$'; exec sleep 600", gpus=3)
    assert (await ward.agent.until_said("three", "nvidia3")).split() == ["nvidia0", "nvidia1", "nvidia3"]
    ward.agent.run("one-more", "true", gpus=1)
    await ward.agent.reaches("one-more", "TASK_FAILED")
    # Nor by the next process: what it found is on disk.
    await ward.agent.signal(signal.SIGKILL)
    ward.fault()
    await ward.start()
    assert ward.advertised() == 3

    assert (await ward.post("/gpus/GPU-none/healthy"))[0] == 404
    status, gpu = await ward.post(f"/gpus/{ill['uuid']}/healthy")
    assert (status, gpu["condition"]) == (200, "healthy")
    await ward.until_advertised(4)
    ward.agent.run("again", "true", gpus=1)
    await ward.agent.reaches("again", "TASK_FINISHED")


async def test_the_holder_of_an_ill_gpu_is_told_once_and_the_gpu_leaves_with_it(ward: Ward) -> None:
    await ward.start()
    ward.agent.run("holder", "exec sleep 600", gpus=1)
    ward.agent.run("other", "exec sleep 600", gpus=1)
    await ward.agent.reaches("holder", "TASK_RUNNING")
    await ward.agent.reaches("other", "TASK_RUNNING")
    ward.fault("0 48")
    master = ward.agent.master
    await master.until(lambda: master.states("holder").count("TASK_RUNNING") == 2)
    status = master.updates("holder")[-1]["status"]
    assert re.fullmatch(ILL, status["message"])
    assert status["container_status"]["executor_pid"] > 0
    assert ward.advertised() == 4, "it is held, so it is still booked"

    # A restart tells nobody twice.
    await ward.agent.signal(signal.SIGKILL)
    await ward.start()
    ward.agent.kill("holder")
    end = await ward.agent.reaches("holder", "TASK_KILLED")
    assert end["message"] == "Command terminated with signal Terminated"
    said = {update["uuid"] for update in master.updates("holder") if update["status"]["state"] == "TASK_RUNNING"}
    assert len(said) == 2, "what was not acknowledged came again, and nothing new"
    assert master.states("other").count("TASK_RUNNING") == 1
    # The smaller total was told before anyone heard that the GPU is free.
    received = [name for name, _ in master.received]
    ended_at = max(
        at
        for at, (name, d) in enumerate(master.received)
        if name == "StatusUpdateMessage" and _state(d) == "TASK_KILLED"
    )
    last_told = max(at for at, name in enumerate(received) if name == "ReregisterSlaveMessage")
    assert ward.advertised() == 3
    assert last_told < ended_at


def _state(document: dict[str, Any]) -> str:
    return str(document["update"]["status"]["state"])


async def test_an_ill_gpu_may_end_its_task(ward: Ward) -> None:
    await ward.start("--gpu_unhealthy_action=kill")
    ward.agent.run("holder", "exec sleep 600", gpus=1)
    await ward.agent.reaches("holder", "TASK_RUNNING")
    ward.fault("0 48")
    end = await ward.agent.reaches("holder", "TASK_FAILED")
    assert re.fullmatch(ILL, end["message"])
    assert end["reason"] == "REASON_CONTAINER_LIMITATION"
    await ward.until_advertised(3)


async def test_ill_for_its_application_only_a_task_may_finish(ward: Ward, golden: Golden) -> None:
    await ward.start("--gpu_unhealthy_action=kill")
    ward.agent.run("holder", "until [ -e done ]; do sleep 0.01; done", gpus=1)
    await ward.agent.reaches("holder", "TASK_RUNNING")
    ward.fault("0 94")
    master = ward.agent.master
    await master.until(lambda: master.states("holder").count("TASK_RUNNING") == 2)
    assert master.updates("holder")[-1]["status"]["message"] == golden
    state = await ward.agent.get("/state")
    (Path(state["frameworks"][0]["executors"][0]["directory"]) / "done").touch()
    await ward.agent.reaches("holder", "TASK_FINISHED")
    await ward.until_advertised(3)


async def test_a_gpu_comes_back_when_it_passes_a_test_and_not_before(ward: Ward) -> None:
    await ward.start("--gpu_retest_interval=100ms")
    ward.fault("1 48", "3 13")
    await ward.until_advertised(3)  # XID 13 is an application's mistake
    await ward.agent.signal(signal.SIGTERM)
    await ward.start("--gpu_retest_interval=100ms")
    assert ward.advertised() == 3
    ward.fault()
    await ward.until_advertised(4)


async def test_what_a_containers_gpus_do_is_shown(ward: Ward) -> None:
    await ward.start()
    ward.agent.run("t", "exec sleep 600", gpus=2)
    await ward.agent.reaches("t", "TASK_RUNNING")
    for endpoint in ("/containers", "/monitor/statistics"):
        (line,) = await ward.agent.get(endpoint)
        assert [gpu["minor"] for gpu in line["gpus"]] == [0, 1]
        assert set(line["gpus"][0]) >= {
            *("uuid", "minor", "index", "name", "memory_used_mib", "memory_total_mib"),
            *("utilization_percent", "power_w", "temperature_c"),
        }
    url = f"http://127.0.0.1:{ward.agent.port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    used = [line for line in text.splitlines() if line.startswith("mesos_gpu_memory_total_bytes{")]
    assert len(used) == 4
    assert sum('task="t"' in line for line in used) == 2
    assert "mesos_gpu_gpus_held 2" in text


async def test_updates_not_acknowledged_go_again_in_order_with_the_same_uuid(ward: Ward) -> None:
    await ward.start()
    master = ward.agent.master
    master.acknowledges = False
    ward.agent.run("t", "exit 3", gpus=1)
    first = await ward.agent.reaches("t", "TASK_STARTING")
    log = next((ward.agent.folder / "work").glob("meta/**/tasks/t/task.updates"))
    await ward.agent.until(lambda: "TASK_FAILED" in log.read_text())
    await ward.agent.signal(signal.SIGKILL)
    master.received.clear()
    master.acknowledges = True
    await ward.start()
    await ward.agent.reaches("t", "TASK_FAILED")
    assert list(dict.fromkeys(master.states("t"))) == ["TASK_STARTING", "TASK_RUNNING", "TASK_FAILED"]
    assert master.updates("t")[0]["status"]["uuid"] == first["uuid"]
    assert master.updates("t")[-1]["status"]["message"] == "Command exited with status 3"


async def test_a_container_that_nobody_knows_is_destroyed_and_its_gpus_are_free(ward: Ward) -> None:
    await ward.start()
    ward.agent.run("orphan", "exec sleep 600", gpus=3)
    await ward.agent.reaches("orphan", "TASK_RUNNING")
    await ward.agent.signal(signal.SIGKILL)
    # As when the work_dir lost it: the container runs on, and no checkpoint names its task.
    (run,) = (ward.agent.folder / "work").glob("meta/**/tasks/orphan")
    (run / "task.info").unlink()
    await ward.start()
    assert await ward.agent.get("/containers") == []
    ward.agent.run("all", "true", gpus=4)
    await ward.agent.reaches("all", "TASK_FINISHED")


async def test_gpus_that_are_given_together_are_the_best_connected(ward: Ward) -> None:
    await ward.start()  # the simulated ones are in pairs with NVLink: 0 and 1, 2 and 3
    look = "ls /dev | grep -E '^nvidia[0-9]+$' | tr '\\n' ' '; echo looked; exec sleep 600"
    ward.agent.run("one", look, gpus=1)
    assert await ward.agent.until_said("one", "looked") == "nvidia0 looked\n"
    ward.agent.run("pair", look, gpus=2)
    assert await ward.agent.until_said("pair", "looked") == "nvidia2 nvidia3 looked\n"
