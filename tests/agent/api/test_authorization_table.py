"""Every route and every v1 call of an agent, by every kind of principal, with the expected answer.

The routes and calls are those of the code: one that a table here lacks fails the test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.agent.api.access import open_access
from mesos_gpu.agent.flags import COMMAND_LINE
from mesos_gpu.mesos.flags import parse_flags
from mesos_gpu.mesos.messages import devolve, enum_names
from mesos_gpu.mesos.security.authentication import EXECUTOR_TOKEN
from mesos_gpu.mesos.security.authorization import ACTIONS
from mesos_gpu.process.operator_frame import ANY_SEGMENT
from tests.fakes.master import ScriptedMaster
from tests.support.agent.access import JSON, as_, secret_files
from tests.support.agent.documents import ALL_CAPABILITIES, FRAMEWORK_ID, framework
from tests.support.agent.hosting import IDS, hosted
from tests.support.agent.running import Running, Start, known

OPERATOR, FRAMEWORK_PRINCIPAL = "ops", "eve"
USER = "daemon"
EXECUTOR, OTHER_EXECUTOR = "echo", "other"
ACLS = {
    "permissive": False,
    **{
        action: [{"principals": {"values": [OPERATOR]}, objects: {"type": "ANY"}}]
        for action, (objects, _) in ACTIONS.items()
    },
    # Of tasks, which the agent asks about once more.
    "run_tasks": [{"principals": {"type": "ANY"}, "users": {"type": "ANY"}}],
}
"""The operator may do everything, the framework's principal nothing over HTTP."""
PASS, NO, DENIED = "passes", "401", "403"
REFUSED = (401, 403, 501)
"""All other statuses are those of authorized requests, as 404 for a container that does not exist."""


@dataclass(frozen=True)
class Expected:
    """The answers to one request: `framework` is that to the framework's principal where ACLs give it nothing.

    Without ACLs every principal but executors is answered as the operator is. `own` is the executor whose container the
    request is about, `another` is another executor of the agent.
    """

    none: str = NO
    operator: str = PASS
    framework: str = DENIED
    own: str = DENIED
    another: str = DENIED

    def answer_to(self, who: str, *, acls: bool) -> str:
        if who == "framework" and not acls:
            return self.operator
        return str(getattr(self, who))


OPEN = Expected(none=PASS, framework=PASS, own=PASS, another=PASS)
FILTERED = Expected(framework=PASS)
CLOSED = Expected()
OWN_CONTAINERS = Expected(own=PASS)
ROUTES: Mapping[tuple[str, str], Expected] = {
    ("GET", "health"): OPEN,
    ("GET", "version"): OPEN,
    ("GET", "system/stats.json"): OPEN,
    ("GET", "help"): OPEN,
    ("GET", "state"): FILTERED,
    ("GET", "flags"): CLOSED,
    ("GET", "containers"): CLOSED,
    ("GET", "monitor/statistics"): CLOSED,
    ("GET", "metrics/snapshot"): CLOSED,
    ("GET", "logging/toggle"): CLOSED,
    ("GET", "metrics"): FILTERED,
    ("GET", "gpus"): FILTERED,
    ("GET", "gpu_shares"): FILTERED,
    ("GET", "gpus/driver"): FILTERED,
    ("GET", "gpus/leases"): FILTERED,
    ("POST", "gpus/leases"): CLOSED,
    ("DELETE", "gpus/leases/x"): CLOSED,
    ("GET", "images"): FILTERED,
    ("GET", "files/browse?path={sandbox}"): CLOSED,
    ("GET", "files/read?path={sandbox}/stdout&offset=0"): CLOSED,
    ("GET", "files/download?path={sandbox}/stdout"): CLOSED,
    ("GET", "files/debug"): CLOSED,
    ("POST", "gpus/GPU-1/healthy"): CLOSED,
    ("POST", "gpu_shares/set"): CLOSED,
    ("POST", "gpus/suspend"): CLOSED,
    ("POST", "gpus/resume"): CLOSED,
    ("POST", "gpus/mig"): CLOSED,
    ("POST", "images/pull"): CLOSED,
    ("POST", "images/prune"): CLOSED,
}
CALLS_HAVE_TABLES = {"api/v1", "api/v1/executor"}
UNSUPPORTED = Expected(operator="501", framework="501", own="501", another="501")
BELOW_OWN = {"container_id": {"value": "n", "parent": {"value": "{own}"}}}
UNKNOWN_BELOW_OWN = {"container_id": {"value": "unknown", "parent": {"value": "{own}"}}}
OWN_ITSELF = {"container_id": {"value": "{own}"}}
STANDALONE = {"container_id": {"value": "standalone"}}
UNKNOWN_STANDALONE = {"container_id": {"value": "unknown"}}
COMMAND = {"command": {"value": "true"}}
AS_ROOT = {"command": {"value": "true", "user": "root"}}
CAPABLE = {"container": {"type": "MESOS", "linux_info": {"effective_capabilities": {"capabilities": ["DAC_OVERRIDE"]}}}}
UNCONFINED = {"container": {"type": "MESOS", "linux_info": {"seccomp": {"unconfined": True}}}}
CALLS: Sequence[tuple[str, Mapping[str, Any] | None, Expected]] = [
    ("UNKNOWN", None, Expected(framework=PASS, own=PASS, another=PASS)),
    ("GET_HEALTH", None, FILTERED),
    ("GET_FLAGS", None, CLOSED),
    ("GET_VERSION", None, FILTERED),
    ("GET_METRICS", {}, FILTERED),
    ("GET_LOGGING_LEVEL", None, FILTERED),
    ("SET_LOGGING_LEVEL", {"level": 1, "duration": {"nanoseconds": 10**9}}, CLOSED),
    ("LIST_FILES", {"path": "{sandbox}"}, CLOSED),
    ("READ_FILE", {"path": "{sandbox}/stdout", "offset": 0}, CLOSED),
    ("GET_STATE", None, FILTERED),
    ("GET_CONTAINERS", {"show_nested": True, "show_standalone": True}, FILTERED),
    ("GET_FRAMEWORKS", None, FILTERED),
    ("GET_EXECUTORS", None, FILTERED),
    ("GET_OPERATIONS", None, FILTERED),
    ("GET_TASKS", None, FILTERED),
    ("GET_AGENT", None, FILTERED),
    ("GET_RESOURCE_PROVIDERS", None, FILTERED),
    ("PRUNE_IMAGES", {}, CLOSED),
    ("LAUNCH_NESTED_CONTAINER", {**BELOW_OWN, **COMMAND}, OWN_CONTAINERS),
    ("LAUNCH_NESTED_CONTAINER", {**BELOW_OWN, "command": {"value": "true", "user": USER}}, OWN_CONTAINERS),
    ("LAUNCH_NESTED_CONTAINER", {**BELOW_OWN, **AS_ROOT}, CLOSED),
    ("LAUNCH_NESTED_CONTAINER", {**BELOW_OWN, **COMMAND, **CAPABLE}, CLOSED),
    ("LAUNCH_NESTED_CONTAINER", {**BELOW_OWN, **COMMAND, **UNCONFINED}, CLOSED),
    ("LAUNCH_CONTAINER", {**BELOW_OWN, **COMMAND}, OWN_CONTAINERS),
    ("LAUNCH_CONTAINER", {**BELOW_OWN, **AS_ROOT}, CLOSED),
    ("LAUNCH_CONTAINER", {**STANDALONE, **COMMAND}, CLOSED),
    ("LAUNCH_CONTAINER", {**STANDALONE, **AS_ROOT}, CLOSED),
    ("LAUNCH_CONTAINER", {**OWN_ITSELF, **COMMAND}, CLOSED),
    ("LAUNCH_NESTED_CONTAINER_SESSION", {**BELOW_OWN, **COMMAND}, OWN_CONTAINERS),
    ("LAUNCH_NESTED_CONTAINER_SESSION", {**BELOW_OWN, **AS_ROOT}, CLOSED),
    ("WAIT_NESTED_CONTAINER", UNKNOWN_BELOW_OWN, OWN_CONTAINERS),
    ("WAIT_CONTAINER", UNKNOWN_BELOW_OWN, OWN_CONTAINERS),
    ("WAIT_CONTAINER", UNKNOWN_STANDALONE, CLOSED),
    ("KILL_NESTED_CONTAINER", UNKNOWN_BELOW_OWN, OWN_CONTAINERS),
    ("KILL_CONTAINER", UNKNOWN_BELOW_OWN, OWN_CONTAINERS),
    ("KILL_CONTAINER", STANDALONE, CLOSED),
    ("REMOVE_NESTED_CONTAINER", UNKNOWN_BELOW_OWN, OWN_CONTAINERS),
    ("REMOVE_CONTAINER", UNKNOWN_BELOW_OWN, OWN_CONTAINERS),
    ("REMOVE_CONTAINER", STANDALONE, CLOSED),
    ("ATTACH_CONTAINER_OUTPUT", BELOW_OWN, OWN_CONTAINERS),
    ("ATTACH_CONTAINER_OUTPUT", OWN_ITSELF, OWN_CONTAINERS),
    ("ATTACH_CONTAINER_OUTPUT", STANDALONE, CLOSED),
    ("ATTACH_CONTAINER_INPUT", {"type": "CONTAINER_ID", **BELOW_OWN}, CLOSED),
    ("ATTACH_CONTAINER_INPUT", {"type": "CONTAINER_ID", **OWN_ITSELF}, CLOSED),
    *(
        (kind, None, UNSUPPORTED)
        for kind in (
            "ADD_RESOURCE_PROVIDER_CONFIG",
            "UPDATE_RESOURCE_PROVIDER_CONFIG",
            "REMOVE_RESOURCE_PROVIDER_CONFIG",
            "MARK_RESOURCE_PROVIDER_GONE",
        )
    ),
]
STATUS = {"task_id": {"value": "t1"}, "state": "TASK_RUNNING", "source": "SOURCE_EXECUTOR"}
EXECUTOR_CALLS: Mapping[str, Any] = {
    "SUBSCRIBE": {"unacknowledged_tasks": [], "unacknowledged_updates": []},
    "UPDATE": {"status": {**STATUS, "uuid": "AAAAAAAAQACAAAAAAAAAAA=="}},
    "MESSAGE": {"data": "aGVsbG8="},
    "HEARTBEAT": None,
}
NOT_REQUIRED = Expected(none=PASS, framework=PASS, own=PASS)
"""Executors without a token are let in, as pymesos's driver has none; a token counts for its own executor."""
TOKEN_REQUIRED = Expected(operator=NO, framework=NO, own=PASS)
ALWAYS_SENDS_ITS_TOKEN = Expected(none=DENIED, operator=DENIED, own=PASS)
"""The default executor, which runs task groups, where executors without a token are let in."""


class Table:
    """An agent that two executors run on, and its answers as the tables name them."""

    def __init__(self, running: Running, http: aiohttp.ClientSession, *, acls: bool = False) -> None:
        self.running, self.acls, self._http = running, acls, http
        tokens, self.ids = {}, {}
        for executor in running.agent.state.frameworks.executors():
            name = executor.key.executor
            [config] = [c for c in running.containers.launched if c.container_id == executor.container_id]
            tokens[name] = dict(config.environment)[EXECUTOR_TOKEN]
            if name == EXECUTOR:
                self.ids = {"own": str(executor.container_id), "sandbox": executor.sandbox}
            Path(executor.sandbox).mkdir(parents=True, exist_ok=True)
            Path(executor.sandbox, "stdout").write_text("a line")
        self.headers: Mapping[str, Mapping[str, str]] = {
            "none": {},
            "operator": as_(OPERATOR),
            "framework": as_(FRAMEWORK_PRINCIPAL),
            "own": {"Authorization": f"Bearer {tokens[EXECUTOR]}"},
            "another": {"Authorization": f"Bearer {tokens[OTHER_EXECUTOR]}"},
        }

    def filled(self, document: Any) -> Any:
        """Return a request with the ids of this agent in it."""
        text = json.dumps(document)
        for name, value in self.ids.items():
            text = text.replace(f"{{{name}}}", value)
        return json.loads(text)

    async def answer(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> str:
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        headers = {**JSON, **headers, **self.headers[who]}
        url = f"{self.running.url}/{self.filled(path)}"
        async with self._http.request(method, url, headers=headers, data=data) as answer:
            return PASS if answer.status not in REFUSED else str(answer.status)

    async def call(self, who: str, kind: str, body: Any) -> str:
        document = {"type": kind, **({} if body is None else {kind.lower(): self.filled(body)})}
        if kind != "ATTACH_CONTAINER_INPUT":
            return await self.answer(who, "POST", "api/v1", document)
        record = json.dumps(document).encode()
        data = f"{len(record)}\n".encode() + record
        content = {"Content-Type": "application/recordio", "Message-Content-Type": "application/json"}
        return await self.answer(who, "POST", "api/v1", data, **content)


async def start_agent(start: Start, master: ScriptedMaster, folder: Path, *words: str, kind: str = "CUSTOM") -> Running:
    """Start an agent as `mesos-gpu up` does, with two executors: they get tokens, and need not send them."""
    flags = [*secret_files(folder), "--authenticate_http_readonly", "--authenticate_http_readwrite"]
    flags += ["--http_authenticators=basic,jwt", *words]
    running = await start(access=open_access(parse_flags(COMMAND_LINE, [f"--work_dir={folder}", *flags], {})[0]))
    running.agent.state.identity = replace(running.agent.state.identity, default_executor=("default-executor",))
    info = devolve("mesos.FrameworkInfo", framework(*ALL_CAPABILITIES, user=USER))
    for number, name in enumerate((EXECUTOR, OTHER_EXECUTOR), 1):
        task = devolve("mesos.TaskInfo", hosted(f"t{number}", executor=name, kind=kind))
        if kind == "CUSTOM":
            master.run(info, task)
            continue
        executor = {**task.pop("executor"), "framework_id": {"value": FRAMEWORK_ID}}
        group = {"tasks": [{**task, "command": {"value": "true"}}]}
        message = {"framework": info, "executor": executor, "task_group": group, "launch_executor": True}
        master.send("RunTaskGroupMessage", message)
    await known(running, 2)
    while len(running.containers.running) < 2:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)
    return running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture(params=[False, True], ids=["without ACLs", "with ACLs"])
async def table(
    request: pytest.FixtureRequest, tmp_path: Path, start: Start, master: ScriptedMaster, http: aiohttp.ClientSession
) -> Table:
    words = [f"--acls={json.dumps(ACLS)}"] if request.param else []
    return Table(await start_agent(start, master, tmp_path, *words), http, acls=request.param)


async def test_every_route_by_every_principal(table: Table, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{table.running.url}/help") as answer:
        lines = (await answer.text()).splitlines()
    routes = {line[1:].replace(ANY_SEGMENT, "GPU-1") for line in lines if line.startswith("/")} - CALLS_HAVE_TABLES
    named = {path.partition("?")[0].removesuffix("/x") for _, path in ROUTES}
    assert routes == named
    for prefix in ("", "slave(1)/"):
        _check(
            table,
            {
                (f"{method} {prefix}{path}", who): (
                    expected,
                    await table.answer(who, method, prefix + path),
                )
                for (method, path), expected in ROUTES.items()
                for who in table.headers
            },
        )


async def test_every_call_by_every_principal(table: Table) -> None:
    assert {kind for kind, _, _ in CALLS} == enum_names("mesos.v1.agent.Call.Type")
    _check(
        table,
        {
            (f"{kind} {json.dumps(body)}", who): (expected, await table.call(who, kind, body))
            for kind, body, expected in CALLS
            for who in table.headers
        },
    )


@pytest.mark.parametrize(
    ("flags", "kind", "expected"),
    [
        ([], "CUSTOM", NOT_REQUIRED),
        ([], "DEFAULT", ALWAYS_SENDS_ITS_TOKEN),
        (["--authenticate_http_executors"], "CUSTOM", TOKEN_REQUIRED),
        (["--authenticate_http_executors"], "DEFAULT", TOKEN_REQUIRED),
    ],
)
async def test_every_executor_call_by_every_principal(
    tmp_path: Path,
    start: Start,
    master: ScriptedMaster,
    http: aiohttp.ClientSession,
    flags: list[str],
    kind: str,
    expected: Expected,
) -> None:
    table = Table(await start_agent(start, master, tmp_path, *flags, kind=kind), http)
    assert {*EXECUTOR_CALLS, "UNKNOWN"} == enum_names("mesos.v1.executor.Call.Type")
    answers = {}
    for name in ("SUBSCRIBE", *(name for name in EXECUTOR_CALLS if name != "SUBSCRIBE")):
        body = EXECUTOR_CALLS[name]
        call = {**IDS, "type": name, **({} if body is None else {name.lower(): body})}
        for who in sorted(table.headers, key="own".__ne__):
            answers[name, who] = expected, await table.answer(who, "POST", "api/v1/executor", call)
    _check(table, answers)


def _check(table: Table, answers: Mapping[tuple[str, str], tuple[Expected, str]]) -> None:
    wrong = {
        what: f"{who}: expected {expected.answer_to(who, acls=table.acls)}, got {got}"
        for (what, who), (expected, got) in answers.items()
        if got != expected.answer_to(who, acls=table.acls)
    }
    assert wrong == {}
