"""A master that wants to know who asks, over real HTTP; and with lists of who may do what."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pymesos import MesosSchedulerDriver
from pymesos import Scheduler as PymesosScheduler
from yarl import URL

from mesos_gpu.errors import BadFlag
from mesos_gpu.master.api.access import FRAMEWORKS, NOBODY_ASKED, open_access, use_of
from mesos_gpu.master.configuration import check_flags, shown_flags
from mesos_gpu.master.events.operators import UpdateWeights
from mesos_gpu.mesos.security.authentication import basic_header
from mesos_gpu.process.access import READONLY, READWRITE
from tests.support.golden import Golden
from tests.support.master.build import framework_info
from tests.support.master.live import JSON, PATIENCE_S, Scheduler, ScriptedAgent, live_master, master_flags, soon
from tests.support.spellings import spellings

SECRETS = {"ops": "s3cret", "spark": "sp:ark", "eve": "eavesdrop"}
REALMS = {READONLY: "mesos-master-readonly", READWRITE: "mesos-master-readwrite", FRAMEWORKS: "mesos-master-scheduler"}
CLOSED = (
    "--authenticate_http_readonly",
    "--authenticate_http_readwrite",
    "--authenticate_http_frameworks",
    "--http_framework_authenticators=basic",
)
ENDPOINTS = {
    NOBODY_ASKED: ("health", "redirect", "version", "system/stats.json", "help"),
    READONLY: (
        *("state", "state-summary", "slaves", "frameworks", "tasks", "roles", "flags", "metrics/snapshot"),
        *("maintenance/status", "files/browse", "files/read", "files/download", "files/debug"),
    ),
    READWRITE: (
        *("api/v1", "teardown", "weights", "quota", "quota/prod", "maintenance/schedule", "machine/down"),
        *("machine/up", "reserve", "unreserve", "create-volumes", "destroy-volumes", "logging/toggle"),
    ),
    FRAMEWORKS: ("api/v1/scheduler",),
}


def credentials(folder: Path) -> str:
    file = folder / "credentials"
    listed = [{"principal": principal, "secret": secret} for principal, secret in SECRETS.items()]
    file.write_text(json.dumps({"credentials": listed}))
    file.chmod(0o600)
    return f"--credentials={file}"


def header(principal: str) -> str:
    return basic_header(principal, SECRETS[principal])


def as_(principal: str) -> dict[str, str]:
    return {"Authorization": header(principal)}


async def test_every_endpoint_asks_in_the_realm_that_it_has_in_mesos(tmp_path: Path) -> None:
    wrong = {"Authorization": basic_header("ops", "guess")}
    async with live_master(tmp_path, credentials(tmp_path), *CLOSED) as master, aiohttp.ClientSession() as session:
        assert {name for name in master_endpoints(master.url, await help_of(session, master.url))} <= {
            name for names in ENDPOINTS.values() for name in names
        }, "a new endpoint needs a realm"
        for use, names in ENDPOINTS.items():
            for name in names:
                for prefix in ("", "master/"):
                    url = f"{master.url}/{prefix}{name}"
                    for headers in ({}, wrong):
                        async with session.get(url, headers=headers, allow_redirects=False) as answer:
                            if use == NOBODY_ASKED:
                                assert answer.status in (200, 307), name
                                continue
                            assert answer.status == 401, name
                            assert answer.headers["WWW-Authenticate"] == f'Basic realm="{REALMS[use]}"'
                            assert await answer.text() == "401 Unauthorized."
                async with session.get(f"{master.url}/{name}", headers=as_("ops"), allow_redirects=False) as answer:
                    assert answer.status < 500, name
                    assert answer.status not in (401, 403), name
        # What is no endpoint is none for anybody; no spelling of one is a way around it.
        for name in ("state", "api/v1", "files/read", "api/v1/scheduler", "quota"):
            for path in spellings(name, "master"):
                for method in ("GET", "POST", "HEAD", "PUT"):
                    async with session.request(method, URL(f"{master.url}/{path}", encoded=True)) as answer:
                        assert answer.status in (401, 404), (method, path)


async def help_of(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(f"{url}/help") as answer:
        return await answer.text()


def master_endpoints(url: str, text: str) -> list[str]:
    return [line.removeprefix("/") for line in text.splitlines() if line.startswith("/")]


@pytest.mark.parametrize("use", [READONLY, READWRITE])
async def test_reading_and_changing_are_closed_one_by_one(tmp_path: Path, use: str) -> None:
    flag = f"--authenticate_http_{use}"
    async with live_master(tmp_path, credentials(tmp_path), flag) as master, aiohttp.ClientSession() as session:
        for path, needs in (("state", READONLY), ("weights", READWRITE)):
            async with session.get(f"{master.url}/{path}") as answer:
                assert answer.status == (401 if use == needs else 200)
        scheduler = Scheduler(master.url)
        try:
            await scheduler.subscribe()
        finally:
            await scheduler.close()


async def test_a_framework_is_who_it_has_shown_to_be(tmp_path: Path) -> None:
    async with live_master(tmp_path, credentials(tmp_path), *CLOSED) as master:
        scheduler = Scheduler(master.url)
        try:
            assert await scheduler.open(framework_info()) == 401
            assert scheduler.headers["WWW-Authenticate"] == 'Basic realm="mesos-master-scheduler"'
            await scheduler.event("REFUSED")
            assert await scheduler.open(framework_info(principal="ops"), Authorization=header("spark")) == 400
            words = "Authenticated principal 'spark' does not match principal 'ops' set in `FrameworkInfo`"
            assert await scheduler.event("REFUSED") == f"Failed to validate scheduler::Call: {words}"
            assert await scheduler.open(framework_info(), Authorization=header("spark")) == 200
            scheduler.framework_id = (await scheduler.event("SUBSCRIBED"))["framework_id"]["value"]
            [framework] = master.engine.state.frameworks.values()
            assert framework.info["principal"] == "spark"
            answer = await scheduler.call("TEARDOWN", Authorization=header("eve"))
            assert (answer.status, await answer.text()) == (400, words.replace("spark", "eve").replace("ops", "spark"))
            assert (await scheduler.call("TEARDOWN", Authorization=header("spark"))).status == 202
        finally:
            await scheduler.close()


async def test_a_plain_pymesos_framework_shows_who_it_is(tmp_path: Path) -> None:
    class Waiting(PymesosScheduler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.subscribed = threading.Event()

        def registered(self, driver: Any, framework_id: Any, master_info: Any) -> None:
            self.subscribed.set()

    async with live_master(tmp_path, credentials(tmp_path), *CLOSED) as master:
        scheduler = Waiting()
        info = {"name": "plain", "user": "root", "principal": "spark"}
        address = master.url.removeprefix("http://")
        driver = MesosSchedulerDriver(scheduler, info, address, principal="spark", secret=SECRETS["spark"])
        await asyncio.to_thread(driver.start)
        try:
            assert await asyncio.to_thread(scheduler.subscribed.wait, PATIENCE_S)
            [framework] = master.engine.state.frameworks.values()
            assert framework.info["principal"] == "spark"
        finally:
            await asyncio.to_thread(driver.stop)
            await asyncio.to_thread(driver.join)


def list_of(who: str, objects: str, *values: str) -> list[dict[str, Any]]:
    allowed = {"values": list(values)} if values else {"type": "ANY"}
    return [{"principals": {"values": [who]}, objects: allowed}, {"principals": {"type": "NONE"}, objects: allowed}]


LISTS = {
    "view_frameworks": list_of("ops", "users", "alice"),
    "view_flags": list_of("ops", "flags"),
    "view_roles": list_of("ops", "roles", "prod"),
    "get_quotas": list_of("ops", "roles", "prod"),
    "update_weights": list_of("ops", "roles", "prod"),
    "update_quotas": list_of("ops", "roles", "prod"),
    "get_maintenance_schedules": list_of("ops", "machines"),
    "get_maintenance_statuses": list_of("ops", "machines"),
    "update_maintenance_schedules": list_of("ops", "machines"),
    "start_maintenances": list_of("ops", "machines"),
    "get_endpoints": list_of("ops", "paths", "/metrics/snapshot", "/logging/toggle", "/files/debug"),
    "access_mesos_logs": list_of("ops", "logs"),
    "set_log_level": list_of("ops", "level"),
    "teardown_frameworks": list_of("ops", "framework_principals", "spark"),
    "register_frameworks": list_of("spark", "roles", "prod"),
    "mark_agents_gone": list_of("ops", "agents"),
}
LOG_LEVEL = {"level": 1, "duration": {"nanoseconds": 10**9}}
GONE = {"agent_id": {"value": "none"}}


FORBIDDEN: dict[str, Any] = {
    "flags": {},
    "metrics/snapshot": {},
    "logging/toggle": {},
    "files/debug": {},
    "files/download?path=/master/log": {},
    "files/read?path=/master/log&offset=0": {},
    "weights": {"method": "PUT", "data": json.dumps([{"role": "prod", "weight": 2.0}])},
    "quota": {"method": "POST", "data": json.dumps({"role": "prod", "force": True, "guarantee": []})},
    "quota/prod": {"method": "DELETE"},
    "maintenance/schedule": {"method": "POST", "data": "{}"},
    "machine/down": {"method": "POST", "data": json.dumps([{"hostname": "x"}])},
}
"""What `ops` may do and `eve` may not."""
FORBIDDEN_CALLS = (
    ("GET_FLAGS", None),
    ("READ_FILE", {"path": "/master/log", "offset": 0}),
    ("SET_LOGGING_LEVEL", LOG_LEVEL),
    ("UPDATE_WEIGHTS", {"weight_infos": [{"role": "prod", "weight": 2.0}]}),
    ("MARK_AGENT_GONE", GONE),
)
LEFT_OUT = (
    ("state", "hers"),
    ("state", '"flags"'),
    ("state-summary", "hers"),
    ("frameworks", "hers"),
    ("roles", "prod"),
    ("weights", "prod"),
)
"""Paths, and a word that `ops` sees there and `eve` does not."""


class Askers:
    """Two operators at a master: `ops`, who may, and `eve`, who may not."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def ask(self, who: str, path: str, **more: Any) -> tuple[int, str]:
        method = "GET" if not more else more.pop("method", "POST")
        headers = {**JSON, **as_(who)}
        async with self._session.request(method, f"{self._url}/{path}", headers=headers, **more) as answer:
            return answer.status, await answer.text()

    async def call(self, who: str, kind: str, body: Any = None) -> tuple[int, str]:
        document = {"type": kind, **({} if body is None else {kind.lower(): body})}
        return await self.ask(who, "api/v1", data=json.dumps(document))

    async def both(self, path: str, **more: Any) -> tuple[tuple[int, str], tuple[int, str]]:
        return await self.ask("ops", path, **more), await self.ask("eve", path, **more)

    async def stream(self, who: str) -> bytes:
        """Return how a stream of operator events begins."""
        subscribe, headers = json.dumps({"type": "SUBSCRIBE"}), {**JSON, **as_(who)}
        async with self._session.post(f"{self._url}/api/v1", data=subscribe, headers=headers) as stream:
            return await soon(stream.content.readuntil(b"}")) + await soon(stream.content.readany())

    async def teardown(self, who: str, framework_id: str) -> int:
        """End a framework with a form; return the answer's status."""
        form = aiohttp.FormData({"frameworkId": framework_id})
        async with self._session.post(f"{self._url}/teardown", data=form, headers=as_(who)) as answer:
            return answer.status


async def _subscribed_as_spark(scheduler: Scheduler) -> str:
    """Subscribe in a role that `spark` may have and `eve` may not; return the framework's id."""
    info = framework_info("hers", user="alice", capabilities="MULTI_ROLE", roles=["prod"])
    assert await scheduler.open(dict(info), Authorization=header("eve")) == 200
    refusal = await scheduler.event("ERROR")
    assert refusal["message"] == "Not authorized to register framework  with roles { prod }"
    assert await soon(scheduler.events.get()) is None
    assert await scheduler.open(dict(info), Authorization=header("spark")) == 200
    return str((await scheduler.event("SUBSCRIBED"))["framework_id"]["value"])


async def _check_what_is_forbidden(askers: Askers) -> None:
    for path, more in FORBIDDEN.items():
        allowed, refused = await askers.both(path, **more)
        assert allowed[0] in (200, 400), (path, allowed)
        assert refused == (403, "403 Forbidden."), path
    for kind, body in FORBIDDEN_CALLS:
        assert (await askers.call("ops", kind, body))[0] in (200, 400, 404), kind
        assert await askers.call("eve", kind, body) == (403, "403 Forbidden."), kind


async def _check_what_is_left_out(askers: Askers) -> None:
    for path, word in LEFT_OUT:
        allowed, refused = await askers.both(path)
        assert (allowed[0], refused[0]) == (200, 200), path
        assert (word in allowed[1], word in refused[1]) == (True, False), path
    for kind, word in (("GET_FRAMEWORKS", "hers"), ("GET_ROLES", "prod"), ("GET_WEIGHTS", "prod")):
        seen = [word in (await askers.call(who, kind))[1] for who in ("ops", "eve")]
        assert seen == [True, False], kind


async def test_lists_say_who_may_do_what_over_every_door(tmp_path: Path) -> None:
    log, lists = tmp_path / "log", tmp_path / "acls.json"
    log.write_text("a line")
    lists.write_text(json.dumps(LISTS))
    words = (credentials(tmp_path), *CLOSED, f"--acls={lists}", f"--external_log_file={log}", "--cluster=c")
    async with live_master(tmp_path, *words) as master, aiohttp.ClientSession() as session:
        askers, scheduler = Askers(session, master.url), Scheduler(master.url)
        try:
            framework_id = await _subscribed_as_spark(scheduler)
            await _check_what_is_forbidden(askers)
            await master.engine.store(UpdateWeights([{"role": "prod", "weight": 2.0}]))
            await _check_what_is_left_out(askers)
            assert [b"hers" in await askers.stream(who) for who in ("ops", "eve")] == [True, False]
            ending = {"framework_id": {"value": framework_id}}
            assert await askers.call("eve", "TEARDOWN", ending) == (403, "403 Forbidden.")
            assert await askers.teardown("eve", framework_id) == 403
            assert (await askers.call("ops", "TEARDOWN", ending))[0] == 200
        finally:
            await scheduler.close()


async def test_an_agent_without_leave_is_told_to_go(tmp_path: Path) -> None:
    lists = json.dumps({"register_agents": list_of("agents", "agents")})
    async with live_master(tmp_path, f"--acls={lists}") as master:
        agent = ScriptedAgent(master.url)
        await agent.start()
        try:
            agent.introduce("RegisterSlaveMessage")
            told = await agent.message("ShutdownMessage")
            assert told["message"].startswith("Not authorized to register agent providing resources '")
            agent.introduce("ReregisterSlaveMessage", slave={**agent.info(), "id": {"value": "x-S0"}})
            told = await agent.message("ShutdownMessage")
            assert told["message"].startswith("Not authorized to reregister agent")
            assert not master.engine.state.agents
        finally:
            await agent.stop()


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--authenticate_http_readonly",), "credentials"),
        (("--authenticate_http_readwrite",), "credentials"),
        (("--authenticate_http_frameworks", "--http_framework_authenticators=basic"), "credentials"),
        (("--authenticate_http_frameworks",), "http_framework_authenticators"),
        (("--http_authenticators=org_module",), "http_authenticators"),
        (("--authorizers=org_module",), "authorizers"),
        (("--acls={}x",), "acls"),
        (("--acls=/none",), "acls"),
    ],
)
def test_what_nobody_could_pass_or_nothing_would_judge_is_refused(
    tmp_path: Path, words: tuple[str, ...], flag: str
) -> None:
    with pytest.raises(BadFlag) as refused:
        open_access(master_flags(tmp_path, *words))
    assert refused.value.flag == flag


def test_a_master_that_asks_everybody_may_listen_beyond_its_machine(tmp_path: Path) -> None:
    asked = [*CLOSED, "--authenticate_agents"]
    words = ["--ip=10.0.0.1", credentials(tmp_path)]
    check_flags(master_flags(tmp_path, *words, *asked))
    for flag in asked:
        if flag.startswith("--authenticate"):
            with pytest.raises(BadFlag, match=f"say {flag} with"):
                check_flags(master_flags(tmp_path, *words, *(other for other in asked if other != flag)))


def test_lists_without_anybody_asked_are_worth_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    open_access(master_flags(tmp_path, "--acls={}", credentials(tmp_path), *CLOSED))
    assert not caplog.messages
    open_access(master_flags(tmp_path, "--acls={}"))
    assert caplog.messages == golden


def test_flags_show_where_secrets_are_and_never_what_they_are(tmp_path: Path) -> None:
    words = credentials(tmp_path)
    for given in (words, words.replace("=/", "=file:///")):
        shown = json.dumps(shown_flags(master_flags(tmp_path, given)))
        assert str(tmp_path / "credentials") in shown
        assert not any(secret in shown for secret in SECRETS.values())


def test_what_is_not_known_is_guarded_as_what_is_read() -> None:
    assert use_of("something/new", "POST") == READONLY
