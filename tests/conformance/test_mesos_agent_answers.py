"""Every recorded answer of a real agent (Mesos 1.12) beside ours in the same situation: status, headers, keys, types.

What differs on purpose is named here and stands in docs/reference/differences.md.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from mesos_gpu.mesos.messages import devolve
from tests.support.agent.attach import Client, container_id
from tests.support.agent.documents import ALL_CAPABILITIES, framework, scalar, task
from tests.support.agent.live import LiveAgent, live_agent
from tests.support.places import RECORDED

pytestmark = [pytest.mark.root, pytest.mark.asyncio(loop_scope="module")]

HEADERS = ("Content-Type", "Content-Disposition", "Allow")
SIMPLE = "echo hello; sleep 600"

OURS = {"gpus"}
"""Keys that ours has and Mesos' has not: what a container's GPUs do."""
OURS_AT = ("/statuses[-1]/labels",)
"""Where ours has more: the first TASK_RUNNING says which GPUs a task has."""
NOT_OURS = {"git_sha", "flags", "get_flags", "attributes"}
"""What no two agents have alike."""
OPEN = {"statistics", "resource_statistics"}
"""Numbers that a kernel may or may not give; those of ours have to be Mesos'."""
METRICS_NOT_HERE = (
    "containerizer/",  # of parts that Mesos' agent has and ours has not
)


def recorded(name: str) -> list[dict[str, Any]]:
    exchanges: list[dict[str, Any]] = json.loads((RECORDED / f"{name}.json").read_text())
    return exchanges


def differences(ours: Any, real: Any, where: str = "") -> list[str]:
    """Return where the keys or types of two documents differ; lists are compared by their last entries."""
    if isinstance(real, dict) and isinstance(ours, dict):
        found = []
        for name in sorted(set(ours) | set(real)):
            at = f"{where}/{name}"
            if name in NOT_OURS or (name in OURS and name not in real):
                continue
            if name in OPEN and name in ours and name in real:
                known = set(real[name]) | KNOWN_STATISTICS
                found += [f"{at}: unknown {key}" for key in sorted(set(ours[name]) - known)]
                continue
            if name not in ours:
                found.append(f"{at}: missing")
            elif name not in real:
                found += [] if at.endswith(OURS_AT) else [f"{at}: not in Mesos'"]
            else:
                found += differences(ours[name], real[name], at)
        return found
    if isinstance(real, list) and isinstance(ours, list):
        if not real or not ours:
            return [] if bool(real) == bool(ours) else [f"{where}: {len(ours)} entries, Mesos' has {len(real)}"]
        return differences(ours[-1], real[-1], f"{where}[-1]")
    same = type(ours) is type(real) or {type(ours), type(real)} <= {int, float}
    return [] if same else [f"{where}: {type(ours).__name__}, Mesos' is {type(real).__name__}"]


KNOWN_STATISTICS = {
    "cpus_limit",
    "cpus_nr_periods",
    "cpus_nr_throttled",
    "cpus_throttled_time_secs",
    "processes",
    "threads",
}
"""Of ResourceStatistics, told by isolators that the recorded agent did not have."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def idle(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path_factory.mktemp("idle")) as live:
        yield live


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LiveAgent]:
    async with live_agent(tmp_path_factory.mktemp("running")) as live:
        info = devolve("mesos.FrameworkInfo", framework(*ALL_CAPABILITIES, roles=["slave_public"]))
        resources = [scalar(n, v, "slave_public") for n, v in (("cpus", 0.1), ("mem", 32.0), ("gpus", 1.0))]
        live.master.run(info, devolve("mesos.TaskInfo", task("done", "true", resources=resources)))
        await live.reaches("done", "TASK_FINISHED")
        labels = {"labels": [{"key": "k", "value": "v"}]}
        run = task("gpu-run", SIMPLE, resources=resources, labels=labels)
        live.master.run(info, devolve("mesos.TaskInfo", run))
        await live.until_said("gpu-run", "hello")
        yield live


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def compared(request: dict[str, Any], status: int, headers: Any, body: Any, real: dict[str, Any]) -> list[str]:
    what = f"{request['method']} {request['path']} {json.dumps(request.get('body'))[:80]}"
    found = [] if status == real["status"] else [f"{what}: {status}, Mesos' is {real['status']}"]
    for name in HEADERS:
        given, expected = headers.get(name), real["headers"].get(name)
        empty = real["headers"].get("Content-Length") == "0"
        if given != expected and not (name == "Content-Type" and empty):
            found.append(f"{what}: {name} is {given}, Mesos' is {expected}")
    if status != 200 and isinstance(real["body"], str):
        return found + ([] if same_words(body, real["body"]) else [f"{what}: {body!r}, Mesos' is {real['body']!r}"])
    if "/metrics/snapshot" in request["path"] and isinstance(body, dict):
        missing = [name for name in real["body"] if name not in body and not name.startswith(METRICS_NOT_HERE)]
        return found + [f"{what}: {name} is missing" for name in missing]
    if isinstance(real["body"], str) and isinstance(body, str):
        return found
    return found + [f"{what}: {one}" for one in differences(body, real["body"])]


def same_words(ours: Any, real: str) -> bool:
    """Return whether two refusals say the same, paths aside."""
    if not isinstance(ours, str):
        return False
    return [w for w in ours.split() if "/" not in w] == [w for w in real.split() if "/" not in w]


async def replay(agent: LiveAgent, http: aiohttp.ClientSession, name: str, skip: tuple[str, ...] = ()) -> list[str]:
    """Make every recorded request of ours; a recorded sandbox is the running task's."""
    state = await agent.get("/state")
    executors = [executor for framework in state["frameworks"] for executor in framework["executors"]]
    found = []
    for exchange in recorded(name):
        request, real = exchange["request"], exchange.get("response")
        text = json.dumps(request)
        if real is None or any(word in text for word in skip):
            continue
        if "/runs/" in text and executors:
            theirs = next(part for part in text.replace("=", '"').replace("&", '"').split('"') if "/runs/" in part)
            root = "/".join(theirs.split("/")[: theirs.split("/").index("runs") + 2])
            request = json.loads(text.replace(root, executors[0]["directory"]))
        url = f"http://127.0.0.1:{agent.port}{request['path']}"
        async with http.request(request["method"], url, json=request.get("body")) as answer:
            raw = await answer.read()
            is_json = answer.content_type == "application/json"
            body = json.loads(raw) if is_json else raw.decode()
            found += compared(request, answer.status, answer.headers, body, real)
    return found


@pytest.mark.parametrize("name", ["agent-get-idle", "agent-v1-idle"])
async def test_an_idle_agent_answers_as_the_recorded_one(
    idle: LiveAgent, http: aiohttp.ClientSession, name: str
) -> None:
    found = await replay(idle, http, name)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["agent-get-running", "agent-v1-running"])
async def test_an_agent_with_tasks_answers_as_the_recorded_one(
    running: LiveAgent, http: aiohttp.ClientSession, name: str
) -> None:
    found = await replay(running, http, name)
    assert not found, "\n".join(found)


async def test_nested_containers_are_answered_as_recorded(running: LiveAgent, http: aiohttp.ClientSession) -> None:
    """The recorded parent is a task of a group, one level down; ours is the task's own container."""
    client = Client(http, f"http://127.0.0.1:{running.port}")
    (line,) = await running.get("/containers")
    parent = line["container_id"]
    checked = 0
    for exchange in recorded("nested-containers"):
        call = exchange["request"]["body"] or {}
        kind = str(call.get("type"))
        if "NESTED_CONTAINER" not in kind and kind != "ATTACH_CONTAINER_OUTPUT":
            continue
        body = call[kind.lower()]
        own = body["container_id"]["value"]
        attaching = kind == "ATTACH_CONTAINER_OUTPUT"
        body = {**body, "container_id": container_id(parent if attaching else f"{parent}.{own}")}
        checked += 1
        if "raw_response" in exchange:
            head, _, rest = exchange["raw_response"].partition("\r\n\r\n")
            headers = {name: value for name, value in exchange["request"]["headers"].items() if "Accept" in name}
            async with http.post(client.url, json={"type": kind, kind.lower(): body}, headers=headers) as answer:
                assert head.split()[1] == str(answer.status)
                for name in ("Content-Type", "Message-Content-Type"):
                    value = answer.headers.get(name)
                    assert value is None or f"{name}: {value}" in head
                said = (await answer.read()).decode()
            chunks = rest.split("\r\n")[1::2] if "chunked" in head else [rest]
            assert said == "".join(chunk for chunk in chunks if chunk), "the very bytes"
            continue
        status, answer_body = await client.post(kind, **body)
        real = exchange["response"]
        assert status == real["status"], (kind, answer_body)
        if isinstance(real["body"], dict):
            assert answer_body == real["body"], "exit_status is the raw wait status"
        elif status == 200:
            assert answer_body == real["body"]
        else:
            assert answer_body == f"Container {parent}.{own} cannot be found"
    assert checked == 6
