"""The program: started as a process, with a master over HTTP behind it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.fakes.scheduler_master import SchedulerMaster
from tests.support.golden import Golden
from tests.support.marathon.builders import app, offer, status
from tests.support.marathon.program import Program
from tests.support.marathon.starts import Starts
from tests.support.tls import Authority

pytestmark = pytest.mark.slow


@pytest.fixture
async def program(tmp_path: Path, master: SchedulerMaster) -> AsyncIterator[Program]:
    made = Program(tmp_path, master.address)
    yield made
    if made.process is not None and made.process.returncode is None:
        made.process.kill()
        await made.process.communicate()


async def test_a_gpu_app_goes_all_the_way(program: Program, master: SchedulerMaster) -> None:
    await program.start()
    subscribed = await master.next_subscription()
    assert subscribed["subscribe"]["framework_info"]["roles"] == ["slave_public"]
    await program.call("POST", "/v2/apps", app(gpus=1))
    await master.next_call("REVIVE")
    master.offer(offer(gpus=2))
    (operation,) = (await master.next_call("ACCEPT"))["accept"]["operations"]
    (info,) = operation["launch"]["task_infos"]
    task_id = info["task_id"]["value"]
    master.status(status(task_id).status)
    assert (await master.next_call("ACKNOWLEDGE"))["acknowledge"]["task_id"] == {"value": task_id}
    (task,) = (await program.call("GET", "/v2/apps/a/tasks"))["tasks"]
    assert (task["id"], task["state"]) == (task_id, "TASK_RUNNING")
    assert await program.end(signal.SIGTERM) == 0
    assert master.calls.empty() or (await master.calls.get())["type"] != "TEARDOWN"


async def test_after_a_kill_it_comes_back_with_its_framework_and_tasks(
    program: Program, master: SchedulerMaster
) -> None:
    await program.start()
    await master.next_subscription()
    await program.call("POST", "/v2/apps", app())
    master.offer(offer())
    (operation,) = (await master.next_call("ACCEPT"))["accept"]["operations"]
    task_id = operation["launch"]["task_infos"][0]["task_id"]
    framework_id = (await program.call("GET", "/v2/info"))["frameworkId"]
    assert await program.end(signal.SIGKILL) == -signal.SIGKILL
    await program.start()
    assert (await master.next_subscription())["framework_id"] == {"value": framework_id}
    assert (await master.next_call("RECONCILE"))["reconcile"]["tasks"] == [
        {"task_id": task_id, "agent_id": {"value": "S0"}}
    ]
    assert (await master.next_call("RECONCILE"))["reconcile"]["tasks"] == []


async def test_killed_in_the_middle_of_an_upgrade_it_goes_on_and_starts_nothing_twice(
    program: Program, master: SchedulerMaster
) -> None:
    starts = Starts(master)

    async def kill_and_start() -> None:
        assert await program.end(signal.SIGKILL) == -signal.SIGKILL
        await program.start()
        await master.next_subscription()

    await program.start()
    await master.next_subscription()
    strategy = {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}
    await program.call("POST", "/v2/apps", app(instances=2, gpus=1, upgradeStrategy=strategy))
    old = await starts.launch()
    await starts.run(*old)
    deployment = (await program.call("PUT", "/v2/apps/a", {"labels": {"n": "2"}}))["deploymentId"]
    first = (await master.next_call("KILL"))["kill"]["task_id"]["value"]
    await kill_and_start()
    assert [each["id"] for each in await program.call("GET", "/v2/deployments")] == [deployment]
    assert (await master.next_call("KILL"))["kill"]["task_id"]["value"] == first, "asked for again"
    await starts.run(first, state="TASK_KILLED")
    (new,) = await starts.launch()
    await kill_and_start()
    await starts.run(next(task for task in old if task != first), new)
    second = (await master.next_call("KILL"))["kill"]["task_id"]["value"]
    assert {first, second} == set(old)
    await starts.run(second, state="TASK_KILLED")
    (last,) = await starts.launch()
    await kill_and_start()
    await starts.run(new, last)
    assert await program.call("GET", "/v2/deployments") == []
    tasks = (await program.call("GET", "/v2/apps/a/tasks"))["tasks"]
    assert {task["id"] for task in tasks} == {new, last}
    assert len(starts.ids) == len(set(starts.ids)) == 4


async def test_the_api_answers_without_a_master(program: Program, master: SchedulerMaster) -> None:
    await master.stop()
    await program.start()
    assert (await program.call("POST", "/v2/apps", app()))["id"] == "/a"
    assert (await program.call("GET", "/v2/info"))["frameworkId"] is None
    assert await program.end(signal.SIGINT) == 0


async def test_an_abort_of_pymesos_is_no_interrupt(program: Program, master: SchedulerMaster) -> None:
    master.refuse_with = 403
    await program.start()
    for _ in range(2):
        await asyncio.wait_for(master.tried.get(), 60)
    master.refuse_with = None
    await master.next_subscription()
    assert (await program.call("GET", "/v2/apps")) == {"apps": []}
    assert await program.end(signal.SIGINT) == 0


async def test_being_taken_over_ends_it_with_one_clear_line(program: Program, master: SchedulerMaster) -> None:
    await program.start()
    await master.next_subscription()
    master.send({"type": "ERROR", "error": {"message": "Framework failed over"}})
    words = (await program.words()).strip().splitlines()
    assert program.process is not None
    assert program.process.returncode == 1
    assert words[-1].startswith("mesos-gpu-marathon: ")


async def test_a_taken_port_is_one_clear_line(program: Program, golden: Golden) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = await program.spawn(f"--http_port={port}")
        words = await program.words()
    assert process.returncode == 1
    assert words.splitlines() == golden.hide(port=port)


async def test_a_store_in_use_is_one_clear_line(
    program: Program, tmp_path: Path, master: SchedulerMaster, golden: Golden
) -> None:
    await program.start()
    second = Program(tmp_path, master.address)
    process = await second.spawn()
    assert (await second.words()).splitlines() == golden
    assert process.returncode == 1


@pytest.mark.parametrize(("flag", "value"), [("--mesos_rol", "x"), ("--enable_features", "x")])
async def test_bad_flags_are_bad_usage(program: Program, flag: str, value: str) -> None:
    process = await program.spawn(f"{flag}={value}")
    assert flag in await program.words()
    assert process.returncode == 2


async def test_with_a_certificate_the_api_is_served_over_tls_too(
    program: Program, master: SchedulerMaster, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("node")
    await program.start(f"--ssl_cert_file={certificate}", f"--ssl_key_file={key}", "--https_port=0")
    url = json.loads((tmp_path / "ready.json").read_text())["https_url"]
    context = ssl.create_default_context(cafile=str(authority.certificate))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(f"{url}/v2/info") as answer:
            info = await answer.json()
        assert f"https://127.0.0.1:{info['http_config']['https_port']}" == url
        assert (await program.call("GET", "/v2/info"))["http_config"] == info["http_config"]
        with pytest.raises(aiohttp.ClientError):
            await session.get(url.replace("https", "http") + "/ping")
    assert await program.end(signal.SIGTERM) == 0
    await program.spawn(f"--ssl_cert_file={certificate}", "--ssl_key_file=/no/key.pem")
    assert "/no/key.pem" in await program.words()
