"""Files of credentials and lists count again when they change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from mesos_gpu.agent.api import access as agent_access
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.errors import BadFlag
from mesos_gpu.master.api import access as master_access
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import parse_flags
from mesos_gpu.mesos.security.authorization import Principal
from mesos_gpu.process.access import READWRITE, LiveFiles, basic, open_acls, read_secrets

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
