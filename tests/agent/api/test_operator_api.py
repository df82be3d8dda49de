"""The endpoints answer as a real agent did: statuses, keys and kinds of values."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from socket import AF_INET, AF_UNIX
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from mesos_gpu.agent.api.here import is_from_here
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.messages import devolve
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import ALL_CAPABILITIES, framework, scalar, task
from tests.support.agent.running import Running, Start
from tests.support.places import RECORDED

# Ours has no git behind it, and fewer flags and parts (docs/reference/differences.md).
NOT_OURS = {"git_sha", "flags"}
SIMPLE = "echo hello; sleep 30"


def recorded(name: str, path: str) -> Any:
    for exchange in json.loads((RECORDED / f"{name}.json").read_text()):
        if exchange["request"]["path"].startswith(path):
            return exchange["response"]
    raise LookupError(path)


def shape(value: Any) -> Any:
    """Return keys and kinds of values; a list by its first entry."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items() if name not in NOT_OURS}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def running(start: Start, master: ScriptedMaster) -> Running:
    """An agent with one task that runs and one that ended."""
    running = await start()
    info = framework(*ALL_CAPABILITIES, roles=["slave_public"])
    resources = [scalar(n, v, "slave_public") for n, v in (("cpus", 0.1), ("mem", 32.0), ("gpus", 1.0))]
    labels = {"labels": [{"key": "k", "value": "v"}]}
    internal_info = devolve("mesos.FrameworkInfo", info)
    master.run(internal_info, devolve("mesos.TaskInfo", task("ended", resources=resources)))
    await master.reaches("ended", "TASK_RUNNING")
    running.containers.end(running.containers.launched[0].container_id, Termination(exit_code=0))
    await master.reaches("ended", "TASK_FINISHED")
    run = task("gpu-run", SIMPLE, resources=resources, labels=labels)
    master.run(internal_info, devolve("mesos.TaskInfo", run))
    await master.reaches("gpu-run", "TASK_RUNNING")
    return running


async def get(http: aiohttp.ClientSession, url: str, **query: str) -> Any:
    async with http.get(url, params=query) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "application/json"
        return await response.json()


async def test_an_idle_agents_state_has_the_shape_of_the_real_one(start: Start, http: aiohttp.ClientSession) -> None:
    idle = await start()
    for path in ("/state", "/slave(1)/state", "/slave%281%29/state"):
        document = await get(http, idle.url + path)
        assert shape(document) == shape(recorded("agent-get-idle", "/state")["body"])


async def test_a_running_agents_state_has_the_shape_of_the_real_one(
    running: Running, http: aiohttp.ClientSession
) -> None:
    document = await get(http, f"{running.url}/state")
    real = recorded("agent-get-running", "/state")["body"]
    assert shape(document) == shape(real)
    executor, real_executor = (d["frameworks"][0]["executors"][0] for d in (document, real))
    assert executor["name"] == real_executor["name"]
    assert executor["resources"] == real_executor["resources"]
    assert document["unreserved_resources_allocated"] == real["unreserved_resources_allocated"]
    assert document["frameworks"][0]["completed_executors"][0]["resources"] == {
        "cpus": 0.1,
        "disk": 0.0,
        "gpus": 0.0,
        "mem": 32.0,
    }


async def test_containers_and_statistics_name_the_executor(running: Running, http: aiohttp.ClientSession) -> None:
    for path in ("/containers", "/monitor/statistics"):
        (line,) = await get(http, running.url + path)
        real = recorded("agent-get-running", path)["body"][0]
        assert line.pop("gpus") == [], "the one key that Mesos does not have"
        assert {k: shape(v) for k, v in line.items() if k != "statistics"} == {
            k: shape(v) for k, v in real.items() if k != "statistics"
        }
        assert line["statistics"]["mem_limit_bytes"] == 64 << 20


async def test_metrics_have_every_number_of_an_agent_and_the_machine(
    running: Running, http: aiohttp.ClientSession
) -> None:
    numbers = await get(http, f"{running.url}/metrics/snapshot")
    real = recorded("agent-get-running", "/metrics/snapshot")["body"]
    missing = {name for name in set(real) - set(numbers) if name.startswith(("slave/", "system/"))}
    assert missing == set()
    age = "slave/executor_directory_max_allowed_age_secs"
    assert numbers[age] == real[age]
    assert numbers["slave/recovery_time_secs"] >= 0
    assert numbers["slave/gpus_total"] == 4.0
    assert numbers["slave/gpus_used"] == 1.0
    assert numbers["slave/tasks_running"] == 1.0
    assert numbers["slave/tasks_finished"] == 1.0
    assert numbers["slave/registered"] == 1.0


async def test_help_and_the_machines_numbers(running: Running, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{running.url}/help") as response:
        lines = (await response.text()).splitlines()
    for line in filter(lambda line: line.startswith("/"), lines):
        async with http.get(f"{running.url}{line}") as response:
            assert response.status != 404 or "path=" in await response.text(), line
    assert "/system/stats.json" in lines
    numbers = await get(http, f"{running.url}/system/stats.json")
    assert {"cpus_total", "avg_load_1min", "mem_total_bytes"} <= set(numbers)


async def test_a_timeout_of_metrics_is_a_duration(running: Running, http: aiohttp.ClientSession) -> None:
    assert await get(http, f"{running.url}/metrics/snapshot?timeout=10secs")
    async with http.get(f"{running.url}/metrics/snapshot?timeout=soon") as response:
        assert (response.status, (await response.text()).startswith("Invalid timeout 'soon': ")) == (400, True)


async def test_version_health_and_flags(running: Running, http: aiohttp.ClientSession) -> None:
    assert (await get(http, f"{running.url}/version"))["version"] == "1.12.0"
    assert await get(http, f"{running.url}/flags") == {"flags": {"port": "5051"}}
    async with http.get(f"{running.url}/health") as response:
        assert (response.status, await response.text()) == (200, "")


async def test_what_is_not_there_is_not_found_in_the_words_of_mesos(
    running: Running, http: aiohttp.ClientSession
) -> None:
    for path in ("/nosuch", "/state.json"):
        real = recorded("agent-get-idle", path)
        async with http.get(running.url + path) as response:
            assert (response.status, await response.text()) == (real["status"], real["body"])


async def test_jsonp_wraps_the_answer(running: Running, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{running.url}/state", params={"jsonp": "cb"}) as response:
        assert (await response.text()).startswith("cb({")


async def test_the_files_of_a_sandbox_by_each_of_its_names(running: Running, http: aiohttp.ClientSession) -> None:
    executor = (await get(http, f"{running.url}/state"))["frameworks"][0]["executors"][0]
    directory = executor["directory"]
    (Path(directory) / "stdout").write_bytes("hällo\n".encode())
    latest = f"/frameworks/{framework()['id']['value']}/executors/gpu-run/runs/latest"
    for root in (directory, str(Path(directory).parent / "latest"), latest):
        entries = await get(http, f"{running.url}/files/browse", path=root)
        assert [Path(entry["path"]).name for entry in entries] == ["stderr", "stdout"]
        assert shape(entries) == shape(recorded("agent-get-running", "/files/browse")["body"])
        read = await get(http, f"{running.url}/files/read", path=f"{root}/stdout", offset="0", length="200")
        assert read == {"data": "hällo\n", "offset": 0}
        size = await get(http, f"{running.url}/files/read", path=f"{root}/stdout", offset="-1")
        assert size == {"data": "", "offset": 7}
    async with http.get(f"{running.url}/files/download", params={"path": f"{directory}/stdout"}) as response:
        assert await response.read() == "hällo\n".encode()
        assert response.headers["Content-Disposition"] == "attachment; filename=stdout"
        assert response.content_type == "application/octet-stream"


async def test_files_outside_are_refused_as_mesos_refuses_them(running: Running, http: aiohttp.ClientSession) -> None:
    directory = (await get(http, f"{running.url}/state"))["frameworks"][0]["executors"][0]["directory"]

    async def answer(kind: str, **query: str) -> tuple[int, str]:
        async with http.get(f"{running.url}/files/{kind}", params=query) as response:
            return response.status, await response.text()

    assert await answer("read", path="/etc/passwd", offset="0") == (404, "")
    assert await answer("read", path=f"{directory}/nosuch", offset="0") == (404, "")
    assert await answer("browse", path=f"{directory}/..") == (400, f"'{directory}/..' is inaccessible.\n")
    assert (await answer("browse"))[0] == 400
    assert (await answer("read", path=f"{directory}/stdout", offset="x"))[0] == 400
    assert (await answer("read", path=f"{directory}/stdout", offset="-2"))[0] == 400
    assert (await answer("download", path=directory))[0] == 400


async def test_an_ended_tasks_sandbox_can_still_be_read(running: Running, http: aiohttp.ClientSession) -> None:
    executor = (await get(http, f"{running.url}/state"))["frameworks"][0]["completed_executors"][0]
    (Path(executor["directory"]) / "stderr").write_text("last words")
    read = await get(http, f"{running.url}/files/read", path=f"{executor['directory']}/stderr", offset="0")
    assert read["data"] == "last words"


@pytest.mark.parametrize(
    ("peer", "own", "here"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.9", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.6", "10.0.0.5", False),
        ("fe80::1", "10.0.0.5", False),
    ],
)
def test_it_is_who_comes_over_the_loopback_or_from_the_very_address_that_was_asked(
    peer: str, own: str, here: bool
) -> None:
    transport = Mock()
    transport.get_extra_info.side_effect = lambda name, default=None: {"sockname": (own, 5051)}.get(name, default)
    request = make_mocked_request("POST", "/gpus/suspend", transport=transport).clone(remote=peer)
    assert is_from_here(request) is here


@pytest.mark.parametrize("socket", [True, False])
def test_of_a_domain_socket_the_caller_decides(socket: bool) -> None:
    connection = Mock(family=AF_UNIX)
    transport = Mock()
    transport.get_extra_info.side_effect = lambda name, default=None: connection if name == "socket" else default
    request = make_mocked_request("POST", "/gpus/suspend", transport=transport).clone(remote="")
    assert is_from_here(request, socket=socket) is socket
    connection.family = AF_INET  # a client that has reset its connection has no address either
    assert not is_from_here(request, socket=socket)
