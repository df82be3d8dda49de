"""GPUs divided into MIG instances while tasks run, and given without a restart: a real agent, simulated GPUs."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import aiohttp
import pytest

from tests.support.agent.gpu_tasks import USER, advertised, on_gpus
from tests.support.agent.live import LiveAgent, live_agent

pytestmark = pytest.mark.root
A100 = ("--simulated_gpus=1", "--simulated_gpu_model=NVIDIA A100-SXM4-40GB", "--simulated_gpu_memory=40960MB")
SINGLE = (*A100, "--mig_strategy=single")


async def divide(agent: LiveAgent, profiles: str, **more: Any) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{agent.port}/gpus/mig"
    said = {"gpu": "0", "profiles": profiles, **more}
    async with aiohttp.ClientSession() as session, session.post(url, json=said) as response:
        text = await response.text()
        return response.status, json.loads(text) if response.status == 200 else text


async def there(agent: LiveAgent) -> list[tuple[str, int, str]]:
    """Return of each instance its profile, its memory in MiB, and who holds it."""
    gpus = await agent.get("/gpus")
    return sorted((gpu["name"].rpartition(" ")[2], gpu["memory_total_mib"], gpu.get("task_id", "")) for gpu in gpus)


async def test_a_card_is_divided_at_the_start_and_again_around_what_runs(tmp_path: Path) -> None:
    async with live_agent(tmp_path, *SINGLE, "--mig_profiles=0:3g.20gb,2x1g.5gb") as agent:
        assert advertised(agent)[-1] == 3
        assert await there(agent) == [("1g.5gb", 5120, ""), ("1g.5gb", 5120, ""), ("3g.20gb", 20480, "")]
        agent.run("user", f"nvidia-smi -L; nvidia-smi -q -x; {USER}", resources=on_gpus(1))
        await agent.until_said("user", "round 2\n")
        (holder,) = [one for one in await there(agent) if one[2]]
        assert [line.split()[1] for line in (await agent.said("user")).splitlines() if "MIG-" in line] == [holder[0]]
        report = (await agent.said("user")).partition("<?xml")[2].partition("</nvidia_smi_log>")
        log = ElementTree.fromstring("<?xml" + report[0] + report[1])
        assert [log.findtext(f"gpu/{path}") for path in ("mig_mode/current_mig", "utilization/gpu_util")] == [
            "Enabled",
            "N/A",
        ]
        assert [one.findtext("fb_memory_usage/total") for one in log.iter("mig_device")] == [f"{holder[1]} MiB"]

        status, made = await divide(agent, "7x1g.5gb", plan=True)
        if holder[0] == "1g.5gb":
            assert (status, len(made["keep"]), len(made["create"])) == (200, 2, 5)
        refused, words = await divide(agent, "7g.40gb")
        assert (refused, "task user" in words) == (409, True), words

        status, made = await divide(agent, "2g.10gb,1g.5gb")
        assert status == 200, made
        kept = [one for one in made["keep"] if one["used_by"]]
        assert [(one["profile"], one["used_by"]) for one in kept] == [(holder[0], "task user")]
        found = await there(agent)
        assert holder in found
        await agent.until(lambda: advertised(agent)[-1] == len(found))
        rounds = (await agent.said("user")).count("round ")
        await agent.until_async(lambda: agent.said("user"), f"round {rounds + 1}\n")

        agent.run("next", USER, resources=on_gpus(1))
        await agent.until_said("next", "round 2\n")
        assert {one[2] for one in await there(agent)} >= {"user", "next"}


async def test_an_agent_comes_back_to_its_instances_and_divides_no_more_than_it_may(tmp_path: Path) -> None:
    async with live_agent(tmp_path, *SINGLE, "--mig_profiles=0:7x1g.5gb") as agent:
        agent.run("user", USER, resources=on_gpus(1))
        await agent.until_said("user", "round 2\n")
        before = {gpu["uuid"]: gpu.get("task_id", "") for gpu in await agent.get("/gpus")}
        assert len(before) == 7
        await agent.signal(signal.SIGKILL)
        await agent.start(*SINGLE, "--mig_profiles=0:7g.40gb")
        after = {gpu["uuid"]: gpu.get("task_id", "") for gpu in await agent.get("/gpus")}
        assert after == before
        assert "--mig_profiles" in agent.log.read_text()
        agent.kill("user")
        await agent.reaches("user", "TASK_KILLED")
        assert (await divide(agent, "7g.40gb"))[0] == 200
        assert await there(agent) == [("7g.40gb", 40960, "")]
        await agent.until(lambda: advertised(agent)[-1] == 1)


async def test_each_task_has_the_memory_of_its_instance_and_the_time_of_nobody_else(tmp_path: Path) -> None:
    async with live_agent(tmp_path, *SINGLE, "--mig_profiles=0:4g.20gb,2g.10gb") as agent:
        agent.run("one", USER, resources=on_gpus(1))
        agent.run("two", USER, resources=on_gpus(1))
        for name in ("one", "two"):
            await agent.until_said(name, "round 2\n")
        words = sorted([(await agent.said(name)).splitlines()[0] for name in ("one", "two")])
        assert words == ["devices 1 free 17480 of 20480", "devices 1 free 7240 of 10240"]
        url = f"http://127.0.0.1:{agent.port}/gpus/suspend"
        container = (await agent.get("/gpus"))[0]["container_id"]
        async with aiohttp.ClientSession() as session, session.post(url, json={"container_id": container}) as answer:
            assert (answer.status, "has MIG instances" in await answer.text()) == (409, True)
        status, made = await divide(agent, "none")
        assert (status, len(made["beyond"])) == (200, 2)
        assert (await divide(agent, "9g.1gb"))[0] == 400
        assert (await divide(agent, "1g.5gb", gpu="7"))[0] == 409


async def test_without_mig_no_gpu_is_divided(tmp_path: Path) -> None:
    async with live_agent(tmp_path, *A100) as agent:
        status, words = await divide(agent, "7g.40gb")
        assert (status, "--mig_strategy=single" in words) == (404, True), words
        assert [gpu["memory_total_mib"] for gpu in await agent.get("/gpus")] == [40960]
