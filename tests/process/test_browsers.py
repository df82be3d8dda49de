"""What web pages may do: nothing, unless they are this service's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from mesos_gpu.agent.api import access as agent_access
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.errors import BadFlag
from mesos_gpu.master.api import access as master_access
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import parse_flags
from mesos_gpu.mesos.security.authorization import Principal
from mesos_gpu.process.access import READWRITE, LiveFiles, basic, open_acls, read_secrets
from mesos_gpu.process.browsers import Names, problem, protect

OURS = Names(own=("gpu1.lab.example.org", "gpu1"), allowed=("gpus.example.com", "*.proxy.net", "ui.example.com:8443"))


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:5050", "10.1.2.3", "[::1]:8080", "localhost:8080", "gpu1:5051", "gpu7", "marathon.mesos:8080"),
        *("gpu1.lab.example.org", "GPU1.lab.example.org.:5050", "head.lab.example.org", "box.local", "x.y.internal"),
        *("gpus.example.com", "gpus.example.com:8080", "a.proxy.net:81", "ui.example.com:8443"),
    ],
)
def test_names_that_nobody_else_can_have_are_ours(host: str) -> None:
    assert OURS.knows(host)
    assert problem("POST", host, None, OURS) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.com", "evil.com:5050", "example.org", "lab.example.org.evil.com", "127.0.0.1.evil.com", "proxy.net"),
        *("ui.example.com:8080", "evil.com.", "1.2.3", "mesos.evil.com", "localhost.evil.com:8080"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_name_made_to_lead_to_us_is_refused(method: str, host: str) -> None:
    told = problem(method, host, None, OURS)
    assert told is not None
    assert f"--http_hosts={host.partition(':')[0].rstrip('.')}" in told


@pytest.mark.parametrize(
    ("origin", "host", "may"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("http://localhost", "localhost", True),
        ("http://localhost", "localhost:80", True),
        ("https://gpu1", "gpu1:443", True),
        ("http://[::1]:8080", "[::1]:8080", True),
        ("https://gpus.example.com", "10.0.0.1:8080", True),
        ("https://ui.example.com:8443", "10.0.0.1:8080", True),
        ("http://a.proxy.net", "10.0.0.1:8080", True),
        ("http://127.0.0.1:31005", "127.0.0.1:8080", False),
        ("https://127.0.0.1:8080", "127.0.0.1:443", False),
        ("http://localhost:8080", "127.0.0.1:8080", False),
        ("http://evil.com", "127.0.0.1:8080", False),
        ("https://gpus.example.com:9000", "10.0.0.1:8080", False),
        ("https://ui.example.com", "10.0.0.1:8080", False),
        ("null", "127.0.0.1:8080", False),
        ("", "127.0.0.1:8080", False),
        ("http://a:b:c", "127.0.0.1:8080", False),
        ("file://", "127.0.0.1:8080", False),
        ("http://127.0.0.1:8080", None, False),
    ],
)
def test_a_page_changes_only_its_own_site(origin: str, host: str | None, may: bool) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (problem(method, host, origin, OURS) is None) is may
    assert problem("GET", host, origin, OURS) is None, "what it may read its browser decides, by our CORS headers"


def test_all_names_may_be_let_in() -> None:
    anybody = Names(allowed=("*",))
    assert problem("POST", "evil.com", "https://evil.org", anybody) is None


async def test_a_refusal_comes_before_all_else_and_says_what_to_do() -> None:
    reached = []

    async def change(request: web.Request) -> web.Response:
        reached.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/change", change)
    protect(app, Names())
    async with TestClient(TestServer(app)) as client:
        answer = await client.post("/change", data=b"x" * 100, headers={"Origin": "http://evil.com"})
        assert (answer.status, reached) == (403, [])
        assert "--http_hosts=evil.com" in await answer.text()
        assert (await client.post("/change", data=b"ours")).status == 200
    assert reached == [b"ours"]


ANNA, BELA = "Basic YW5uYTpzZWNyZXQ=", "Basic YmVsYTpzZWNyZXQ="


def credentials(*names: str) -> str:
    return json.dumps({"credentials": [{"principal": name, "secret": "secret"} for name in names]})


def lists(*names: str, permissive: bool = False) -> str:
    entry = {"principals": {"values": list(names)}, "users": {"type": "ANY"}}
    return json.dumps({"permissive": permissive, "run_tasks": [entry]})


def write(path: Path, text: str) -> None:
    """Replace a file as programs do that must not leave half of one."""
    new = path.with_name("new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)


def test_who_is_in_the_file_now_is_known(tmp_path: Path) -> None:
    path, live = tmp_path / "credentials", LiveFiles()
    write(path, credentials("anna"))
    known = basic("credentials", read_secrets("credentials", str(path), live), asked_by="x")
    assert known.authenticate(ANNA, 0.0) == Principal("anna")
    write(path, credentials("bela"))
    assert known.authenticate(BELA, 0.0) is None
    live.look()
    assert (known.authenticate(ANNA, 0.0), known.authenticate(BELA, 0.0)) == (None, Principal("bela"))


def test_what_the_file_allows_now_is_allowed(tmp_path: Path) -> None:
    path, live = tmp_path / "acls", LiveFiles()
    write(path, lists("anna"))
    acls = open_acls(str(path), live, authenticating=True)

    def may() -> list[bool]:
        return [acls.approved("run_tasks", Principal(name), "root") for name in ("anna", "bela")]

    assert may() == [True, False]
    write(path, lists("bela"))
    live.look()
    assert may() == [False, True]


@pytest.mark.parametrize("form", ["{path}", "file://{path}"])
@pytest.mark.parametrize(
    ("service", "known", "credentials_flag"),
    [(agent_access, AGENT, "http_credentials"), (master_access, MASTER, "credentials")],
    ids=["agent", "master"],
)
def test_a_changed_file_is_read_again_in_each_form_that_names_one(
    tmp_path: Path, service: Any, known: Any, credentials_flag: str, form: str
) -> None:
    files = {"acls": lists, credentials_flag: credentials}
    argv = ["--authenticate_http_readwrite", "--master=127.0.0.1:1", "--work_dir=/x"]
    for flag, text in files.items():
        write(tmp_path / flag, text("anna"))
        argv.append(f"--{flag}={form.format(path=tmp_path / flag)}")
    taken = {flag.name for flag in known.service_flags}
    argv = [word for word in argv if word[2:].partition("=")[0] in taken]
    found = service.open_access(parse_flags(known, argv, {}, read_file=lambda path: Path(path).read_text())[0])

    def allowed() -> list[bool]:
        return [found.acls.approved("run_tasks", Principal(name), "root") for name in ("anna", "bela")]

    def known_callers() -> list[bool]:
        requests = [make_mocked_request("POST", "/", headers={"Authorization": words}) for words in (ANNA, BELA)]
        return [found.gate.refusal(request, READWRITE) is None for request in requests]

    assert (allowed(), known_callers()) == ([True, False], [True, False])
    for flag, text in files.items():
        write(tmp_path / flag, text("bela"))
    found.live.look()
    assert (allowed(), known_callers()) == ([False, True], [False, True])


@pytest.mark.parametrize("text", ["", "{", '{"run_taks": []}', lists("bela", permissive=True)])
def test_a_file_that_cannot_be_used_changes_nothing_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path, live = tmp_path / "acls", LiveFiles()
    write(path, lists("anna"))
    acls = open_acls(str(path), live, authenticating=True)
    write(path, text)
    live.look()
    live.look()
    assert acls.approved("run_tasks", Principal("anna"), "root")
    assert len([message for message in caplog.messages if str(path) in message]) == 1
    path.unlink()
    live.look()
    assert acls.approved("run_tasks", Principal("anna"), "root")


async def test_values_that_are_no_files_are_not_followed(tmp_path: Path) -> None:
    live = LiveFiles()
    assert open_acls(lists("anna"), live, authenticating=True).approved("run_tasks", Principal("anna"), "x")
    assert read_secrets("credentials", None, live) is None
    await live.follow()  # ends at once: there is nothing to look at
    with pytest.raises(BadFlag):
        read_secrets("credentials", str(tmp_path / "nothing"), live)
