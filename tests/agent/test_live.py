"""The agent program with real containers and simulated GPUs: walls, endings, and death at bad moments."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from mesos_gpu.agent import opening
from mesos_gpu.mesos.security.authentication import EXECUTOR_TOKEN
from tests.support.agent.access import JSON, as_, secret_files
from tests.support.agent.documents import AGENT_ID, scalar, task
from tests.support.agent.groups import launch, said
from tests.support.agent.live import LiveAgent, live_agent, new_master

pytestmark = pytest.mark.root

# What a task sees: the nodes in /dev, the GPUs of nvidia-smi, and what opening each GPU's number answers even with a
# node of its own making. ENXIO (No such device) comes from the kernel, which has no such driver here: it was allowed.
LOOK = r"""
ls /dev | grep -E '^nvidia[0-9]+$' | tr '\n' ' '; echo
nvidia-smi -L
for number in 0 1 2 3; do
    mknod node$number c 195 $number
    if ! message=$( { : < node$number; } 2>&1 ); then echo "open $number: ${message##*: }"; fi
done
echo looked
exec sleep 600
"""


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path) as live:
        yield live


async def test_endings_in_the_words_of_mesos(agent: LiveAgent) -> None:
    agent.run("seven", "exit 7")
    agent.run("killed", "kill -9 $$")
    assert (await agent.reaches("seven", "TASK_FAILED"))["message"] == "Command exited with status 7"
    assert (await agent.reaches("killed", "TASK_FAILED"))["message"] == "Command terminated with signal Killed"


async def test_a_task_that_takes_too_much_memory(agent: LiveAgent) -> None:
    resources = [scalar("cpus", 0.5), scalar("mem", 32.0)]
    agent.run("hog", "head -c 200m /dev/zero | tail", resources=resources)
    status = await agent.reaches("hog", "TASK_FAILED")
    assert status["reason"] == "REASON_CONTAINER_LIMITATION_MEMORY"
    assert status["limitation"]["resources"][0]["scalar"]["value"] == 64.0


async def test_what_cannot_be_run_is_told_in_words(agent: LiveAgent) -> None:
    image = {"type": "MESOS", "mesos": {"image": {"type": "DOCKER", "docker": {"name": "nvidia/cuda"}}}}
    agent.run("image", "nvidia-smi", container=image)
    assert "nvidia/cuda" in (await agent.reaches("image", "TASK_FAILED"))["message"]
    agent.run("user", "", command={"value": "true", "user": "no-such-user"})
    assert "no-such-user" in (await agent.reaches("user", "TASK_FAILED"))["message"]


async def test_the_containers_statistics_are_shown(agent: LiveAgent) -> None:
    agent.run("t", "echo up; exec sleep 600", gpus=1)
    await agent.until_said("t", "up")
    (line,) = await agent.get("/containers")
    assert line["executor_id"] == "t"
    assert line["statistics"]["mem_limit_bytes"] == (64 + 32) << 20
    assert line["status"]["executor_pid"] > 0
    assert (await agent.get("/metrics/snapshot"))["slave/gpus_used"] == 1.0


async def test_killed_and_started_again_nothing_is_lost(agent: LiveAgent) -> None:
    go = agent.folder / "go"
    agent.run("runs-on", LOOK, gpus=2)
    await agent.until_said("runs-on", "looked")
    agent.run("ends", f"until [ -e {go} ]; do sleep 0.01; done; exit 5", gpus=1)
    await agent.reaches("ends", "TASK_RUNNING")
    await agent.reaches("runs-on", "TASK_RUNNING")
    agent.master.acknowledges = False
    agent.run("unacknowledged", "true", gpus=1)
    first = await agent.reaches("unacknowledged", "TASK_STARTING")

    assert await agent.signal(signal.SIGKILL) == -signal.SIGKILL
    go.touch()
    agent.master.acknowledges = True
    before = len(agent.master.messages("ReregisterSlaveMessage"))
    await agent.start()
    document = agent.master.messages("ReregisterSlaveMessage")[before]
    assert document["slave"]["id"]["value"] == AGENT_ID
    assert {t["task_id"]["value"] for t in document["tasks"]} == {"runs-on", "ends", "unacknowledged"}

    assert (await agent.reaches("ends", "TASK_FAILED"))["message"] == "Command exited with status 5"
    await agent.until(lambda: agent.master.states("unacknowledged")[-1] != "TASK_STARTING")
    starting = [u for u in agent.master.updates("unacknowledged") if u["status"]["state"] == "TASK_STARTING"]
    assert {u["uuid"] for u in starting} == {first["uuid"]}
    assert len(starting) >= 2
    # The two GPUs of the task that runs on are still its own.
    agent.run("others", LOOK, gpus=2)
    nodes = [(await agent.until_said(t, "looked")).splitlines()[0].split() for t in ("runs-on", "others")]
    assert sorted(nodes[0] + nodes[1]) == ["nvidia0", "nvidia1", "nvidia2", "nvidia3"]
    agent.kill("runs-on")
    assert (await agent.reaches("runs-on", "TASK_KILLED"))["message"] == "Command terminated with signal Terminated"


async def test_killed_while_it_launches_no_gpu_is_leaked_and_no_task_forgotten(agent: LiveAgent) -> None:
    for number in range(4):
        task_id = f"t{number}"
        agent.run(task_id, "true", gpus=4)
        await agent.reaches(task_id, "TASK_STARTING")  # it leaves while the container is being launched
        await agent.signal(signal.SIGKILL)
        await agent.start()
        await agent.ends(task_id)
    agent.run("last", "nvidia-smi -L", gpus=4)
    await agent.reaches("last", "TASK_FINISHED")


async def test_sent_away_by_its_operator_it_says_goodbye_and_kills_everything(agent: LiveAgent) -> None:
    agent.run("t", "exec sleep 600", gpus=1)
    await agent.reaches("t", "TASK_RUNNING")
    assert await agent.signal(signal.SIGUSR1) == 0
    await agent.master.got("UnregisterSlaveMessage")
    assert agent.leftovers() == []
    before = len(agent.master.messages("RegisterSlaveMessage"))
    await agent.start()
    assert len(agent.master.messages("RegisterSlaveMessage")) > before  # as a new agent, which may have to ask twice
    assert agent.master.messages("ReregisterSlaveMessage") == []


async def refused(live: LiveAgent, *flags: str) -> str:
    """Run an agent that cannot work; return the one line it says."""
    process = await asyncio.create_subprocess_exec(*live.command(*flags), stderr=asyncio.subprocess.PIPE)
    _, stderr = await process.communicate()
    assert process.returncode in (1, 2)
    (line,) = stderr.decode().splitlines()
    assert line.startswith("mesos-gpu-agent: ")
    return line


async def test_an_agent_that_changed_says_what_and_what_to_do(agent: LiveAgent) -> None:
    await agent.signal(signal.SIGTERM)
    assert "resources were" in await refused(agent, "--resources=mem:1024;disk:1024")
    assert "attributes were" in await refused(agent, "--attributes=rack:r1")
    await agent.start("--attributes=rack:r1", "--reconfiguration_policy=additive")
    assert (await agent.get("/state"))["attributes"]["rack"] == "r1"
    await agent.signal(signal.SIGTERM)
    await agent.start("--attributes=rack:r1")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--nvidia_gpu_devices=0", "nvidia_gpu_devices"),
        ("--isolation=gpu/nvidia", "cgroups/devices"),
        ("--isolation=gpu/nvidia,cgroups/devices", "filesystem/linux"),
        ("--master=", "--master"),
        ("--master=zk://h:2181/", "--master"),
        ("--ip=0.0.0.0", "advertise_ip"),
        ("--gpu_driver=amd", "gpu_driver"),
        ("--mig_strategy=mixed", "mig_strategy"),
        ("--gpu_unhealthy_action=panic", "gpu_unhealthy_action"),
        ("--gpu_retest_interval=0secs", "gpu_retest_interval"),
        ("--resources=gpus:0.5", "resources"),
        ("--attributes=rack", "attributes"),
        ("--work_dir=", "work_dir"),
        ("--no_such_flag=1", "no_such_flag"),
    ],
)
async def test_flags_that_cannot_work_are_one_line_and_a_status(tmp_path: Path, flag: str, words: str) -> None:
    master = await new_master()
    try:
        live = LiveAgent(tmp_path, master)
        assert words in await refused(live, flag)
        assert live.leftovers() == []
    finally:
        await master.stop()


async def test_a_taken_port_is_told_with_the_way_out(agent: LiveAgent, tmp_path: Path) -> None:
    line = await refused(agent, f"--port={agent.port}", f"--work_dir={tmp_path / 'other'}")
    assert f"port {agent.port}" in line


async def test_two_agents_do_not_share_a_work_dir(agent: LiveAgent) -> None:
    assert f"--work_dir={agent.folder}" in await refused(agent, "--port=0")


def test_what_a_killed_agent_was_starting_is_waited_for(tmp_path: Path) -> None:
    meta = tmp_path / "work" / "meta"
    meta.mkdir(parents=True)
    # As a child between its fork and its exec: it has the lock, and is gone a moment later.
    holds = "import fcntl, sys, time\nf = open(sys.argv[1], 'w')\nfcntl.flock(f, 2)\n"
    holds += "print('held', flush=True)\ntime.sleep(1)"
    with subprocess.Popen([sys.executable, "-c", holds, str(meta / ".lock")], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        descriptor = opening._lock(tmp_path / "work")
    os.close(descriptor)


async def test_its_log_is_a_file_that_its_state_names(tmp_path: Path) -> None:
    log = tmp_path / "our.log"
    log.write_text("the first line\n")
    async with live_agent(tmp_path, f"--external_log_file={log}") as agent:
        assert (await agent.get("/state"))["external_log_file"] == str(log)
        read = await agent.get("/files/read", path="/slave/log", offset="4", length="5")
        assert read == {"data": "first", "offset": 4}
        assert "/slave/log" in await agent.get("/files/debug")


async def test_a_task_group_runs_on_an_agent_that_asks_its_executor_who_it_is(tmp_path: Path) -> None:
    words = [*secret_files(tmp_path), "--authenticate_http_readwrite", "--authenticate_http_executors"]
    async with live_agent(tmp_path, *words) as agent, aiohttp.ClientSession() as session:
        show = f"echo token=${EXECUTOR_TOKEN}.; sleep 600"
        launch(agent, task("a", show))
        await agent.reaches("a", "TASK_RUNNING")
        assert await agent.until_async(lambda: said(agent, "a"), "token") == "token=.\n"
        url = f"http://127.0.0.1:{agent.port}/api/v1"
        for headers, status in ((JSON, 401), ({**JSON, **as_("eve")}, 200)):
            async with session.post(url, data=json.dumps({"type": "GET_HEALTH"}), headers=headers) as answer:
                assert answer.status == status
        agent.kill("a")
        await agent.reaches("a", "TASK_KILLED")
        assert "a key that signs" not in agent.log.read_text()


async def test_the_key_of_executors_tokens_is_replaced_under_a_running_task_group(tmp_path: Path) -> None:
    credentials, first = secret_files(tmp_path)
    new_key = tmp_path / "new_key"
    new_key.write_text("a newer key")
    new_key.chmod(0o600)
    old_path = first.partition("=")[2]
    words = [credentials, "--authenticate_http_readwrite", "--authenticate_http_executors"]
    patient = "--executor_reregistration_timeout=15secs"
    async with live_agent(tmp_path, *words, first) as agent:
        launch(agent, task("old", "sleep 600"))
        await agent.reaches("old", "TASK_RUNNING")
        await agent.signal(signal.SIGTERM)
        await agent.start(*words, patient, f"--jwt_secret_key={new_key},{old_path}")
        launch(agent, task("new", "sleep 600"), executor_id="second")
        await agent.reaches("new", "TASK_RUNNING")
        # The first executor is known by its old token still: it carries out a kill.
        agent.kill("old")
        await agent.reaches("old", "TASK_KILLED")
        launch(agent, task("other", "sleep 600"), executor_id="third")
        await agent.reaches("other", "TASK_RUNNING")
        await agent.signal(signal.SIGTERM)
        await agent.start(*words, patient, f"--jwt_secret_key={new_key}")
        agent.kill("new")
        await agent.reaches("new", "TASK_KILLED")
        # With another key alone the executor's token is worth nothing, and it ends with its task.
        await agent.signal(signal.SIGTERM)
        await agent.start(*words, "--executor_reregistration_timeout=2secs", first)
        assert (await agent.reaches("other", "TASK_GONE"))["reason"] == "REASON_EXECUTOR_REREGISTRATION_TIMEOUT"
