"""An agent that wants to know who asks, over real HTTP; and with lists of who may do what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from mesos_gpu.agent.api.access import EXECUTORS, NOBODY_ASKED, Access, authenticates_all, open_access, use_of
from mesos_gpu.agent.configuration import check_flags
from mesos_gpu.agent.flags import COMMAND_LINE, AgentFlags
from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import flags_as_text, parse_flags
from mesos_gpu.mesos.messages import devolve
from mesos_gpu.mesos.security.authentication import EXECUTOR_TOKEN, basic_header
from mesos_gpu.process.access import READONLY, READWRITE
from mesos_gpu.process.operator_frame import ANY_SEGMENT
from tests.fakes.master import ScriptedMaster
from tests.support.agent.access import JSON, SECRETS, as_, secret_files
from tests.support.agent.documents import ALL_CAPABILITIES, framework, task
from tests.support.agent.hosting import hosted
from tests.support.agent.running import FRAMEWORK, SUBSCRIBE, Running, Start, known
from tests.support.golden import Golden
from tests.support.spellings import spellings

CLOSED = ("--authenticate_http_readonly", "--authenticate_http_readwrite", "--authenticate_http_executors")
REALMS = {
    READONLY: ('Basic realm="mesos-agent-readonly",Bearer realm="mesos-agent-readonly"', "GET"),
    READWRITE: ('Basic realm="mesos-agent-readwrite",Bearer realm="mesos-agent-readwrite"', "POST"),
    EXECUTORS: ('Bearer realm="mesos-agent-executor"', "POST"),
}
ENDPOINTS = {
    NOBODY_ASKED: ("health", "version", "system/stats.json", "help"),
    READONLY: (
        *(
            "state",
            "flags",
            "containers",
            "monitor/statistics",
            "metrics/snapshot",
            "metrics",
            "gpus",
            "gpu_shares",
            "gpus/driver",
            "images",
        ),
        *("files/browse", "files/read", "files/download", "files/debug"),
    ),
    READWRITE: (
        "api/v1",
        "api/v1/x",
        "gpus/GPU-1/healthy",
        "gpu_shares/set",
        "gpus/suspend",
        "gpus/resume",
        "gpus/mig",
        "gpus/leases",
        "images/pull",
        "images/prune",
        "logging/toggle",
    ),
    EXECUTORS: ("api/v1/executor",),
}


def flags(folder: Path, *words: str) -> AgentFlags:
    return parse_flags(COMMAND_LINE, [f"--work_dir={folder}", *words], {})[0]


def closed(folder: Path, *words: str) -> Access:
    return open_access(flags(folder, *secret_files(folder), *CLOSED, *words))


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_every_endpoint_asks_in_the_realm_that_it_has_in_mesos(
    tmp_path: Path, start: Start, http: aiohttp.ClientSession
) -> None:
    running = await start(access=closed(tmp_path))
    async with http.get(f"{running.url}/help") as answer:
        lines = [line for line in (await answer.text()).splitlines() if line.startswith("/")]
        listed = {line.removeprefix("/").replace(ANY_SEGMENT, "GPU-1") for line in lines}
    assert listed <= {name for names in ENDPOINTS.values() for name in names}, "a new endpoint needs a realm"
    wrong = {"Authorization": basic_header("ops", "guess")}
    for use, names in ENDPOINTS.items():
        for name in names:
            for url in (f"{running.url}/{name}", f"{running.url}/slave(1)/{name}"):
                if use == NOBODY_ASKED:
                    async with http.get(url) as answer:
                        assert answer.status == 200, name
                    continue
                challenge, method = REALMS[use]
                for headers in ({}, wrong, {"Authorization": "Bearer a.b.c"}):
                    async with http.request(method, url, headers=headers) as answer:
                        assert answer.status == 401, (name, answer.status)
                        assert answer.headers["WWW-Authenticate"] == challenge
                        assert "401 Unauthorized." in await answer.text()
                async with http.request(method, url, headers=as_("ops")) as answer:
                    assert (answer.status == 401) is (use == EXECUTORS), (name, answer.status)
                    assert answer.status < 500, name
    for path in ("nothing", "slave(1)/nothing"):
        async with http.get(f"{running.url}/{path}", headers=as_("ops")) as answer:
            assert answer.status == 404
    for name in ("state", "gpus", "images/prune", "metrics", "files/read", "api/v1", "api/v1/executor"):
        for path in spellings(name, "slave(1)"):
            for method in ("GET", "POST", "HEAD", "PUT"):
                async with http.request(method, URL(f"{running.url}/{path}", encoded=True)) as answer:
                    assert answer.status in (401, 404, 405), (method, path, answer.status)


async def test_an_executor_shows_the_token_that_it_was_given(
    tmp_path: Path, start: Start, master: ScriptedMaster, http: aiohttp.ClientSession
) -> None:
    running = await start(access=closed(tmp_path))
    master.run(FRAMEWORK, devolve("mesos.TaskInfo", hosted("t1")))
    master.run(FRAMEWORK, devolve("mesos.TaskInfo", hosted("t2", executor="other")))
    await known(running, 2)
    while len(running.containers.launched) < 2:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)
    tokens = {}
    for executor in running.agent.state.frameworks.executors():
        [config] = [c for c in running.containers.launched if c.container_id == executor.container_id]
        tokens[executor.key.executor] = dict(config.environment)[EXECUTOR_TOKEN]
    assert tokens["echo"] != tokens["other"]

    async def subscribe(token: str) -> tuple[int, str]:
        headers = {**JSON, "Authorization": f"Bearer {token}"}
        async with http.post(f"{running.url}/api/v1/executor", data=json.dumps(SUBSCRIBE), headers=headers) as answer:
            return answer.status, "" if answer.status == 200 else await answer.text()

    assert await subscribe(tokens["echo"]) == (200, "")
    status, words = await subscribe(tokens["other"])
    assert status == 403
    assert "'eid'" in words
    # Of the agent's other calls it may make those about its own containers (test_authorization_table.py).
    headers = {**JSON, "Authorization": f"Bearer {tokens['echo']}"}
    async with http.post(f"{running.url}/api/v1", data='{"type": "GET_HEALTH"}', headers=headers) as answer:
        assert answer.status == 403


def list_of(who: str, objects: str, *values: str) -> list[dict[str, Any]]:
    allowed = {"values": list(values)} if values else {"type": "ANY"}
    return [{"principals": {"values": [who]}, objects: allowed}, {"principals": {"type": "NONE"}, objects: allowed}]


LISTS = {
    "view_frameworks": list_of("ops", "users", "daemon"),
    "view_flags": list_of("ops", "flags"),
    "access_sandboxes": list_of("ops", "users", "daemon"),
    "view_containers": list_of("ops", "users", "daemon"),
    "get_endpoints": list_of("ops", "paths", "/metrics/snapshot", "/logging/toggle", "/monitor/statistics"),
    "set_log_level": list_of("ops", "level"),
    "prune_images": list_of("ops", "images"),
    "kill_nested_containers": list_of("ops", "users", "daemon"),
}


@pytest.fixture
async def listed(tmp_path: Path, start: Start, master: ScriptedMaster) -> Running:
    """An agent with lists, and a task of a user named daemon that runs."""
    running = await start(access=closed(tmp_path, f"--acls={json.dumps(LISTS)}"))
    info = devolve("mesos.FrameworkInfo", framework(*ALL_CAPABILITIES, user="daemon"))
    master.run(info, devolve("mesos.TaskInfo", task("hers")))
    await master.reaches("hers", "TASK_RUNNING")
    return running


async def test_lists_say_who_may_do_what_over_every_door(listed: Running, http: aiohttp.ClientSession) -> None:
    [one] = listed.agent.state.frameworks.tasks()
    Path(one.sandbox).mkdir(parents=True, exist_ok=True)
    Path(one.sandbox, "stdout").write_text("a line")

    async def ask(who: str, path: str, **more: Any) -> tuple[int, str]:
        method = "POST" if more else "GET"
        async with http.request(method, f"{listed.url}/{path}", headers={**JSON, **as_(who)}, **more) as answer:
            return answer.status, await answer.text()

    async def call(who: str, kind: str, body: Any = None) -> tuple[int, str]:
        document = {"type": kind, **({} if body is None else {kind.lower(): body})}
        return await ask(who, "api/v1", data=json.dumps(document))

    for path in (
        *("flags", "metrics/snapshot", "monitor/statistics"),
        *(f"files/{verb}?path={one.sandbox}/stdout&offset=0" for verb in ("read", "download")),
        f"files/browse?path={one.sandbox}",
        f"files/browse?path={one.sandbox}/",
        f"files/browse?path={one.sandbox.replace('/runs/', '//runs/./')}",
    ):
        assert (await ask("ops", path))[0] == 200, path
        assert await ask("eve", path) == (403, "403 Forbidden."), path
    level = {"level": 1, "duration": {"nanoseconds": 10**9}}
    nested = {"container_id": {"value": "n", "parent": {"value": one.container_id}}}
    for kind, body in (
        ("GET_FLAGS", None),
        ("SET_LOGGING_LEVEL", level),
        ("PRUNE_IMAGES", {}),
        ("READ_FILE", {"path": f"{one.sandbox}/stdout", "offset": 0}),
        ("LIST_FILES", {"path": one.sandbox}),
        ("KILL_NESTED_CONTAINER", nested),
    ):
        assert (await call("ops", kind, body))[0] in (200, 400, 404), kind
        assert await call("eve", kind, body) == (403, "403 Forbidden."), kind
    for path in ("state", "containers", "gpus"):
        seen = [await ask(who, path) for who in ("ops", "eve")]
        assert [status for status, _ in seen] == [200, 200], path
        if path != "gpus":
            assert ["hers" in text for _, text in seen] == [True, False], path
    for kind in ("GET_STATE", "GET_TASKS", "GET_CONTAINERS"):
        seen = [await call(who, kind) for who in ("ops", "eve")]
        assert ["hers" in text for _, text in seen] == [True, False], kind
    assert '"flags"' not in (await ask("eve", "state"))[1]


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--authenticate_http_readonly",), "http_credentials"),
        (("--authenticate_http_readwrite",), "http_credentials"),
        (("--authenticate_http_executors",), "jwt_secret_key"),
        (("--authenticate_http_readonly", "--http_authenticators=org_module"), "http_authenticators"),
        (("--authenticate_http_readonly", "--http_authenticators=jwt"), "jwt_secret_key"),
        (("--authorizer=org_module",), "authorizer"),
        (("--acls=nothing",), "acls"),
    ],
)
def test_what_nobody_could_pass_or_nothing_would_judge_is_refused(
    tmp_path: Path, words: tuple[str, ...], flag: str
) -> None:
    with pytest.raises(BadFlag) as refused:
        open_access(flags(tmp_path, *words))
    assert refused.value.flag == flag


def test_an_agent_that_asks_everybody_may_listen_beyond_its_machine(tmp_path: Path, golden: Golden) -> None:
    words = ["--ip=10.0.0.1", "--http_credentials=/x", "--authenticate_http_readonly"]
    with pytest.raises(BadFlag) as refused:
        check_flags(flags(tmp_path, *words))
    assert str(refused.value) == golden
    check_flags(flags(tmp_path, *words, "--authenticate_http_readwrite"))
    check_flags(flags(tmp_path, "--ip=10.0.0.1", "--insecure"))


def test_flags_show_where_secrets_are_and_never_what_they_are(tmp_path: Path) -> None:
    shown = json.dumps(flags_as_text(flags(tmp_path, *secret_files(tmp_path))))
    assert str(tmp_path / "jwt_key") in shown
    assert not any(secret in shown for secret in (*SECRETS.values(), "a key that signs"))
    assert "a key that signs" not in repr(closed(tmp_path))


def test_what_is_not_known_is_guarded_as_what_is_read_and_changed() -> None:
    assert [use_of("something/new", method) for method in ("GET", "HEAD", "POST", "PUT")] == [
        READONLY,
        READONLY,
        READWRITE,
        READWRITE,
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--authenticate_http_readonly", "--authenticate_http_readwrite", "--authenticate_http_executors"), True),
        (("--authenticate_http_readonly", "--authenticate_http_readwrite"), False),
        (("--authenticate_http_readwrite", "--authenticate_http_executors"), False),
        ((), False),
    ],
)
def test_all_requests_are_authenticated_where_all_three_flags_say_so(
    tmp_path: Path, words: tuple[str, ...], expected: bool
) -> None:
    assert authenticates_all(flags(tmp_path, *secret_files(tmp_path), *words)) is expected
