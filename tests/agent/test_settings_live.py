"""Limits, rlimits, shared memory, capabilities and secrets as a real task finds them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.support.agent.documents import scalar
from tests.support.agent.live import live_agent

pytestmark = pytest.mark.root

LOOK = r"""
ulimit -n; ulimit -Hn
df -B1 --output=size /dev/shm | tail -1 | tr -d ' '
grep CapEff /proc/self/status | cut -f2
echo $SECRET $(cat keys/secret) $(stat -c %a:%U keys/secret)
"""


async def test_a_task_has_what_it_asked_for_and_no_more(tmp_path: Path) -> None:
    async with live_agent(tmp_path) as agent:
        value = {"data": base64.b64encode(b"hush").decode()}
        secret = {"name": "SECRET", "type": "SECRET", "secret": {"type": "VALUE", "value": value}}
        container = {
            "type": "MESOS",
            "rlimit_info": {"rlimits": [{"type": "RLMT_NOFILE", "soft": 100, "hard": 200}]},
            "volumes": [
                {
                    "mode": "RO",
                    "container_path": "keys/secret",
                    "source": {"type": "SECRET", "secret": {"type": "VALUE", "value": value}},
                }
            ],
            "linux_info": {"shm_size": 3, "effective_capabilities": {"capabilities": ["CHOWN", "KILL"]}},
        }
        command = {"value": LOOK, "user": "nobody", "environment": {"variables": [secret]}}
        agent.run("asks", "", command=command, container=container)
        await agent.reaches("asks", "TASK_FINISHED")
        kill_and_chown = f"{(1 << 0) | (1 << 5):016x}"
        assert (await agent.said("asks")).split() == [
            "100",
            "200",
            str(3 << 20),
            kill_and_chown,
            "hush",
            "hush",
            "400:nobody",
        ]
        state = await agent.get("/state")
        assert value["data"] not in str(state)
        assert "hush" not in str(state)

        # 96 MiB, more than the 32 + 32 it is sure of, within its limit; then past that.
        resources = [scalar("cpus", 0.1), scalar("mem", 32.0)]
        more = {"mem": {"value": 256.0}, "cpus": {"value": "Infinity"}}
        agent.run("bursts", "head -c 96m /dev/zero | tail | wc -c", resources=resources, limits=more)
        await agent.reaches("bursts", "TASK_FINISHED")
        agent.run("hog", "head -c 600m /dev/zero | tail", resources=resources, limits=more)
        status = await agent.reaches("hog", "TASK_FAILED")
        assert status["reason"] == "REASON_CONTAINER_LIMITATION_MEMORY"
        assert status["limitation"]["resources"][0]["scalar"]["value"] == 288.0
        first, _, statistics = status["message"].partition("\n\n")
        assert "288MB" in first
        assert statistics.startswith("MEMORY STATISTICS: \n")


async def test_a_task_with_an_empty_set_of_capabilities_has_none(tmp_path: Path) -> None:
    async with live_agent(tmp_path) as agent:
        for number, name in enumerate(("effective_capabilities", "capability_info", "bounding_capabilities")):
            container = {"type": "MESOS", "linux_info": {name: {"capabilities": []}}}
            command = {"value": "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | cut -f2", "user": "root"}
            agent.run(f"t{number}", "", command=command, container=container)
            await agent.reaches(f"t{number}", "TASK_FINISHED")
            assert (await agent.said(f"t{number}")).split() == ["0" * 16] * 5, name
