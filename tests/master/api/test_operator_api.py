"""The operator's endpoints over real HTTP, their shapes beside what a real master answered in the same situation."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.codec import library
from mesos_gpu.mesos.resource import Document
from tests.support import codec, places
from tests.support.master.build import OTHER_UUID, UUID, framework_info, recorded, resources_of
from tests.support.master.live import JSON, Scheduler, ScriptedAgent, live_master, until
from tests.support.master.shapes import differences

RESOURCES = "cpus:2;gpus:4;mem:23081;disk:252899;ports:[31000-32000]"
ATTRIBUTES = [
    {"name": "gpu_model", "type": "TEXT", "text": {"value": "stub"}},
    {"name": "rack", "type": "TEXT", "text": {"value": "r1"}},
]
CONTAINER = {
    "network_infos": [{"ip_addresses": [{"ip_address": "127.0.0.1"}]}],
    "executor_pid": 5157,
    "container_id": {"value": "c"},
}


def recording(name: str) -> Any:
    """What a real master said, as it was recorded."""
    return json.loads((places.RECORDED / f"{name}.json").read_text())


class Box:
    """A master with an agent and a scheduler, in the situations that were recorded."""

    def __init__(self, master: RunningMaster, agent: ScriptedAgent, scheduler: Scheduler) -> None:
        self.master, self.agent, self.scheduler = master, agent, scheduler
        self.session = aiohttp.ClientSession()

    async def idle(self) -> None:
        """One agent, no framework."""
        capabilities = sorted(messages.enum_names("mesos.v1.AgentInfo.Capability.Type") - {"UNKNOWN"})
        self.agent.introduce(
            "RegisterSlaveMessage",
            slave={**self.agent.info(RESOURCES), "attributes": ATTRIBUTES},
            agent_capabilities=[{"type": capability} for capability in capabilities],
        )
        self.agent.id = (await self.agent.message("SlaveRegisteredMessage"))["slave_id"]["value"]

    async def running(self) -> None:
        """One task ended and acknowledged, one runs, the rest is offered."""
        await self.idle()
        capabilities = "MULTI_ROLE GPU_RESOURCES PARTITION_AWARE TASK_KILLING_STATE"
        await self.scheduler.subscribe(
            framework_info("recorder", capabilities=capabilities, roles=["slave_public"], hostname="client.example")
        )
        ended, runs = self.task("bad-nocpu"), self.task("gpu-run")
        await self.scheduler.launch(await self.scheduler.offer(), ended, runs, refuse_s=0.1)
        for _ in range(2):
            run = await self.agent.message("RunTaskMessage", ("StatusUpdateAcknowledgementMessage",))
            first = run["task"]["name"] == "bad-nocpu"
            states = ["TASK_STARTING", "TASK_FINISHED" if first else "TASK_RUNNING"]
            for state, uuid in zip(states, (UUID, OTHER_UUID), strict=True):
                self.agent.update(run, state, uuid, container_status=CONTAINER)
                await self.scheduler.acknowledge(await self.scheduler.status())
        [framework] = self.master.engine.state.frameworks.values()
        await until(lambda: len(framework.completed) == 1)
        await self.scheduler.call("REVIVE")
        await until(lambda: len(framework.offers) > 0)

    async def after(self) -> None:
        """The framework was taken over by a second subscription, then torn down."""
        await self.running()
        [framework] = self.master.engine.state.frameworks.values()
        again = Scheduler(self.master.url)
        await again.subscribe(dict(framework.info), framework.id)
        await again.call("TEARDOWN")
        await again.close()

    def task(self, name: str) -> Document:
        return {
            "name": name,
            "task_id": {"value": name},
            "agent_id": {"value": self.agent.id},
            "resources": resources_of("cpus:0.1;mem:32;gpus:1"),
            "command": {"value": "true"},
            **({"labels": {"labels": [{"key": "k", "value": "v"}]}} if name == "gpu-run" else {}),
        }

    async def get(self, path: str, **more: Any) -> tuple[aiohttp.ClientResponse, Any]:
        async with self.session.get(self.master.url + path, allow_redirects=False, **more) as response:
            text = await response.text()
        is_json = response.headers.get("Content-Type") == "application/json"
        return response, json.loads(text) if is_json else text

    async def post(self, call: Any, path: str = "/api/v1", **headers: str) -> tuple[aiohttp.ClientResponse, Any]:
        url, data = self.master.url + path, json.dumps(call)
        async with self.session.post(url, data=data, headers={**JSON, **headers}) as answer:
            body = await answer.read()
        return answer, json.loads(body) if answer.headers.get("Content-Type") == "application/json" else body


@pytest.fixture
async def box(master: RunningMaster, agent: ScriptedAgent, scheduler: Scheduler) -> AsyncIterator[Box]:
    made = Box(master, agent, scheduler)
    yield made
    await made.session.close()


def headers_of(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {key: value for key, value in response.headers.items() if key not in ("Date", "Content-Length")}


def recorded_headers(answer: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in answer["headers"].items() if key != "Content-Length"}


GETS = [(situation, path) for situation, paths in recorded()["get"].items() for path in paths]
# Ours lists fewer metrics and flags, which have tests of their own; how much is logged is not for the network to say.
METRICS_NOT_HERE = (
    "allocator/event_queue_dispatches",  # queues between Mesos' actors
    "allocator/mesos/event_queue_dispatches",
    "master/event_queue_",
    "master/dropped_messages",
    "master/http_cache_hits",
    "registrar/log/",  # the replicated log
)
OWN_TESTS = {"/metrics/snapshot", "/flags", "/logging/toggle"}


@pytest.mark.parametrize(("situation", "path"), [one for one in GETS if one[1] not in OWN_TESTS])
async def test_endpoints_answer_in_the_recorded_shape(box: Box, situation: str, path: str) -> None:
    await getattr(box, situation)()
    response, body = await box.get(path)
    expected = recorded()["get"][situation][path]
    assert response.status == expected["status"]
    ours = headers_of(response)
    if path == "/redirect":
        assert ours.pop("Location") == f"//{box.master.url.removeprefix('http://')}"
        assert recorded_headers(expected).keys() == {"Location"}
    else:
        assert ours == recorded_headers(expected)
    real = expected["body"]
    if path == "/state":
        assert isinstance(body.pop("flags"), dict)
        real = {key: value for key, value in real.items() if key != "flags"}
    assert differences(body, real) == []


V1 = [(situation, kind) for situation, kinds in recorded()["v1"].items() for kind in kinds]


@pytest.mark.parametrize(("situation", "kind"), V1)
async def test_v1_calls_answer_in_the_recorded_shape(box: Box, situation: str, kind: str) -> None:
    await getattr(box, situation)()
    response, body = await box.post({"type": kind})
    expected = recorded()["v1"][situation][kind]
    assert response.status == expected["status"]
    assert headers_of(response) == recorded_headers(expected)
    if expected["status"] != 200:
        assert body.decode() == expected["body"]
    else:
        assert differences(body, expected["body"]) == []


async def test_get_state_holds_all_parts(box: Box) -> None:
    await box.running()
    _, whole = await box.post({"type": "GET_STATE"})
    for part in ("get_tasks", "get_executors", "get_frameworks", "get_agents"):
        _, alone = await box.post({"type": part.upper()})
        assert whole["get_state"][part] == alone[part]


async def test_v1_answers_are_of_mesos_types(box: Box) -> None:
    await box.running()
    for kind in ("GET_STATE", "GET_ROLES", "GET_MASTER", "GET_VERSION", "GET_FLAGS", "GET_HEALTH"):
        _, answer = await box.post({"type": kind})
        assert messages.check("mesos.v1.master.Response", answer) is None
        _, data = await box.post({"type": kind}, Accept="application/x-protobuf")
        assert messages.decode("mesos.v1.master.Response", data)["type"] == kind


@pytest.mark.parametrize("kind", ["GET_STATE", "GET_AGENTS", "GET_FRAMEWORKS", "GET_TASKS", "GET_ROLES", "GET_MASTER"])
async def test_usual_answers_in_protobuf_need_no_protobuf_library(
    box: Box, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 7 MiB of the service that reads it."""
    codec.needed()
    await box.running()
    _, shown = await box.post({"type": kind})
    in_library = library.encode("mesos.v1.master.Response", shown)
    monkeypatch.setattr(messages, "_library", lambda: pytest.fail("the library was asked"))
    _, data = await box.post({"type": kind}, Accept="application/x-protobuf")
    assert data == in_library


@pytest.mark.parametrize("path", ["/state", "/slaves", "/version", "/health", "/metrics/snapshot"])
async def test_paths_answer_under_the_process_id_and_with_more_segments(box: Box, path: str) -> None:
    for variant in (path, f"/master{path}", f"{path}/more/of/it"):
        response, _ = await box.get(variant)
        assert response.status == 200


async def test_the_operator_api_answers_where_pymesos_looks_for_it(box: Box) -> None:
    response, body = await box.post({"type": "GET_HEALTH"}, "/api/v1/operator")
    assert (response.status, body) == (200, {"type": "GET_HEALTH", "get_health": {"healthy": True}})


async def test_numbers_of_a_running_task_add_up(box: Box) -> None:
    await box.running()
    _, state = await box.get("/state")
    [slave], [framework] = state["slaves"], state["frameworks"]
    assert (
        slave["used_resources"] == framework["used_resources"] == {"cpus": 0.1, "gpus": 1.0, "mem": 32.0, "disk": 0.0}
    )
    assert slave["offered_resources"]["gpus"] == 3.0
    assert framework["resources"] == slave["resources"]
    assert [task["state"] for task in framework["tasks"]] == ["TASK_RUNNING"]
    _, roles = await box.get("/roles")
    assert roles["roles"][0]["allocated"] == {"cpus": 0.1, "gpus": 1.0, "mem": 32.0}
    assert roles["roles"][0]["resources"]["ports"] == 1001.0


async def test_queries_narrow_the_answer(box: Box) -> None:
    await box.running()
    for path, key in [("/slaves?slave_id=", "slaves"), ("/frameworks?framework_id=", "frameworks")]:
        _, none = await box.get(f"{path}nobody")
        assert none[key] == []
    _, one = await box.get(f"/slaves?slave_id={box.agent.id}")
    assert len(one["slaves"]) == 1
    _, tasks = await box.get("/tasks")
    assert {task["id"] for task in tasks["tasks"]} == {"gpu-run", "bad-nocpu"}
    counts = {"limit=1": 1, "offset=2": 0, "task_id=gpu-run": 1, "framework_id=x": 0, "limit=x": 2}
    counts |= {"limit=-1": 2, "offset=-1": 0, "limit=0": 0}
    for query, count in counts.items():
        _, tasks = await box.get(f"/tasks?{query}")
        assert len(tasks["tasks"]) == count
    _, newest = await box.get("/tasks?order=desc")
    _, oldest = await box.get("/tasks?order=asc")
    assert newest["tasks"] != [] != oldest["tasks"]


CALLBACKS = (
    "state state-summary slaves frameworks tasks roles quota weights maintenance/schedule maintenance/status "
    "metrics/snapshot version flags files/debug system/stats.json"
)


@pytest.mark.parametrize("path", CALLBACKS.split())
async def test_pages_from_elsewhere_may_ask_for_a_callback(box: Box, path: str) -> None:
    response, text = await box.get(f"/master/{path}?jsonp=angular.callbacks._0")
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/javascript"
    assert text.startswith("angular.callbacks._0(")
    assert text.endswith(");")
    json.loads(text.removeprefix("angular.callbacks._0(").removesuffix(");"))
    assert not [name for name in response.headers if name.startswith("Access-Control")], "as in Mesos"


async def test_a_callback_that_is_more_than_a_name_is_refused(box: Box) -> None:
    response, _ = await box.get("/state?jsonp=alert(1)//")
    assert response.status == 400


async def test_the_machines_numbers_have_an_endpoint_of_their_own(box: Box) -> None:
    _, stats = await box.get("/system/stats.json")
    names = {f"avg_load_{n}min" for n in (1, 5, 15)} | {"cpus_total", "mem_total_bytes", "mem_free_bytes"}
    assert stats.keys() == names


async def test_metrics_have_mesos_names(box: Box) -> None:
    await box.running()
    _, ours = await box.get("/metrics/snapshot")
    real = recorded()["get"]["running"]["/metrics/snapshot"]["body"]
    [after] = [one["response"]["body"] for one in recording("master-get-after") if "metrics" in one["request"]["path"]]
    shown, known = (
        {re.sub(r"(frameworks/recorder/)[^/]+", r"\1ID", name) for name in names} for names in (ours, {**real, **after})
    )
    assert shown <= known | {"master/task_error/source_master/reason_task_invalid"}
    of_frameworks = {name for name in known if "frameworks/" in name}
    assert of_frameworks == {name for name in shown if "frameworks/" in name}
    missing = {name for name in known - shown if not name.startswith(METRICS_NOT_HERE)}
    assert all("/reason_" in name for name in missing), "which are there from the first such task on"
    assert all(isinstance(value, float) for value in ours.values())
    assert ours["allocator/mesos/quota/roles//resources/gpus/consumed"] == 1.0
    assert ours["allocator/mesos/allocation_run_ms/count"] == ours["allocator/mesos/allocation_runs"]
    assert ours["registrar/registry_size_bytes"] > 0
    wanted = """
        gpus_total gpus_used gpus_percent uptime_secs elected slaves_active slaves_unreachable outstanding_offers
        frameworks_active tasks_staging tasks_running tasks_finished tasks_lost cpus_total mem_used
    """
    assert {f"master/{name}" for name in wanted.split()} <= set(ours)
    assert (ours["master/gpus_total"], ours["master/gpus_used"], ours["master/gpus_percent"]) == (4.0, 1.0, 0.25)
    assert (ours["master/tasks_running"], ours["master/tasks_finished"]) == (1.0, 1.0)
    _, body = await box.post({"type": "GET_METRICS", "get_metrics": {}})
    assert {metric["name"] for metric in body["get_metrics"]["metrics"]} == set(ours)


async def test_each_framework_has_its_own_metrics_even_after_its_end(box: Box) -> None:
    await box.running()
    framework_id = box.scheduler.framework_id
    prefix = f"master/frameworks/recorder/{framework_id}/"
    _, ours = await box.get("/metrics/snapshot")
    mine = {name.removeprefix(prefix): value for name, value in ours.items() if name.startswith(prefix)}
    expected = {
        "calls/subscribe": 1.0,
        "calls/accept": 1.0,
        "calls/acknowledge": 4.0,
        "calls/revive": 1.0,
        "calls": 7.0,
        "events/subscribed": 1.0,
        "events/heartbeat": 1.0,
        "events/update": 4.0,
        "offers/accepted": 1.0,
        "operations/launch": 1.0,
        "operations": 1.0,
        "tasks/active/task_running": 1.0,
        "tasks/terminal/task_finished": 1.0,
        "roles/slave_public/suppressed": 0.0,
        "subscribed": 1.0,
    }
    assert {name: mine[name] for name in expected} == expected
    assert mine["offers/sent"] >= 2.0
    await box.scheduler.call("TEARDOWN")
    _, after = await box.get("/metrics/snapshot")
    assert (after[f"{prefix}subscribed"], after[f"{prefix}calls/teardown"]) == (0.0, 1.0)


async def test_flags_are_shown_as_text(box: Box) -> None:
    _, body = await box.get("/flags")
    assert body["flags"]["filter_gpu_resources"] == "true"
    assert body["flags"]["allocation_interval"] == "1secs"
    assert body["flags"]["port"] == str(box.master.endpoint.port)


async def test_an_operator_may_tear_a_framework_down(box: Box) -> None:
    await box.running()
    framework_id = box.scheduler.framework_id
    async with box.session.post(f"{box.master.url}/master/teardown", data={"frameworkId": framework_id}) as response:
        assert response.status == 200
    for call in ({"frameworkId": framework_id}, {}):
        async with box.session.post(f"{box.master.url}/teardown", data=call) as response:
            assert response.status == 400
    response_, _ = await box.post({"type": "TEARDOWN", "teardown": {"framework_id": {"value": framework_id}}})
    assert response_.status == 400
    assert framework_id in box.master.engine.state.completed


async def test_what_cannot_be_answered_says_so(box: Box) -> None:
    response, _ = await box.post({"type": "GET_HEALTH"}, Accept="text/html")
    assert response.status == 406
    for method, path in [("GET", "/api/v1"), ("GET", "/teardown"), ("POST", "/maintenance/status")]:
        async with box.session.request(method, box.master.url + path) as answer:
            assert answer.status == 405
    response, body = await box.get("/")
    assert (response.status, body) == (404, "404 Not Found.")


LINES = "".join(f"line {n}\n" for n in range(10_000))


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._url + path, allow_redirects=False) as response:
            return response.status, await response.text()

    async def call(self, kind: str, body: Any = None, accept: str = "application/json") -> tuple[int, Any]:
        call = {"type": kind} | ({} if body is None else {kind.lower(): body})
        headers = {**JSON, "Accept": accept}
        async with self._session.post(f"{self._url}/api/v1", data=json.dumps(call), headers=headers) as response:
            text = await response.text()
            is_json = response.headers.get("Content-Type") == "application/json"
            return response.status, json.loads(text)[kind.lower()] if is_json else text


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    log = tmp_path / "log" / "master.log"
    log.parent.mkdir()
    log.write_text(LINES)
    (log.parent / "secret").write_text("not for everybody")
    flags = (f"--external_log_file={log}", "--json_suffixes")
    async with live_master(tmp_path / "m", *flags) as running, aiohttp.ClientSession() as session:
        yield Client(session, running.url)


async def test_the_log_is_read_from_where_one_likes_64_kib_at_a_time(client: Client) -> None:
    _, text = await client.get("/files/read?path=/master/log&offset=-1")
    assert json.loads(text) == {"data": "", "offset": len(LINES)}
    _, text = await client.get("/master/files/read?path=/master/log&offset=5&length=100000")
    assert json.loads(text) == {"data": LINES[5 : 5 + 65536], "offset": 5}
    assert await client.get("/files/download?path=/master/log") == (200, LINES)
    status, text = await client.get("/files/read?path=/master/log&offset=0&length=2&jsonp=show")
    assert (status, text) == (200, 'show({"data":"li","offset":0});')
    assert json.loads((await client.get("/state"))[1])["external_log_file"].endswith("/log/master.log")
    assert (await client.get("/metrics/snapshot?timeout=soon"))[0] == 400
    _, debug = await client.get("/files/debug")
    assert list(json.loads(debug)) == ["/master/log"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/files/browse?path=/", 404, ""),
        ("/files/read?path=/master/secret&offset=0", 404, ""),
        ("/files/read?path=/master/log/../secret&offset=0", 404, ""),
        ("/files/read?path=/etc/passwd&offset=0", 404, ""),
        ("/files/read", 400, "Expecting 'path=value' in query.\n"),
        ("/files/read?path=/master/log&offset=x", 400, "Failed to parse offset: 'x' is not a number.\n"),
        ("/files/read?path=/master/log&offset=-2", 400, "Negative offset provided: -2"),
        ("/files/browse?path=/master/log", 400, "'/master/log' is not a directory.\n"),
    ],
)
async def test_nothing_but_the_log_is_shown(client: Client, path: str, status: int, words: str) -> None:
    assert await client.get(path) == (status, words)


async def test_the_log_over_the_v1_calls(client: Client) -> None:
    status, read = await client.call("READ_FILE", {"path": "/master/log", "offset": 7, "length": 6})
    assert (status, read) == (200, {"size": len(LINES), "data": base64.b64encode(b"line 1").decode()})
    _, none = await client.call("READ_FILE", {"path": "/master/log", "offset": 0, "length": 0})
    assert none == {"size": len(LINES), "data": ""}
    assert await client.call("READ_FILE", {"path": "/etc/passwd", "offset": 0}) == (404, "")
    assert await client.call("LIST_FILES", {"path": "/etc"}) == (404, "")
    status, words = await client.call("READ_FILE", {"path": "/x"})
    assert (status, words) == (
        400,
        "Failed to convert JSON into Call protobuf: Missing required fields: read_file.offset",
    )


async def test_the_logging_level_changes_for_a_while(client: Client) -> None:
    logger = logging.getLogger("mesos_gpu")
    before = logger.level
    assert await client.get("/logging/toggle") == (200, "0\n")
    duration = {"nanoseconds": 50_000_000}
    assert await client.call("SET_LOGGING_LEVEL", {"level": 1, "duration": {"nanoseconds": 60 * 10**9}}) == (200, "")
    assert (logger.level, await client.call("GET_LOGGING_LEVEL")) == (logging.DEBUG, (200, {"level": 1}))
    assert await client.call("SET_LOGGING_LEVEL", {"level": 0, "duration": duration}) == (200, "")
    assert (logger.level, await client.get("/logging/toggle")) == (before, (200, "0\n"))
    assert await client.get("/logging/toggle?level=2&duration=1mins") == (200, "")
    assert await client.get("/logging/toggle") == (200, "2\n")
    assert await client.get("/logging/toggle?level=0&duration=1mins") == (200, "")
    assert logger.level == before
    assert await client.get("/logging/toggle?level=1") == (400, "Expecting 'duration=value' in query.\n")
    assert (await client.get("/logging/toggle?level=1&duration=soon"))[0] == 400
    assert (await client.get("/logging/toggle?level=-1&duration=1secs")) == (400, "'-1' < original level.\n")


async def test_paths_of_before_1_0_are_a_switch(client: Client, master: RunningMaster) -> None:
    for path in ("/state.json", "/master/state.json", "/master/tasks.json?limit=1", "/slaves.json", "/roles.json"):
        status, text = await client.get(path)
        assert status == 200
        assert isinstance(json.loads(text), dict)
    async with aiohttp.ClientSession() as session:
        strict = Client(session, master.url)
        assert await strict.get("/state.json") == (404, "404 Not Found.")
